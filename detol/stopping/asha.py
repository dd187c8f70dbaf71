"""Asynchronous successive halving in its stop form: Li et al. 2020, arXiv 1810.05934, as Optuna applies it."""

import math
from collections.abc import Iterable

from detol.errors import UsageError
from detol.search.records import Trial, Verdict
from detol.stopping.curves import at, unfinished, whole


class Asha:
    """At each rung a trial goes on if it is among the best 1 / ``eta`` of those that reached the rung so far.

    Rungs are at ``grace * eta**k`` epochs, counted from the start of a trial whatever was resumed since. Of the first
    ``eta - 1`` trials at a rung the best one so far goes on. Nobody waits: it is decided at once among those that are
    there. A score that is not finite stops a trial, and does not compete. The decisions equal those of Optuna's
    ``SuccessiveHalvingPruner(min_resource=grace, reduction_factor=eta)``, but that nothing is stopped after its last
    epoch.

    Args:
        epochs: of a training to its end, >= 1.
        eta: reduction at each rung, a whole number >= 2.
        grace: epochs before the first rung, in [1, epochs]. By default a ``1 / eta**2`` of all epochs, rounded up: two
            rungs, and no trial is judged by the first epochs of a long schedule.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(self, *, epochs: int, eta: int = 3, grace: int | None = None) -> None:
        whole("epochs", epochs, 1)
        whole("eta", eta, 2)
        grace = math.ceil(epochs / eta**2) if grace is None else grace
        whole("grace", grace, 1)
        if grace > epochs:
            raise UsageError(f"grace must be at most the {epochs} epochs of a trial, got {grace}: lower it")
        self.eta = eta
        self.rungs = tuple(_rungs(grace, eta, epochs))

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP when the last report reached a rung and is not good enough there."""
        if not unfinished(trial):
            return Verdict.CONTINUE
        before = trial.reports[-2].epoch if len(trial.reports) > 1 else 0
        value = trial.curve[-1]
        reached = [rung for rung in self.rungs if before < rung <= trial.epoch]
        peers = tuple(peers) if len(reached) > 1 else peers
        return Verdict.CONTINUE if all(self._good(value, rung, peers) for rung in reached) else Verdict.STOP

    def _good(self, value: float, rung: int, peers: Iterable[Trial]) -> bool:
        if not math.isfinite(value):
            return False
        ahead = competitors = 0
        for peer in peers:
            other = at(peer, rung)
            if math.isfinite(other):
                competitors += 1
                ahead += other > value
        return ahead < max(1, (competitors + 1) // self.eta)


def _rungs(grace: int, eta: int, epochs: int) -> Iterable[int]:
    while grace < epochs:
        yield grace
        grace *= eta
