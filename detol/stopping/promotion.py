"""Asynchronous successive halving in its promotion form: Li et al. 2020, arXiv 1810.05934, algorithm 2."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from detol.errors import UsageError
from detol.search.protocols import Pauser
from detol.search.records import CONTENDS, Objective, State, Trial, Verdict
from detol.search.spared import KNOWN
from detol.stopping.curves import ladder, reached, standing, unfinished, whole
from detol.stopping.ranking import finite, order, scores_at, scores_of


class PromotingAsha:
    """Each trial rests at each rung; the best of those that rest go on, when they are in the top 1 / ``eta`` there.

    Whenever a worker is free the rungs are looked through from the highest one: of all trials that reached the rung,
    in whatever state they are now, the best ``1 / eta`` (rounded down) deserve to go on, and the best of them that
    still rests does. That is as published; but a strategy that learns proposes better and better ones, of which each
    is among the best so far, and then more than half go on. So by default (``quota``), before all trials of the
    search are there, no more than ``1 / eta`` of those that reached a rung have gone on from it, as in synchronous
    halving, references and the audit's trials included (but for references that contend in a search that time
    bounds): a better one that comes later waits for its place. Then all of the best ``1 / eta`` go on
    (``benchmarks/stopping.py`` has both on orders without any trend, ``benchmarks/two_fidelities.py`` in searches
    that learn). Rungs are epochs counted from the start of a trial, whatever was resumed since: one that stands
    between two rungs rests at the next. A score that is not finite ranks last, and its trial is stopped at the rung.
    With several objectives a rung ranks by fronts and crowding. Everything is read off the trials: there is no state.

    Args:
        epochs: of a training to its end, >= 1.
        eta: reduction at each rung, a whole number >= 2.
        grace: epochs before the first rung, in [1, maximum]; ``grace * eta**k`` are the rungs. By default 1.
        maximum: the last rung, in [1, epochs]: nothing is promoted beyond it. By default the end of a training, so that
            the best of the last rung complete.
        quota: whether at most ``1 / eta`` of the trials that reached a rung go on before all are there.
        trials: of the search, where known: when all are there (refused ones do not count), nobody better comes, and
            being among the best is enough. In a search that ends for another reason the quota holds to its end.
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
        quota: bool = True,
        trials: int | None = None,
        objectives: Sequence[Objective] = (),
    ) -> None:
        whole("epochs", epochs, 1)
        whole("eta", eta, 2)
        maximum = epochs if maximum is None else maximum
        whole("maximum", maximum, 1)
        if maximum > epochs:
            raise UsageError(f"maximum must be at most the {epochs} epochs of a trial, got {maximum}: lower it")
        if not isinstance(quota, bool):
            raise UsageError(f"quota is true or false, got {quota!r}: false promotes as published")
        self.eta, self.maximum, self.objectives = eta, maximum, tuple(objectives)
        self.quota, self.trials = quota, trials
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
        bounded = self.quota and (self.trials is None or there < self.trials)
        resting: dict[int, set[int]] = {}
        for trial in paused:
            resting.setdefault(standing(trial, self.rungs), set()).add(trial.number)
        for position in reversed(range(open_)):
            rung = self.rungs[position]
            if position not in resting or rung >= self.maximum:
                continue
            if bounded and not self._open(trials, position):
                continue
            for number in self.top(trials, rung):
                if number in resting[position]:
                    return position, number
        return None

    def top(self, trials: Iterable[Trial], rung: int) -> list[int]:
        """Return the numbers of the best ``1 / eta`` of those that reached a rung, the best first (ties: the older)."""
        there = sorted((trial for trial in trials if trial.epoch >= rung), key=lambda trial: trial.number)
        scores = [scores_at(trial, rung, self.objectives) for trial in there]
        best = order(scores)[: len(there) // self.eta]
        return [there[index].number for index in best if finite(scores[index])]

    def _open(self, trials: Iterable[Trial], position: int) -> bool:
        """Return whether fewer have gone on from a rung than the quota allows."""
        rung = self.rungs[position]
        came = [trial for trial in trials if trial.epoch >= rung and not _apart(trial, rung)]
        rest = sum(trial.state is State.PAUSED and standing(trial, self.rungs) == position for trial in came)
        ended = sum(trial.state is State.STOPPED and trial.epoch == rung for trial in came)
        return len(came) - rest - ended < len(came) // self.eta


def rest(rule: Pauser, trial: Trial, peers: Iterable[Trial]) -> Verdict:
    """Return PAUSE for a trial at a rung, or CONTINUE if it is the one that would be promoted at once."""
    others = tuple(peers)
    resting = [replace(trial, state=State.PAUSED), *(peer for peer in others if peer.state is State.PAUSED)]
    awake = [peer for peer in others if peer.state is not State.PAUSED]
    return Verdict.CONTINUE if rule.promote(resting, awake) == trial.number else Verdict.PAUSE


def _apart(trial: Trial, rung: int) -> bool:
    """Return whether a trial came beyond a rung without taking a place: by results that were there, or as a reference.

    That is one that contends in a search that time bounds, where there are few places.
    """
    return bool(trial.reused) or CONTENDS in trial.extra or int(trial.extra.get(KNOWN, 0)) > rung


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
