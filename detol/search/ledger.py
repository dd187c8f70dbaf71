"""What a search knows of its trials. Every change goes through here to the store, the mirror and the counts."""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace

from detol.graph.topology import chain
from detol.search.history import number_of, shown, telling
from detol.search.protocols import Store, Strategy, Telling, Tracker
from detol.search.records import CONTENDS, Candidate, Event, Objective, Origin, Report, State, Trial
from detol.search.spared import KNOWN
from detol.search.tally import Tally
from detol.search.widths import FORECAST, LOST_RANKS, WIDTHS
from detol.spaces.decisions import Decisions

AWAITED = "awaits"
"""Fact of a trial that runs in the record alone: the search that trains the same thing now."""


class Ledger:
    """The trials of one search: those that run, wait, rest and have ended, and which the strategy was not told yet.

    Args:
        store: where they are recorded.
        tracker: where they are mirrored.
        objectives: of the search.
        ended: called with each trial that has ended, in this run or an earlier one.

    Attributes:
        tally: counts.
        running: by number, those that a worker has.
        waiting: those that go to the next free worker: another attempt, or on from a milestone.
        resting: by number, those that are PAUSED.
        awaited: by number, those that another search trains now: they run in the record, and no worker has them.
    """

    def __init__(
        self,
        store: Store,
        tracker: Tracker,
        objectives: Sequence[Objective],
        ended: Callable[[Trial], None] = lambda _: None,
    ) -> None:
        self.tally = Tally()
        self.running: dict[int, Trial] = {}
        self.waiting: deque[Trial] = deque()
        self.resting: dict[int, Trial] = {}
        self.awaited: dict[int, Trial] = {}
        self._store, self._tracker, self._objectives = store, tracker, objectives
        self._ended: list[Trial] = []
        self._notice = ended
        self._untold: dict[int, Trial] = {}

    @property
    def open(self) -> int:
        """How many trials have started and not ended."""
        return len(self.running) + len(self.waiting) + len(self.resting) + len(self.awaited)

    @property
    def ended(self) -> Sequence[Trial]:
        """The trials that have ended, without their networks."""
        return self._ended

    @property
    def latest(self) -> Trial:
        """The one that ended or came to rest last and was not told yet."""
        return next(reversed(self._untold.values()))

    @property
    def untold(self) -> Sequence[Trial]:
        """Those that the strategy is told next."""
        return list(self._untold.values())

    def others(self, but: Container[int]) -> Iterator[Trial]:
        """Yield all trials except those with the numbers in ``but``."""
        there = (self.resting.values(), self.awaited.values(), self.waiting, self.running.values())
        parts = itertools.chain(self._ended, *there)
        return (trial for trial in parts if trial.number not in but)

    def find(self, number: int) -> Trial | None:
        """Return the trial with that number if it has started and not ended."""
        for there in (self.resting, self.running, self.awaited):
            if number in there:
                return there[number]
        return next((trial for trial in self.waiting if trial.number == number), None)

    def add(self, trial: Trial) -> None:
        """Record a new trial that will run."""
        self._store.add(trial)
        self._tracker.record(trial, None)

    def note(self, trial: Trial) -> None:
        """Record a trial that goes on otherwise than it would have."""
        self._store.record(trial)

    def run(self, trial: Trial) -> None:
        """Note that a trial runs from now on."""
        self.running[trial.number] = trial

    def report(self, trial: Trial, event: Event) -> None:
        """Record a running trial after one more epoch."""
        self.running[trial.number] = trial
        self._store.record(trial, event)
        self._tracker.record(trial, event)

    def wait(self, trial: Trial, *, first: bool = False) -> None:
        """Record a trial that will run again or go on, before all that wait (``first``) or after them."""
        trial = _not_awaited(trial)
        self._store.record(trial)
        if first:
            self.waiting.appendleft(trial)
        else:
            self.waiting.append(trial)

    def await_(self, trial: Trial, search: str) -> None:
        """Record that a trial waits for what another search trains."""
        trial = replace(trial, state=State.RUNNING, extra={**trial.extra, AWAITED: search})
        self.awaited[trial.number] = trial
        self.tally.awaited = len(self.awaited)
        self._store.record(trial)

    def resume(self, number: int) -> None:
        """Forget that a trial waits for another search, if it does: it is recorded otherwise next."""
        self.awaited.pop(number, None)
        self.tally.awaited = len(self.awaited)

    def rest(self, trial: Trial, event: Event | None, *, new: bool = False) -> None:
        """Record a trial that is PAUSED; the strategy is told how far it has come."""
        trial = _not_awaited(trial)
        self.resting[trial.number] = trial
        self.tally.paused = len(self.resting)
        if new:
            self._store.add(trial)
        else:
            self._store.record(trial, event)
        self._store.release(trial)
        self._tracker.record(trial, event)
        self._tell_later(trial)

    def mark(self, number: int, fact: str) -> None:
        """Record a fact of a resting trial."""
        trial = self.resting[number]
        self.resting[number] = trial = replace(trial, extra={**trial.extra, fact: 1})
        self._store.record(trial)

    def wake(self, number: int, **changes: object) -> Trial:
        """Return a resting trial, RUNNING and recorded so."""
        trial = self.resting.pop(number)
        self.tally.paused = len(self.resting)
        trial = replace(trial, state=State.RUNNING, extra={**trial.extra, **changes})  # type: ignore[dict-item]
        self._store.record(trial)
        self._tracker.record(trial, None)
        return trial

    def finish(self, trial: Trial, *, new: bool = False, event: Event | None = None) -> None:
        """Record a trial that has ended."""
        trial = _not_awaited(trial)
        if new:
            self._store.add(trial)
        else:
            self._store.record(trial, event)
        self._store.release(trial)
        self.resting.pop(trial.number, None)
        self.tally.paused = len(self.resting)
        self._tracker.record(trial, event)
        self._count(trial)
        self._tell_later(trial)

    def recall(self, trial: Trial, *, told: bool) -> None:
        """Take up a trial of the record that has ended or rests; ``told``: the strategy knows it as it is."""
        self._tracker.record(trial, None)  # the mirror may have missed it when the controller died
        if trial.state.final:
            self._count(trial)
        else:
            self.resting[trial.number] = trial
            self.tally.paused = len(self.resting)
        if not told:
            self._tell_later(trial)

    def tell(self, strategy: Strategy, asked: int) -> None:
        """Tell a strategy what it does not know yet, by number, and log that ``asked`` are asked for after it."""
        told = [self._untold.pop(number) for number in sorted(self._untold)]
        strategy.tell([shown(trial, telling(trial), self._objectives) for trial in told])
        self._store.step(asked, [telling(trial) for trial in told])

    def repeat(self, strategy: Strategy, asked: int, told: Sequence[Telling], trials: Mapping[int, Trial]) -> None:
        """Tell a strategy what an earlier log holds, of trials that have ended since, and log it again."""
        strategy.tell([shown(trials[number_of(each)], each, self._objectives) for each in told])
        self._store.step(asked, told)
        for each in told:
            if isinstance(each, int):
                self._untold.pop(each, None)

    def give_up_waiting(self) -> Sequence[Trial]:
        """Return what waits, and forget it: in the record it still runs, as a resume will find it."""
        given, self.waiting = [*self.waiting, *self.awaited.values()], deque()
        self.awaited.clear()
        self.tally.awaited = 0
        return given

    def _tell_later(self, trial: Trial) -> None:
        self._untold.pop(trial.number, None)
        self._untold[trial.number] = trial

    def _count(self, trial: Trial) -> None:
        self.tally.add(trial)
        self._notice(trial)
        self._ended.append(_thin(trial, self._objectives))


