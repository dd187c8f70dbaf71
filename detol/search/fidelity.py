"""How far each trial is trained before others are looked at: milestones, checkpoints, and who goes on.

With a stopper that pauses (:class:`~detol.search.protocols.Pauser`), a trial is submitted up to its milestone. There it
goes on at once, or rests until it is promoted. When nothing is left to start, the best are trained to their end: the
winner is never chosen at low fidelity.
"""

import heapq
import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace

from detol.search.contest import Contest, score_at
from detol.search.history import until
from detol.search.ledger import Ledger
from detol.search.legs import longest, makespan
from detol.search.protocols import Keeper, Pauser, Stopper
from detol.search.records import CONTENDS, Ended, State, Trial, Verdict
from detol.search.spared import CHECKPOINT, KNOWN, LEFT, from_start, settled
from detol.search.task import Task

FINISHED = 5
"""How many of the best are looked at to their end before a search ends."""

COMPARED = 500
"""Resting trials, the latest ones, that the first leg of a new one is foretold from."""

COST = "multiply_adds"
"""Fact of a trial by which the seconds of its first leg are foretold."""

NEARLY, ALMOST = 1.1, 1.35
"""Times the seconds that a trial needs to its end: below the first there is no time for it any more, above the second
there is time for something else before it."""

KEPT = 1 / 3
"""Share of a search's time that may be kept for finishing others beside the best one: at most, since where a training
takes long, time is better spent on looking at more candidates."""

FINISHING = "finishing"
"""Fact of a trial: it was among the best when nothing was left to start, or the best reference, so it trains to its
end."""


