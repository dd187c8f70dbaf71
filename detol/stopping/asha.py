"""Asynchronous successive halving in its stop form: Li et al. 2020, arXiv 1810.05934, as Optuna applies it."""

import math
from collections.abc import Iterable, Sequence

from detol.errors import UsageError
from detol.search.records import Objective, Trial, Verdict
from detol.stopping.curves import ladder, reached, unfinished, whole
from detol.stopping.ranking import Scores, ahead, finite, scores_at, scores_of


class Asha:
    """At each rung a trial goes on if it is among the best 1 / ``eta`` of those that reached the rung so far.

    Rungs are at ``grace * eta**k`` epochs, counted from the start of a trial whatever was resumed since. Of the first
    ``eta - 1`` trials at a rung the best one so far goes on. Nobody waits: it is decided at once among those that are
    there. A score that is not finite stops a trial, and does not compete. The decisions equal those of Optuna's
    ``SuccessiveHalvingPruner(min_resource=grace, reduction_factor=eta)``, but that nothing is stopped after its last
    epoch. With several objectives a rung ranks by fronts and crowding, which Optuna refuses.

    Args:
        epochs: of a training to its end, >= 1.
        eta: reduction at each rung, a whole number >= 2.
        grace: epochs before the first rung, in [1, epochs]. By default a ``1 / eta**2`` of all epochs, rounded up: two
            rungs, and no trial is judged by the first epochs of a long schedule.
        objectives: of the search; fewer than two: the curve of a trial counts.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(
        self, *, epochs: int, eta: int = 3, grace: int | None = None, objectives: Sequence[Objective] = ()
    ) -> None:
        whole("epochs", epochs, 1)
        whole("eta", eta, 2)
        grace = math.ceil(epochs / eta**2) if grace is None else grace
        whole("grace", grace, 1)
        if grace > epochs:
            raise UsageError(f"grace must be at most the {epochs} epochs of a trial, got {grace}: lower it")
        self.eta, self.objectives = eta, tuple(objectives)
        self.rungs = ladder(grace, eta, epochs)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP when the last report reached a rung and is not good enough there."""
        if not unfinished(trial):
            return Verdict.CONTINUE
        scores = scores_of(trial, -1, self.objectives)
        rungs = reached(trial, self.rungs)
        peers = tuple(peers) if len(rungs) > 1 else peers
        return Verdict.CONTINUE if all(self._good(scores, rung, peers) for rung in rungs) else Verdict.STOP

    def _good(self, scores: Scores, rung: int, peers: Iterable[Trial]) -> bool:
        if not finite(scores):
            return False
        others = [other for peer in peers if finite(other := scores_at(peer, rung, self.objectives))]
        return ahead(scores, others) < max(1, (len(others) + 1) // self.eta)
