"""The controller: proposes, dispatches, judges, records. It knows the seams (``protocols``) and nothing behind them.

One thread owns everything here. Each turn of the loop fills the free workers, waits for events, handles them, and
commits; a crash therefore loses at most what happened since the last turn, and the log always fits the trials.
"""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from detol.errors import DetolError
from detol.graph.topology import chain
from detol.search.answer import answer
from detol.search.history import TIME_UP, History, copy, replay
from detol.search.protocols import Clock, Executor, Keeper, Stopper, Store, Strategy, Tracker
from detol.search.records import (
    Candidate,
    Ended,
    Event,
    Job,
    Origin,
    Report,
    Reported,
    State,
    Trial,
    Verdict,
)
from detol.search.scoring import with_end, with_report
from detol.search.seeds import trial_seed
from detol.search.tally import Tally
from detol.search.task import Outcome, Task
from detol.spaces.decisions import Decisions

POLL_SECONDS = 0.2


class Controller:
    """Runs one search until its limits, the end of its space, or an interrupt.

    Args:
        task: what is searched for.
        strategy, stopper, executor, store, tracker, keeper, clock: the running parts, owned by the controller while
            ``run`` lasts (the caller closes executor and tracker).
        consumed: seconds that earlier runs of this search consumed.
        twin: history of an identical search, whose results answer this one as far as they go.
        watch: called once a turn with the controller itself, for progress.
        warn: called with one line for people.
    """

    def __init__(
        self,
        task: Task,
        *,
        strategy: Strategy,
        stopper: Stopper,
        executor: Executor,
        store: Store,
        tracker: Tracker,
        keeper: Keeper,
        clock: Clock,
        consumed: float = 0.0,
        twin: History | None = None,
        watch: Callable[["Controller"], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.task, self.tally = task, Tally()
        self.running: dict[int, Trial] = {}
        self._strategy, self._stopper, self._executor = strategy, stopper, executor
        self._store, self._tracker, self._keeper, self._clock = store, tracker, keeper, clock
        self._consumed, self._mark = consumed, clock.now()
        self._twin, self._watch, self._warn = twin, watch, warn
        self._references: deque[Candidate] = deque()
        self._again: deque[Trial] = deque()
        self._untold: list[Trial] = []
        self._peers: list[Trial] = []
        self._stopping: dict[int, str] = {}
        self._retried: set[int] = set()
        self._next, self._refused_in_a_row, self._quiet_since = 0, 0, clock.now()
        self._ended, self._interrupted = "", False

    @property
    def seconds(self) -> float:
        """Consumed seconds so far, earlier runs of this search included."""
        return self._consumed + self._clock.now() - self._mark

    def interrupt(self) -> None:
        """Ask the run to end at its next turn; what runs is left to a resume. Safe in a signal handler."""
        self._interrupted = True

    def run(self) -> Outcome:
        """Search, and return how it ended.

        Raises:
            DetolError: no worker ever came up, or the store cannot be written.
        """
        self._mark = self._quiet_since = self._clock.now()
        self._restore()
        while not self._interrupted:
            if self.seconds >= self.task.limits.seconds:
                self._time_is_up()
            self._fill()
            self._watch(self)
            if self._ended and not self.running and not self._again:
                break
            self._expect_a_worker()
            for event in self._executor.poll(POLL_SECONDS):
                self._handle(event)
            self._commit()
        self._log_untold()
        self._commit()
        self._watch(self)
        over = bool(self._ended) and not self.running and not self._again
        return Outcome(self.tally, self.seconds, self._ended if over else "interrupted", not over)

    # -- starting trials -------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Give the free workers something to do."""
        while self._again or not self._ended:
            left = self.task.limits.trials - self.tally.trials - len(self.running)
            if not self._again and left < 1:
                self._ended = "" if self.running else f"all {self.task.limits.trials:g} trials are done"
                return
            room = self._executor.free() // self.task.width
            if room < 1:
                return
            if self._again:
                self._submit(self._again.popleft())
                continue
            candidates = self._candidates(int(min(room, left)))
            for candidate in candidates:
                self._place(candidate)
            if not candidates:
                self._ended = f"the space {self.task.space.name} is exhausted: every topology in it was proposed"
            elif self._refused_in_a_row >= self.task.limits.refusals:
                self._ended = f"{self._refused_in_a_row} candidates in a row were refused: raise the limits"
            self._commit()

    def _candidates(self, count: int) -> Sequence[Candidate]:
        if self._references:
            return [self._references.popleft()]
        told, self._untold = self._untold, []
        self._strategy.tell(told)
        self._store.step(count, [trial.number for trial in told])
        return self._strategy.ask(count)

    def _new(self, candidate: Candidate) -> Trial:
        number, self._next = self._next, self._next + 1
        return Trial(
            number,
            candidate,
            State.RUNNING,
            self.task.epochs,
            seed=trial_seed(self.task.seed, candidate.digest),
            width=self.task.width,
        )

    def _place(self, candidate: Candidate) -> None:
        """Make a trial of a candidate: refuse it, answer it, or submit it."""
        trial = self._admit(candidate)
        if trial:
            self._submit(trial)

    def _admit(self, candidate: Candidate) -> Trial | None:
        """Make a trial of a candidate, and return it if it is to be trained: it was neither refused nor answered."""
        trial = self._new(candidate)
        assessment = self.task.assess(candidate)
        trial = replace(trial, extra=dict(assessment.costs))
        if assessment.refusal:
            self._refused_in_a_row += 1
            self._finish(replace(trial, state=State.REFUSED, reason=assessment.refusal), new=True)
            return None
        self._refused_in_a_row = 0
        known = self._store.known(
            candidate.digest, self.task.recipe.digest, self.task.data, self.task.epochs, candidate.topology
        )
        answered = answer(trial, known, self._stopper, self._others(trial), self.task.objectives) if known else None
        if answered:
            self._finish(answered, new=True)
            return None
        self._store.add(trial)
        self._tracker.record(trial, None)
        return trial

    def _submit(self, trial: Trial) -> None:
        self.running[trial.number] = trial
        limit = self.task.limits.trial_seconds
        job = Job(
            trial.number, trial.candidate, self.task.recipe, trial.epochs, trial.seed, trial.width, limit, trial.attempt
        )
        self._executor.submit(job)

    def _expect_a_worker(self) -> None:
        """Give up when no worker comes up at all (watchdog: work is waiting and nothing runs)."""
        limit = self.task.limits.start_seconds
        if self.running or self._executor.free() >= self.task.width:
            self._quiet_since = self._clock.now()
        elif self._clock.now() - self._quiet_since > limit:
            raise DetolError(f"{self.task.width} free workers are needed and none came up within {limit:g} s")

    def _time_is_up(self) -> None:
        """Start nothing more, and stop what runs; what waits for another attempt is left to a resume with more time."""
        self._ended = self._ended or f"the time is used up: {self.task.limits.seconds:g} s"
        self._again.clear()
        for number in self.running:
            self._stop(number, TIME_UP)

    # -- following trials ------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if event.number not in self.running:
            return  # of an attempt that was given up
        if isinstance(event, Reported):
            self._reported(self.running[event.number], event)
        else:
            self._over(self.running[event.number], event)

    def _reported(self, trial: Trial, event: Reported) -> None:
        trial = with_report(trial, event.report, self.task.objectives)
        self.running[trial.number] = trial
        self._store.record(trial, event)
        self._tracker.record(trial, event)
        if trial.epoch >= trial.epochs or trial.number in self._stopping:
            return
        if trial.candidate.named:
            return  # references train to their end, so that no search ends below them
        if self._stopper.judge(trial, self._others(trial)) is Verdict.STOP:
            self._stop(trial.number, f"{type(self._stopper).__name__} at epoch {trial.epoch}")

    def _stop(self, number: int, reason: str) -> None:
        if number not in self._stopping:
            self._stopping[number] = reason
            self._executor.cancel(number)

    def _over(self, trial: Trial, event: Ended) -> None:
        del self.running[trial.number]
        stopping = self._stopping.pop(trial.number, "")
        if event.state is State.LOST and trial.number not in self._retried and not stopping:
            self._retried.add(trial.number)
            self._warn(f"trial {trial.number}: {event.reason}; it is tried again")
            self._retry(trial, event.reason)
            return
        reason = event.reason or (stopping if event.state is State.STOPPED else "")
        trial = with_end(trial, replace(event, reason=reason))
        if event.weights and trial.scores is not None:
            trial = replace(trial, weights=self._keeper.keep(trial, event.weights))
        self._finish(trial, event=event)

    def _retry(self, trial: Trial, reason: str) -> None:
        """Queue a new attempt; what the lost one reported is dropped, since the new one reports it again."""
        trial = replace(
            trial,
            state=State.RUNNING,
            reports=(),
            curve=(),
            scores=None,
            attempt=trial.attempt + 1,
            extra={**trial.extra, f"lost_attempt_{trial.attempt}": reason},
        )
        self._store.record(trial)
        self._again.append(trial)

    def _finish(self, trial: Trial, *, new: bool = False, event: Ended | None = None) -> None:
        if new:
            self._store.add(trial)
        else:
            self._store.record(trial, event)
        self._tracker.record(trial, event)
        self.tally.add(trial)
        self._untold.append(trial)
        self._peers.append(_thin(trial))

    def _others(self, trial: Trial) -> Iterator[Trial]:
        running = (other for other in self.running.values() if other.number != trial.number)
        return itertools.chain(self._peers, running)

    # -- the past --------------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Take up this search where it stands: rebuild the strategy, count what is done, try again what was lost."""
        trials = {trial.number: trial for trial in self._store.trials()}
        self._next = max(trials, default=-1) + 1
        references = self._reference_candidates()
        expect = getattr(self._strategy, "expect", None)  # of strategies that would propose them otherwise
        if expect:
            expect(references)
        told = replay(History("resume", self._store.steps(), trials), self._strategy, self._warn)
        for trial in trials.values():
            if trial.state.final:
                self._tracker.record(trial, None)  # the mirror may have missed it when the controller died
                self.tally.add(trial)
                self._peers.append(_thin(trial))
                if trial.number not in told:
                    self._untold.append(trial)
            else:
                self._retry(trial, "the controller ended while it ran")
        done = {trial.candidate.note for trial in trials.values() if trial.candidate.named}
        self._references.extend(reference for reference in references if reference.note not in done)
        if self._twin and not trials:
            self._follow(self._twin)
        self._commit()

    def _reference_candidates(self) -> list[Candidate]:
        if not self.task.references:
            return []
        space = self.task.space
        return [
            Candidate(decisions, space.decode(decisions), Origin.REFERENCE, note=name)
            for name, decisions in space.references.items()
        ]

    def _follow(self, twin: History) -> None:
        """Repeat an identical search from its log: the same calls, the same trials, answered without training."""
        past_trials = deque(sorted(twin.trials.values(), key=lambda trial: trial.number))
        while past_trials and past_trials[0].candidate.named:
            if not self._references or self._full():
                return
            if not self._repeat(past_trials.popleft(), self._references.popleft(), twin.name):
                return
        by_number: dict[int, Trial] = {trial.number: trial for trial in self._untold}
        for asked, numbers in twin.steps:
            if self._full(asked) or any(number not in by_number for number in numbers):
                return
            told = [by_number.pop(number) for number in numbers]
            self._untold = list(by_number.values())
            self._strategy.tell(told)
            self._store.step(asked, numbers)
            for candidate in self._strategy.ask(asked) if asked else ():
                past = past_trials.popleft() if past_trials else None
                if self._repeat(past, candidate, twin.name):
                    by_number[self._untold[-1].number] = self._untold[-1]
            self._commit()

    def _repeat(self, past: Trial | None, candidate: Candidate, name: str) -> bool:
        """Answer a candidate by the trial of the twin search with the same number; otherwise queue it for training."""
        copied = copy(past, candidate, name) if past and past.number == self._next else None
        if copied:
            self._next += 1
            self._finish(copied, new=True)
            return True
        trial = self._admit(candidate)
        if trial:
            self._again.append(trial)
        return trial is None

    def _full(self, more: int = 1) -> bool:
        return self.tally.trials + len(self._again) + more > self.task.limits.trials

    def _log_untold(self) -> None:
        """Log what the strategy was not told yet, so that a longer search of the same name knows it."""
        if self._untold and not self._interrupted:
            self._strategy.tell(self._untold)
            self._store.step(0, [trial.number for trial in self._untold])
            self._untold = []

    def _commit(self) -> None:
        now = self.seconds
        self._store.spend(now - self._consumed)
        self._consumed, self._mark = now, self._clock.now()
        self._store.commit()


_NOBODY = Candidate(Decisions(), chain(), Origin.SAMPLE)


@functools.cache
def _bare(epoch: int) -> Report:
    return Report(epoch, {})


def _thin(trial: Trial) -> Trial:
    """Return what a stopper needs of a finished trial: its curve; not its network, which would fill the memory."""
    return replace(trial, candidate=_NOBODY, reports=tuple(_bare(r.epoch) for r in trial.reports), extra={})
