"""An executor and a clock in simulated time: a search of hours on a thousand workers runs in seconds, on the same code.

A table answers in place of training: what a candidate scores, and how long it takes.
"""

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from detol.errors import CheckpointError, UsageError
from detol.execution.position import epoch_of, position
from detol.search.protocols import Strategy
from detol.search.records import Candidate, Ended, Event, Job, Report, Reported, State, Trial


class SimulatedClock:
    """Time that passes only when it is told to (keeps :class:`detol.search.protocols.Clock`).

    Args:
        start: seconds at the beginning.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return simulated seconds."""
        return self._now

    def pass_(self, seconds: float) -> None:
        """Let some time pass, >= 0."""
        if not seconds >= 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        self._now += seconds

    def wait(self, seconds: float) -> None:
        """Let some time pass at once."""
        self.pass_(seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """What training a candidate would give.

    Args:
        metrics: by name, in natural units, after the last epoch.
        seconds: how long the whole training takes, >= 0.
        curve: the metrics after each epoch, as many as the job has epochs; empty where the table knows the last alone.
        wide: seconds of the whole training at a width, where they depend on it; ``None``: ``seconds`` at any width.
        setup: seconds before a job of more than one rank begins.
    """

    metrics: Mapping[str, float]
    seconds: float
    curve: Sequence[Mapping[str, float]] = ()
    wide: Callable[[int], float] | None = None
    setup: float = 0.0

    def at(self, width: int) -> float:
        """Return the seconds of the whole training at a width, without the set-up."""
        return self.seconds if self.wide is None else self.wide(width)


class Table(Protocol):
    """Known results of trainings."""

    def answer(self, candidate: Candidate) -> Answer:
        """Return the result of one training.

        Raises:
            UsageError: the table does not hold the candidate.
        """
        ...


class SimulatedExecutor:
    """Answers jobs from a table after the time they would take; implements the ``Executor`` protocol.

    Where the table knows the curve, a job has a report after each epoch, all epochs taking as long, pauses at its
    ``until``, and goes on from a checkpoint: only the epochs that it runs are charged. Otherwise it has one report, of
    its last epoch, and never pauses. The end comes at once after the last report. ``poll`` never waits: it moves the
    clock to the next event, whatever its ``timeout``, and returns all that happened by then. Memory is bounded by the
    number of workers.

    Args:
        table: the results.
        clock: moved by ``poll``.
        workers: how many there are, >= 1.

    Attributes:
        busy: worker-seconds of the jobs that have ended.

    Raises:
        UsageError: no workers.
    """

    def __init__(self, table: Table, clock: SimulatedClock, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"a simulation has at least 1 worker, got {workers}")
        self.busy = 0.0
        self._table, self._clock, self._workers = table, clock, workers
        self._running: dict[int, _Running] = {}
        self._used = 0
        self._started = 0.0  # sum over running jobs of width times start
        self._full = (0.0, 0.0)  # at the last submission: the time, and worker-seconds in use until then
        self._queue: list[tuple[float, int, _Running]] = []
        self._cancelled: dict[int, None] = {}
        self._failed: list[Event] = []

    def free(self) -> int:
        """Return how many workers are idle."""
        return self._workers - self._used

    @property
    def utilisation(self) -> float:
        """Share of the workers' time that was in use until the last job started, in [0, 1].

        What comes after is not counted: then there is nothing left to hand out. 1 while all jobs started at time 0.
        """
        until, used = self._full
        return used / (self._workers * until) if until > 0 else 1.0

    def submit(self, job: Job) -> None:
        """Start a job now."""
        if job.width > self.free():
            raise UsageError(f"{self.free()} workers are free, got a job of width {job.width}: wait")
        answer = self._table.answer(job.candidate)
        started = self._clock.now()
        self._full = (started, self.busy + self._used * started - self._started)
        try:
            run = _Running(job, answer, started)
        except CheckpointError as error:  # a trial's failure is a result
            self._failed.append(Ended(job.number, State.FAILED, f"CheckpointError: {error}"))
            return
        self._running[job.number] = run
        self._used += job.width
        self._started += job.width * started
        heapq.heappush(self._queue, (run.next, job.number, run))

    def cancel(self, number: int) -> None:
        """Stop a job now; unknown numbers are ignored."""
        if number in self._running:
            self._cancelled[number] = None

    def poll(self, timeout: float) -> Sequence[Event]:  # noqa: ARG002  simulated time costs none
        """Return what was cancelled; otherwise move the clock to the next event and return what is over by then."""
        if self._failed:
            failed, self._failed = self._failed, []
            return failed
        if self._cancelled:
            stopped = [self._end(number, self._clock.now(), State.STOPPED) for number in self._cancelled]
            self._cancelled.clear()
            return [event for events in stopped for event in events]
        events: list[Event] = []
        while self._queue and self._gone(self._queue[0][2]):
            heapq.heappop(self._queue)  # of a job that was cancelled
        if self._queue:
            self._clock.pass_(max(0.0, self._queue[0][0] - self._clock.now()))
        while self._queue and self._queue[0][0] <= self._clock.now():
            when, number, run = heapq.heappop(self._queue)
            if self._gone(run):
                continue
            if run.late:
                events += self._end(number, when, State.TIMED_OUT)
                continue
            events.append(Reported(number, run.report()))
            if run.epoch == run.job.epochs:
                events += self._end(number, when, State.COMPLETED)
            elif run.epoch == run.job.until:
                events += self._end(number, when, State.PAUSED)
            else:
                heapq.heappush(self._queue, (run.next, number, run))
        return events

    def close(self) -> None:
        """Forget all jobs; idempotent."""
        self._running.clear()
        self._queue.clear()
        self._used = self._workers

    def _gone(self, run: "_Running") -> bool:
        return self._running.get(run.job.number) is not run

    def _end(self, number: int, when: float, state: State) -> list[Event]:
        run = self._running.pop(number)
        self._used -= run.job.width
        self._started -= run.job.width * run.started
        self.busy += run.job.width * (when - run.started)
        if state is State.PAUSED:
            return [Ended(number, state, weights=position(run.epoch))]
        if state is State.COMPLETED:
            return [Ended(number, state, extra={"simulated_end": when})]
        reason = "" if state is State.STOPPED else f"longer than its limit of {run.job.limit:g} s"
        return [Ended(number, state, reason)]


@dataclass
class _Running:
    """A job on its way.

    Args:
        job: what runs.
        answer: what the table says of it.
        started: when.
    """

    job: Job
    answer: Answer
    started: float

    def __post_init__(self) -> None:
        job, curve = self.job, self.answer.curve
        if curve and len(curve) != job.epochs:
            raise UsageError(f"the table knows {len(curve)} epochs of trial {job.number}, it has {job.epochs}")
        self.first = epoch_of(job.checkpoint, job.epochs) if job.checkpoint and curve else 0
        self.epoch = self.first
        self.pace = self.answer.at(job.width) / (job.epochs if curve else 1)
        self.setup = self.answer.setup if job.width > 1 else 0.0

    @property
    def late(self) -> bool:
        """Whether the job's limit passes before that."""
        return self._over > self.job.limit

    @property
    def next(self) -> float:
        """When something happens next."""
        return self.started + min(self._over, self.job.limit)

    @property
    def _over(self) -> float:
        """Seconds from the start of the job to the end of its next epoch."""
        return self.setup + self.pace * (self.epoch - self.first + 1)

    def report(self) -> Report:
        """Return the next report."""
        self.epoch = self.epoch + 1 if self.answer.curve else self.job.epochs
        metrics = self.answer.curve[self.epoch - 1] if self.answer.curve else self.answer.metrics
        return Report(self.epoch, metrics, self.pace)

    def __lt__(self, other: "_Running") -> bool:
        """Break ties of the queue; the same trial is there twice only when one of them is gone."""
        return self.started < other.started


class Charged:
    """A strategy whose own time passes on a simulated clock: workers that wait for it are idle.

    Args:
        strategy: what is charged.
        clock: what its time is charged to.

    Attributes:
        seconds: real seconds spent in ``ask`` and ``tell``.
    """

    def __init__(self, strategy: Strategy, clock: SimulatedClock) -> None:
        self.seconds = 0.0
        self._strategy, self._clock = strategy, clock

    def ask(self, count: int) -> Sequence[Candidate]:
        """Ask, and let the time it took pass."""
        start = time.perf_counter()
        candidates = self._strategy.ask(count)
        self._charge(start)
        return candidates

    def tell(self, trials: Sequence[Trial]) -> None:
        """Tell, and let the time it took pass."""
        start = time.perf_counter()
        self._strategy.tell(trials)
        self._charge(start)

    def _charge(self, start: float) -> None:
        taken = time.perf_counter() - start
        self.seconds += taken
        self._clock.pass_(taken)