class Fidelity:
    """Decides how far trials are trained, and keeps the checkpoints in between.

    Args:
        task: what is searched for.
        stopper: the rule; it pauses if it is a :class:`~detol.search.protocols.Pauser`.
        keeper: of the checkpoints.
        ledger: the trials.
        warn: called with one line for people.
    """

    def __init__(
        self, task: Task, stopper: Stopper, keeper: Keeper, ledger: Ledger, warn: Callable[[str], None]
    ) -> None:
        self._pauser = stopper if isinstance(stopper, Pauser) else None
        self._task, self._keeper, self._ledger, self._warn = task, keeper, ledger, warn
        self._contest = Contest(task, stopper, ledger)
        # Checkpoints that no disk took: of trials that go on, and of the best that rest.
        self._memory: dict[int, bytes] = {}
        self._verdicts: dict[int, Verdict] = {}
        self._outdated: list[str] = []

    # -- submitting

    def milestone(self, trial: Trial) -> int:
        """Return the epoch after which ``trial`` pauses, or 0: it trains to its end."""
        if self._pauser is None or FINISHING in trial.extra:
            return 0
        if self._contest.has(trial):
            return self._contest.milestone(trial)
        if self._task.spares(trial.candidate):
            return 0
        epoch = self._pauser.milestone(trial)
        return epoch if trial.epoch < epoch < trial.epochs else 0

    def checkpoint(self, trial: Trial) -> tuple[Trial, bytes | None]:
        """Return the trial as it goes on, and from where: from its beginning when its checkpoint is gone."""
        if CHECKPOINT not in trial.extra:
            return from_start(trial, self._task.objectives) if KNOWN in trial.extra else trial, None
        found = self._last(trial)
        if found is not None:
            return trial, found
        self._warn(f"trial {trial.number}: its checkpoint is missing or damaged; it starts again from its beginning")
        return self.without(trial), None

    def open(self, number: int) -> tuple[Trial, bytes] | None:
        """Return a trial that has not ended and its last checkpoint; ``None`` where there is no such one."""
        trial = self._ledger.find(number)
        found = self._last(trial) if trial and CHECKPOINT in trial.extra else None
        return (trial, found) if trial and found is not None else None

    def _last(self, trial: Trial) -> bytes | None:
        return self._memory.get(trial.number) or (self._keeper.load(trial.weights) if trial.weights else None)

    def rests(self, trial: Trial) -> bool:
        """Return whether a trial that has come as far as it has, somewhere, has been at its first milestone."""
        first = self.milestone(replace(trial, reports=(), curve=(), scores=None))
        return 0 < first <= trial.epoch < trial.epochs

    def rewound(self, trial: Trial) -> Trial:
        """Return a trial as its last checkpoint knows it: what it reported after that is reported again."""
        if trial.number not in self._memory and not trial.weights:
            return self.without(trial)
        last = max(int(trial.extra.get(CHECKPOINT, 0)), int(trial.extra.get(KNOWN, 0)))
        return until(trial, last, self._task.objectives)

    # -- pausing

    def spares(self, trial: Trial) -> bool:
        """Return whether no rule is asked about a trial."""
        return self._task.spares(trial.candidate) or self._contest.has(trial)

    def judged(self, trial: Trial, verdict: Verdict) -> None:
        """Note what the stopper said last of a running trial."""
        self._verdicts[trial.number] = verdict

    def paused(self, trial: Trial, event: Ended, seconds: float = math.inf, workers: int = 1) -> None:
        """Let a trial that has come to its milestone go on at once, or rest, as the stopper said of its last report.

        With few ``seconds`` left for the search, one that cannot come to its end rests. A reference for which the
        search has time, on so many ``workers``, goes on to the last milestone, and rests there.

        When no disk takes its checkpoint, it goes on from memory, or rests there while it is among the best
        ``FINISHED`` that do; the others, and those that inherited, are stopped.
        """
        verdict = self._verdicts.pop(trial.number, Verdict.CONTINUE)
        if seconds < NEARLY * _needed(trial, trial.epochs - trial.epoch):
            verdict = Verdict.PAUSE
        elif self._contest.joins(trial, workers):
            verdict = Verdict.CONTINUE
            trial = replace(trial, extra={**trial.extra, CONTENDS: 1})
        place = self._keeper.rest(trial, event.weights) if event.weights else ""
        if self._contest.has(trial) and not self._contest.milestone(trial):  # no rule stops it, nor does a full disk
            verdict = Verdict.PAUSE if place else Verdict.CONTINUE
        if not event.weights:
            ended = replace(trial, state=State.STOPPED, reason=f"{_paused_at(trial)}: it came without a checkpoint")
            self._ledger.finish(self.closed(ended), event=event)
            return
        if not place and verdict is Verdict.PAUSE and trial.inherited:  # without its parent it would begin otherwise
            self._ledger.finish(self.closed(_unkept(trial)), event=event)
            return
        self.drop(trial)
        trial = replace(trial, weights=place, extra={**trial.extra, CHECKPOINT: trial.epoch})
        if not place:
            self._memory[trial.number] = event.weights
        if verdict is not Verdict.PAUSE:
            self._ledger.wait(replace(trial, state=State.RUNNING), first=True)
            return
        self._ledger.rest(trial, event)
        held = [other for other in self._ledger.resting.values() if other.number in self._memory]
        if len(held) > FINISHED:
            self._ledger.finish(self.closed(_unkept(min(held, key=self._standing))))

    def _standing(self, trial: Trial) -> tuple[int, int, float, int]:
        """Return what is higher for the better of resting trials: whom fewer others beat after the same epoch."""
        return -beaten(trial, self._ledger.others((trial.number,))), trial.epoch, trial.score, -trial.number

    def closed(self, trial: Trial) -> Trial:
        """Return a trial that has ended without its checkpoint, which goes at the next ``sweep``.

        That of one that was stopped may stay for later searches, or children of this one where it goes on for longer;
        what was known from an earlier one is an answer.
        """
        self._verdicts.pop(trial.number, None)
        if CHECKPOINT not in trial.extra:
            return settled(trial)
        wanted = trial.weights and (not trial.inherited or self._task.inherit != "off")
        worth = wanted and trial.state is State.STOPPED and trial.scores is not None
        place = self._keeper.stay(trial, trial.weights) if worth else ""
        if place:
            self._memory.pop(trial.number, None)
            return replace(trial, weights="", extra={**trial.extra, LEFT: place})
        self.drop(trial)
        return settled(replace(trial, weights=""))

    def sweep(self) -> None:
        """Remove checkpoints that no record names any more; called after a commit."""
        for place in self._outdated:
            self._keeper.drop(place)
        self._outdated.clear()

    # -- going on

    def promoted(self, seconds: float = math.inf, workers: int = 1, *, started: bool = True) -> Trial | None:
        """Return the resting trial that goes on now; ``None`` when none does.

        It is the best reference, once all are at their last milestone (see :class:`~detol.search.contest.Contest`), or
        whom the stopper chooses. With few ``seconds`` left, those that cannot come to their end stay, and the best of
        the others train to their end on so many ``workers`` as soon as anything else would take the time for that.

        Args:
            seconds: left for the search.
            workers: trials that can run at once, >= 1.
            started: whether no reference is still to be tried.
        """
        if self._pauser is None:
            return None
        joined = self._joined(seconds, workers)
        if joined:
            return joined
        reference = self._contest.winner(started=started)
        if reference is not None and NEARLY * _needed(self._ledger.resting[reference]) <= seconds:
            return self._ledger.wake(reference, **{FINISHING: 1})
        held = self._held(seconds, started=started)
        there = {number: trial for number, trial in self._ledger.resting.items() if number not in held}
        resting = {number: trial for number, trial in there.items() if NEARLY * _needed(trial) <= seconds}
        if not resting:
            return None
        best = max(resting.values(), key=_furthest)
        if self._due(best, resting.values(), seconds, workers):
            return self._ledger.wake(best.number, **{FINISHING: 1})
        number = self._pauser.promote(list(resting.values()), self._ledger.others(resting))
        if number is None:
            return None
        if number not in resting:
            raise ValueError(f"{type(self._pauser).__name__} promoted trial {number}, which does not rest")
        step = self._pauser.milestone(resting[number]) - resting[number].epoch
        if number != best.number and seconds - _needed(resting[number], step) < NEARLY * _needed(best):
            return self._ledger.wake(best.number, **{FINISHING: 1})
        return self._ledger.wake(number)

    def ahead(self, trial: Trial, seconds: float) -> Trial | None:
        """Return the best that rests, which trains to its end before a new trial starts; ``None``: the trial starts.

        So it is where, with few ``seconds`` left, there would be no time for the best after the trial's first leg; but
        not where one as good has come to its end, or is on the way.
        """
        if math.isinf(seconds) or trial.reports or self._pauser is None:
            return None
        resting = [other for other in self._ledger.resting.values() if NEARLY * _needed(other) <= seconds]
        if not resting:
            return None
        best = max(resting, key=_furthest)
        ending = [other for other in self._ledger.running.values() if FINISHING in other.extra]
        done = self._ledger.tally.best
        if done and done.state is State.COMPLETED:
            ending.append(done)
        if any(score_at(other, best.epoch) >= best.score for other in ending):
            return None
        known = list(itertools.islice(reversed(self._ledger.resting.values()), COMPARED))
        first = self.milestone(trial) or trial.epochs
        leg = longest([_cost(other) for other in known], [_leg(other, first) for other in known], _cost(trial))
        return self._ledger.wake(best.number, **{FINISHING: 1}) if seconds - leg < NEARLY * _needed(best) else None

    def finisher(self) -> Trial | None:
        """Return one of the best that still rests and trains to its end now; ``None`` when all of the best have.

        The best are those that fewer than ``FINISHED`` others beat after the same epoch, those that came furthest
        first. Others that were stopped or have completed count as well: they were looked at. One that the rule would
        stop, knowing what it knows by now, is.
        """
        for trial in sorted(self._ledger.resting.values(), key=_furthest, reverse=True):
            others = list(self._ledger.others((trial.number,)))
            if beaten(trial, others) >= FINISHED:
                continue
            if self._pauser and self._pauser.judge(trial, others) is not Verdict.STOP:
                return self._ledger.wake(trial.number, **{FINISHING: 1})
            why = f"{type(self._pauser).__name__} at epoch {trial.epoch}, before it was finished"
            self._ledger.finish(self.closed(replace(trial, state=State.STOPPED, reason=why)))
        return None

    def _due(self, best: Trial, resting: Iterable[Trial], seconds: float, workers: int) -> bool:
        """Return whether it is time for the best of those that rest to train to their ends, side by side.

        They are the best one, and as many others as :meth:`finisher` would look at and as ``KEPT`` has time for.
        """
        if seconds <= ALMOST * _needed(best):
            return True
        kept = KEPT * self._task.limits.seconds
        if seconds > kept:
            return False
        needed = [_needed(best)]
        for trial in heapq.nlargest(2 * FINISHED, resting, key=_furthest)[1:]:
            more = [*needed, _needed(trial)]
            if len(needed) == FINISHED or ALMOST * makespan(more, workers) > kept:
                break
            if beaten(trial, self._ledger.others((trial.number,))) < FINISHED:
                needed = more
        return seconds <= ALMOST * makespan(needed, workers)

    def _joined(self, seconds: float, workers: int) -> Trial | None:
        """Let references contend that rest by what was known of them, and return one that goes on for that."""
        if math.isinf(seconds):
            return None
        for trial in list(self._ledger.resting.values()):
            if NEARLY * _needed(trial) <= seconds and self._contest.joins(trial, workers):
                if self._contest.milestone(trial):
                    return self._ledger.wake(trial.number, **{CONTENDS: 1})
                self._ledger.mark(trial.number, CONTENDS)
        return None

    def _held(self, seconds: float, *, started: bool) -> frozenset[int]:
        """Return those that must wait for other references: none when there would be no time for them after that."""
        held = self._contest.held(started=started)
        late = any(seconds <= ALMOST * _needed(self._ledger.resting[number]) for number in held)
        return frozenset() if late else held

    @property
    def finishing(self) -> bool:
        """Whether all that runs are the best on their way to their end."""
        return all(FINISHING in trial.extra for trial in self._ledger.running.values())

    def settle(self, reason: str = "") -> None:
        """Stop what still rests, with a reason; by default that it was not promoted."""
        for trial in list(self._ledger.resting.values()):
            why = reason or f"rested at epoch {trial.epoch}: not promoted"
            self._ledger.finish(self.closed(replace(trial, state=State.STOPPED, reason=why)))

    # -- keeping

    def without(self, trial: Trial) -> Trial:
        """Return a trial as it begins again without its checkpoint; what another search's curve tells stays known."""
        self.drop(trial)
        return from_start(trial, self._task.objectives)

    def drop(self, trial: Trial) -> None:
        """Note that the checkpoint a trial has is no longer needed."""
        self._memory.pop(trial.number, None)
        if CHECKPOINT in trial.extra and trial.weights:
            self._outdated.append(trial.weights)


