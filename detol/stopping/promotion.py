"""Asynchronous successive halving in its promotion form: Li et al. 2020, arXiv 1810.05934, algorithm 2."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from detol.errors import UsageError
from detol.search.protocols import Pauser
from detol.search.records import Objective, State, Trial, Verdict
from detol.stopping.curves import ladder, reached, standing, unfinished, whole
from detol.stopping.ranking import finite, order, scores_at, scores_of

RECENT = 0.5
"""Share of the trials at a rung, the latest, among which one must be as good as among all."""


class PromotingAsha:
    """Each trial rests at each rung; the best of those that rest go on, when they are in the top 1 / ``eta`` there.

    Whenever a worker is free the rungs are looked through from the highest one: of all trials that reached the rung,
    in whatever state they are now, the best ``1 / eta`` (rounded down) deserve to go on, and the best of them that
    still rests does. They must be as good among the latest of those trials too (``recent``): a strategy that learns
    proposes better and better ones, of which each is among the best so far, and then two thirds instead of one go on
    (``benchmarks/stopping.py`` has both on orders without any trend). Rungs are epochs counted from the start of a
    trial, whatever was resumed since: one that stands between two rungs rests at the next. A score that is not finite
    ranks last, and its trial is stopped at the rung. With several objectives a rung ranks by fronts and crowding; the
    latest are taken in the order of all. Everything is read off the trials: there is no state.

    Args:
        epochs: of a training to its end, >= 1.
        eta: reduction at each rung, a whole number >= 2.
        grace: epochs before the first rung, in [1, maximum]; ``grace * eta**k`` are the rungs. By default 1.
        maximum: the last rung, in [1, epochs]: nothing is promoted beyond it. By default the end of a training, so that
            the best of the last rung complete.
        recent: share of the trials that reached a rung, the latest, among which a trial must be in the best ``1 / eta``
            too, in (0, 1]; twice ``eta`` of them at least. 1: as published.
        trials: of the search, where known: when all are there (refused ones do not count), nobody better comes, and
            being among the best of all is enough. In a search that ends for another reason it never is.
        rungs: these epochs in place of ``grace * eta**k``, ascending, in [1, maximum].
        objectives: of the search; fewer than two: the curve of a trial counts.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(
        self,
        *,
        epochs: int,
        eta: int = 3,
        grace: int | None = None,
        maximum: int | None = None,
        rungs: Sequence[int] | None = None,
        recent: float = RECENT,
        trials: int | None = None,
        objectives: Sequence[Objective] = (),
    ) -> None:
        whole("epochs", epochs, 1)
        whole("eta", eta, 2)
        maximum = epochs if maximum is None else maximum
        whole("maximum", maximum, 1)
        if maximum > epochs:
            raise UsageError(f"maximum must be at most the {epochs} epochs of a trial, got {maximum}: lower it")
        if isinstance(recent, bool) or not (isinstance(recent, int | float) and 0 < recent <= 1):
            raise UsageError(f"recent is a share of the trials, in (0, 1], got {recent!r}: 1 looks at all of them")
        self.eta, self.maximum, self.objectives = eta, maximum, tuple(objectives)
        self.recent, self.trials = float(recent), trials
        below = _given(rungs, grace, maximum) if rungs is not None else ladder(_grace(grace, maximum), eta, maximum)
        self.rungs = below if maximum == epochs else (*below, maximum)

    def milestone(self, trial: Trial) -> int:
        """Return the next rung above the trial's epoch, or the end of its training."""
        return next((rung for rung in self.rungs if trial.epoch < rung < trial.epochs), trial.epochs)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return PAUSE at a rung, CONTINUE where the trial would be promoted at once, STOP for what is not finite."""
        if not unfinished(trial) or not reached(trial, self.rungs):
            return Verdict.CONTINUE
        return rest(self, trial, peers) if finite(scores_of(trial, -1, self.objectives)) else Verdict.STOP

    def promote(self, paused: Sequence[Trial], peers: Iterable[Trial]) -> int | None:
        """Return the best resting trial of the highest rung at which one is in the top ``1 / eta``."""
        found = self.best(paused, [*paused, *peers], len(self.rungs))
        return found[1] if found else None

    def best(self, paused: Sequence[Trial], trials: Sequence[Trial], open_: int) -> tuple[int, int] | None:
        """Return (position of the rung, number) of the one that goes on from one of the first ``open_`` rungs.

        ``trials`` are all, the resting ones included. From ``maximum``, where it is a rung, nobody goes on.
        """
        there = sum(trial.state is not State.REFUSED for trial in trials)
        share = 1.0 if self.trials is not None and there >= self.trials else self.recent
        resting: dict[int, set[int]] = {}
        for trial in paused:
            resting.setdefault(standing(trial, self.rungs), set()).add(trial.number)
        for position in reversed(range(open_)):
            rung = self.rungs[position]
            if position in resting and rung < self.maximum:
                for number in self.top(trials, rung, share):
                    if number in resting[position]:
                        return position, number
        return None

    def top(self, trials: Iterable[Trial], rung: int, recent: float = 1.0) -> list[int]:
        """Return the numbers of those that reached a rung and deserve to go on, the best first (ties: the older).

        ``recent``: share of them, the latest, among which one must be in the best ``1 / eta`` too.
        """
        there = sorted((trial for trial in trials if trial.epoch >= rung), key=lambda trial: trial.number)
        scores = [scores_at(trial, rung, self.objectives) for trial in there]
        latest = min(len(there), max(2 * self.eta, math.ceil(recent * len(there))))
        first, before, found = len(there) - latest, 0, []
        for index in order(scores)[: len(there) // self.eta]:
            among = latest + (index < first)  # the latest ones and itself
            if before < among // self.eta and finite(scores[index]):
                found.append(there[index].number)
            before += index >= first
        return found


def rest(rule: Pauser, trial: Trial, peers: Iterable[Trial]) -> Verdict:
    """Return PAUSE for a trial at a rung, or CONTINUE if it is the one that would be promoted at once."""
    others = tuple(peers)
    resting = [replace(trial, state=State.PAUSED), *(peer for peer in others if peer.state is State.PAUSED)]
    awake = [peer for peer in others if peer.state is not State.PAUSED]
    return Verdict.CONTINUE if rule.promote(resting, awake) == trial.number else Verdict.PAUSE


def _grace(grace: int | None, maximum: int) -> int:
    grace = 1 if grace is None else grace
    whole("grace", grace, 1)
    if grace > maximum:
        raise UsageError(f"grace must be at most the maximum of {maximum} epochs, got {grace}: lower it")
    return grace


def _given(rungs: Sequence[int], grace: int | None, maximum: int) -> tuple[int, ...]:
    if grace is not None:
        raise UsageError(f"the first of the rungs is the grace: give rungs or grace, got both {rungs!r} and {grace}")
    if not isinstance(rungs, list | tuple):
        raise UsageError(f"rungs is a list of epochs, e.g. [1,3,9], got {rungs!r}")
    for rung in rungs:
        whole("a rung", rung, 1)
        if rung > maximum:
            raise UsageError(f"a rung must be at most the maximum of {maximum} epochs, got {rung}: leave it out")
    if any(second <= first for first, second in itertools.pairwise(rungs)):
        raise UsageError(f"rungs must rise, got {list(rungs)}")
    return tuple(rung for rung in rungs if rung < maximum)