def _not_awaited(trial: Trial) -> Trial:
    if AWAITED not in trial.extra:
        return trial
    return replace(trial, extra={name: value for name, value in trial.extra.items() if name != AWAITED})


_NOBODY = Candidate(Decisions(), chain(), Origin.SAMPLE)


@functools.cache
def _bare(epoch: int) -> Report:
    return Report(epoch, {})


def _thin(trial: Trial, objectives: Sequence[Objective]) -> Trial:
    """Return what a stopper needs of a finished trial: its curves; not its network, which would fill the memory."""
    # What was foretold is compared with the mean of all epochs: only where all were trained here, at one width.
    whole = not (trial.reused or KNOWN in trial.extra or WIDTHS in trial.extra or LOST_RANKS in trial.extra)
    kept = {FORECAST: trial.extra[FORECAST]} if whole and FORECAST in trial.extra else {}
    kept |= {name: trial.extra[name] for name in (KNOWN, CONTENDS) if name in trial.extra}
    if len(objectives) < 2:
        return replace(trial, candidate=_NOBODY, reports=tuple(_bare(r.epoch) for r in trial.reports), extra=kept)
    names = [objective.metric for objective in objectives]
    reports = [replace(r, metrics={k: r.metrics[k] for k in names if k in r.metrics}) for r in trial.reports]
    extra = {k: trial.extra[k] for k in names if k in trial.extra}
    return replace(trial, candidate=_NOBODY, reports=tuple(reports), extra=extra | kept)