def beaten(trial: Trial, others: Iterable[Trial]) -> int:
    """Return how many other trials had a better primary score after as many epochs as ``trial`` has now.

    What failed since then does not count.
    """
    standing = (other for other in others if other.state.scored or not other.state.final)
    return sum(_at(other, trial.epoch) > trial.curve[-1] for other in standing)


def _unkept(trial: Trial) -> Trial:
    return replace(trial, state=State.STOPPED, reason=f"{_paused_at(trial)}: its checkpoint could not be kept")


def _paused_at(trial: Trial) -> str:
    return f"paused at epoch {trial.epoch}"


def _cost(trial: Trial) -> float:
    return float(trial.extra.get(COST, 0.0))


def _leg(trial: Trial, first: int) -> float:
    """Return the seconds of the first epochs of a trial, as if they were so many."""
    counted = [report for report in trial.reports if report.epoch <= first]
    return sum(report.seconds for report in counted) * first / counted[-1].epoch if counted else 0.0


def _furthest(trial: Trial) -> tuple[int, float, int]:
    """Return what is higher for one that came further, or better: of equals the first, whenever it came to rest."""
    return trial.epoch, trial.score, -trial.number


def _at(trial: Trial, epoch: int) -> float:
    index = bisect_left(trial.reports, epoch, key=lambda report: report.epoch)
    return trial.curve[index] if index < len(trial.reports) else math.nan


def _needed(trial: Trial, epochs: int | None = None) -> float:
    """Return about how many seconds a trial takes for some more epochs, by default to its end; 0: nothing tells."""
    if not trial.reports:
        return 0.0
    again = trial.epoch if KNOWN in trial.extra and CHECKPOINT not in trial.extra else 0
    # The last epoch speaks: the first one of an attempt also warms up.
    return trial.reports[-1].seconds * (trial.epochs - trial.epoch + again if epochs is None else epochs)
