"""The learning-curve rule: stop a trial that will hardly pass the best (after Domhan et al. 2015, section 3.3)."""

import math
from collections.abc import Iterable, Sequence

from scipy.special import ndtr, stdtr

from detol.errors import UsageError
from detol.search.records import Objective, Trial, Verdict
from detol.stopping.curves import unfinished, whole
from detol.stopping.prediction import Prediction, predict
from detol.stopping.ranking import Scores, finite, scores_of

SIZE = 55
"""Trials of a search for which ``chance`` is meant."""
MOST = 1.3
"""Times ``chance`` in a smaller one, at most."""
RIVALS = 8
"""Unfinished trials, those with the best last scores, that the incumbent is sought among."""


class CurveStop:
    """Stops a trial whose chance to pass the incumbent at the end of its training is too small.

    The incumbent is the trial that promises most at the end among those that have come as far as this one or further:
    of a completed one that is its score, of another what is predicted less its spread, since the greatest of several
    guesses is a flattered one. Both are predicted (:func:`detol.stopping.prediction.predict`), and the chance is that
    of a Student's t about the difference, with the degrees of freedom of the less certain one. With several objectives
    the incumbent is sought among the trials that are at least as good in all the others, so that none on the front is
    stopped.

    Each trial that is stopped may be the one that would have won, and it is held against every other one. So that
    errors do not grow with the search, the chance below which a trial is stopped falls with the number of pairs of
    trials (as in Bonferroni's correction).

    Args:
        epochs: of a training to its end, >= 1.
        chance: below which a trial is stopped, in (0, 0.5]: of a search of ``SIZE`` trials. Of one of n trials it is
            ``(SIZE / n)**2`` of that, but not more than ``MOST``.
        warmup: epochs before a trial is judged, >= 1.
        trials: of the search, where known; otherwise, and where there are more by now, those so far.
        objectives: of the search; the first is predicted.
        earlier: finished trials of other searches with the same data, epochs and objective, whose curves help.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(
        self,
        *,
        epochs: int,
        chance: float = 0.05,
        warmup: int = 1,
        trials: int | None = None,
        objectives: Sequence[Objective] = (),
        earlier: Sequence[Trial] = (),
    ) -> None:
        whole("epochs", epochs, 1)
        whole("warmup", warmup, 1)
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 < chance <= 0.5:
            raise UsageError(f"chance must be a number in (0, 0.5], got {chance!r}")
        self.chance, self.warmup, self.objectives = chance, warmup, tuple(objectives)
        self.earlier, self.trials = tuple(earlier), trials or 0

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP when the chance to pass the incumbent is below ``chance``, or the last score is not finite."""
        if not unfinished(trial) or trial.epoch < self.warmup:
            return Verdict.CONTINUE
        scores = scores_of(trial, -1, self.objectives)
        if not finite(scores):
            return Verdict.STOP
        others = tuple(peers)
        return Verdict.STOP if self.passing(trial, others) < self.threshold(len(others) + 1) else Verdict.CONTINUE

    def threshold(self, trials: int) -> float:
        """Return the chance below which a trial is stopped when there are so many trials by now, >= 1."""
        return self.chance * min(MOST, (SIZE / max(trials, self.trials)) ** 2)

    def passing(self, trial: Trial, peers: Sequence[Trial]) -> float:
        """Return the probability that a trial ends above the incumbent; 1 when there is none."""
        scores = scores_of(trial, -1, self.objectives)
        rivals = [peer for peer in peers if peer.epoch >= trial.epoch and self._rival(peer, scores)]
        if not rivals:
            return 1.0
        own = self.predict(trial, peers)
        if math.isinf(own.spread):
            return 1.0
        rivals.sort(key=lambda peer: (-peer.curve[-1], peer.number))
        done = next((peer for peer in rivals if not unfinished(peer)), None)
        running = [peer for peer in rivals if unfinished(peer)][:RIVALS]
        promised = [self.predict(rival, peers) for rival in [*running, *([done] if done else [])]]
        best = max(promised, key=lambda each: (each.mean - each.spread, each.mean))
        spread = math.hypot(own.spread, best.spread)
        if spread == 0 or math.isinf(spread):
            return 1.0 if spread or own.mean >= best.mean else 0.0
        freedom = min(own.freedom, best.freedom)
        gap = (own.mean - best.mean) / spread
        return float(ndtr(gap) if math.isinf(freedom) else stdtr(freedom, gap))

    def predict(self, trial: Trial, peers: Sequence[Trial]) -> Prediction:
        """Return what a trial of this search will score at its end."""
        others = [peer for peer in peers if peer.number != trial.number]
        return predict(trial, [*others, *self.earlier], trial.epochs)

    def _rival(self, peer: Trial, scores: Scores) -> bool:
        """Whether a trial has a score, and is at least as good in all objectives but the first."""
        found = scores_of(peer, -1, self.objectives)
        return finite(found) and all(mine <= theirs for mine, theirs in zip(scores[1:], found[1:], strict=True))
