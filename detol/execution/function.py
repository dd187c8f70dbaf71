"""An executor for a person's own callable in place of training: ``detol.optimize(space, evaluate=...)``.

Threads: with one worker everything happens inside ``poll``, in the caller's thread; with more, each job has a daemon
thread of its own, and events reach the controller through a queue.
"""

import contextlib
import math
import numbers
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detol.errors import CheckpointError, Diverged, TimedOut, UsageError
from detol.execution.position import epoch_of, position
from detol.search.records import Candidate, Ended, Event, Job, Report, Reported, State
from detol.workers.outcome import outcome

_DONE = object()
SUSPENDED = 64
"""Paused iterators that are kept; of others the callable is called again, and what is known already is skipped."""


class FunctionExecutor:
    """Evaluates candidates by a callable; implements :class:`~detol.search.protocols.Executor`.

    The callable gets a :class:`~detol.search.records.Candidate` and returns a number, or metrics by name, or an
    iterator of either (one item per epoch; it is closed after the job's epochs, and asked for no more after a stop).
    What it raises makes the trial FAILED with the type and message; a value that is not finite makes it DIVERGED.

    Args:
        evaluate: the callable; called from several threads at once when ``workers`` > 1.
        metric: name of the metric that a plain number is.
        workers: how many jobs run side by side, >= 1.

    A job's time limit is checked between items: a callable that never returns cannot be interrupted.

    A job that pauses keeps its iterator in this process and goes on with it. Where that is gone (another process, or
    more than ``SUSPENDED`` that pause), the callable is called again and the items of the epochs that are over are
    skipped, so it should give the same again. A single result stands at the last epoch: such a job never pauses.

    Raises:
        UsageError: fewer than 1 worker.
    """

    def __init__(self, evaluate: Callable[[Candidate], Any], *, metric: str = "score", workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"workers must be >= 1, got {workers}")
        self._evaluate, self._metric, self._workers = evaluate, metric, workers
        self._runs: dict[int, _Run] = {}
        self._suspended: dict[int, _Run] = {}
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._closed = False

    def free(self) -> int:
        """Return how many more jobs could start now."""
        return 0 if self._closed else self._workers - len(self._runs)

    def submit(self, job: Job) -> None:
        """Start a job; with one worker it is run by the next polls."""
        if job.width != 1 or self.free() < 1:
            raise UsageError(f"{self.free()} jobs of width 1 can start now, got one of width {job.width}: wait")
        run = _Run(job, self._evaluate, self._metric)
        before = self._suspended.pop(job.number, None)
        if before and job.checkpoint == position(before.epoch):
            run.items, run.epoch = before.items, before.epoch
        elif before:
            before.close()
        self._runs[job.number] = run
        if self._workers > 1:
            threading.Thread(target=self._conduct, args=(run,), name=f"detol-job-{job.number}", daemon=True).start()

    def cancel(self, number: int) -> None:
        """Ask for no further items of a job; unknown numbers are ignored."""
        if number in self._runs:
            self._runs[number].stop = True

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return what happened; with one worker, evaluate until there is one event."""
        events = self._wait(timeout) if self._workers > 1 else [run.advance() for run in self._runs.values()]
        for event in events:
            if isinstance(event, Ended):
                run = self._runs.pop(event.number)
                if event.state is State.PAUSED:
                    self._suspend(run)
        return events

    def _suspend(self, run: "_Run") -> None:
        self._suspended[run.job.number] = run
        if len(self._suspended) > SUSPENDED:
            self._suspended.pop(next(iter(self._suspended))).close()

    def close(self) -> None:
        """Forget all jobs; idempotent. Calls that are running end by themselves, unheard."""
        self._closed = True
        for run in self._runs.values():
            run.stop = True
        self._runs.clear()
        for run in self._suspended.values():
            run.close()
        self._suspended.clear()

    def _wait(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        with contextlib.suppress(queue.Empty):
            events.append(self._events.get(timeout=max(0.0, timeout)))
            while True:
                events.append(self._events.get_nowait())
        return [] if self._closed else events

    def _conduct(self, run: "_Run") -> None:
        while not self._closed:
            event = run.advance()
            self._events.put(event)
            if isinstance(event, Ended):
                return


@dataclass
class _Run:
    """One job on its way: each :meth:`advance` is one event."""

    job: Job
    evaluate: Callable[[Candidate], Any]
    metric: str
    stop: bool = False
    began: float = field(default_factory=time.monotonic)
    epoch: int = 0
    items: Iterator[Any] | None = None

    def advance(self) -> Event:
        """Return the next report, or the end."""
        number = self.job.number
        if self.stop and self.epoch < self.job.epochs:
            return self._end(State.STOPPED, "stopped between two results")
        if self.epoch >= self.job.epochs:
            return self._end(State.COMPLETED)
        if 0 < self.job.until <= self.epoch:
            return Ended(number, State.PAUSED, weights=position(self.epoch))
        started = time.monotonic()
        try:
            if self.items is None:
                self.items = self._start()
                self._skip(self.items)
            item = next(self.items, _DONE)
            if item is _DONE and self.epoch:
                return self._end(State.COMPLETED)
            if item is _DONE or item is None:
                raise TypeError("evaluate gave no result: return a number or metrics by name, or yield them")
            metrics = self._metrics(item)
            if time.monotonic() - self.began > self.job.limit:
                raise TimedOut(f"the limit of {self.job.limit:g} s passed in epoch {self.epoch + 1}")
        except Exception as error:  # a trial's failure is a result
            return self._end(*outcome(error))
        self.epoch += 1
        return Reported(number, Report(self.epoch, metrics, time.monotonic() - started))

    def _start(self) -> Iterator[Any]:
        result = self.evaluate(self.job.candidate)
        if isinstance(result, Iterator):
            return result
        # A single result is that of the whole training, so it stands at its last epoch.
        self.epoch = self.job.epochs - 1
        return iter([result])

    def _skip(self, items: Iterator[Any]) -> None:
        """Go on where the job's checkpoint is, in an iterator that starts from its beginning."""
        if self.job.checkpoint is None:
            return
        over = epoch_of(self.job.checkpoint, self.job.epochs)
        while self.epoch < over and not self.stop:
            if next(items, _DONE) is _DONE:
                raise CheckpointError(f"evaluate gave {self.epoch} results, but {over} before it paused")
            self.epoch += 1

    def _metrics(self, item: Any) -> dict[str, float]:
        values = item if isinstance(item, Mapping) else {self.metric: item}
        metrics = {}
        for name, value in values.items():
            if not isinstance(value, numbers.Real) and not hasattr(value, "__float__"):
                raise TypeError(f"evaluate must return numbers, got {type(value).__name__} for {name}")
            metrics[str(name)] = float(value)
            if not math.isfinite(metrics[str(name)]):
                raise Diverged(f"{name} is {metrics[str(name)]}")
        return metrics

    def close(self) -> None:
        """Let the callable clean up behind what it will not be asked for."""
        close = getattr(self.items, "close", None)
        if close:
            with contextlib.suppress(Exception):  # the result is there already
                close()
        self.items = None

    def _end(self, state: State, reason: str = "") -> Ended:
        self.close()
        return Ended(self.job.number, state, reason)
