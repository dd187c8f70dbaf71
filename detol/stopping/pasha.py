"""PASHA: Bohdal et al. 2023, arXiv 2207.06940. Promotion whose maximum grows only while the ranking still changes."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from detol.errors import UsageError
from detol.search.dominance import fronts
from detol.search.records import Objective, Trial, Verdict
from detol.stopping.curves import index_at, reached, unfinished
from detol.stopping.promotion import PromotingAsha, rest
from detol.stopping.ranking import Scores, finite, order, scores_at, scores_of

PERCENTILE = 90.0
"""Of the distances of curves that cross back and forth: what noise alone makes of a ranking (section 4.2)."""

CURVES = 40
"""Whose crossings are looked at, at most: pairs grow with the square."""


class Pasha:
    """Asynchronous successive halving that trains no further than the ranking needs.

    At first nobody goes beyond the second rung. While the trials of the top rung rank there otherwise than in the rung
    below, the next rung is opened. Rankings agree softly: two trials count as equal when their scores differ by at
    most ``epsilon``. The maximum in force is read off the trials, so it survives a resume. The end of a training is the
    last rung that can be opened.

    Args:
        epochs: of a training to its end, >= 1.
        eta: reduction at each rung, a whole number >= 2.
        grace: epochs before the first rung, in [1, epochs]; by default 1.
        maximum: beyond which the maximum never grows, in [1, epochs]; by default the end of a training.
        epsilon: in units of the primary score, >= 0; by default the 90th percentile of the distance of pairs of curves
            that cross at least twice (section 4.2), 0 while there are none.
        objectives: of the search. With several of them a rung ranks by fronts, and trials of one front count as equal.

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
        epsilon: float | None = None,
        objectives: Sequence[Objective] = (),
    ) -> None:
        self._rule = PromotingAsha(
            epochs=epochs, eta=eta, grace=grace, maximum=maximum, quota=False, objectives=objectives
        )
        numeric = isinstance(epsilon, int | float) and not isinstance(epsilon, bool)
        if epsilon is not None and not (numeric and 0 <= epsilon < math.inf):
            raise UsageError(f"epsilon must be a finite number of at least 0, got {epsilon!r}")
        self.epsilon, self.objectives = epsilon, tuple(objectives)
        self.rungs, self.eta = self._rule.rungs, eta
        self._steps = self.rungs if self._rule.maximum < epochs else (*self.rungs, epochs)

    def milestone(self, trial: Trial) -> int:
        """Return the next rung above the trial's epoch, or the end of its training."""
        return self._rule.milestone(trial)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return PAUSE at a rung, CONTINUE where the trial would be promoted at once, STOP for what is not finite."""
        if not unfinished(trial) or not reached(trial, self.rungs):
            return Verdict.CONTINUE
        return rest(self, trial, peers) if finite(scores_of(trial, -1, self.objectives)) else Verdict.STOP

    def promote(self, paused: Sequence[Trial], peers: Iterable[Trial]) -> int | None:
        """Return the best resting trial of the highest rung below the maximum in force."""
        trials = [*paused, *peers]
        found = self._rule.best(paused, trials, min(self.top(trials), len(self.rungs)))
        return found[1] if found else None

    def top(self, trials: Sequence[Trial]) -> int:
        """Return the position of the highest rung in force; ``len(rungs)`` is the end of a training (algorithm 1)."""
        last = len(self._steps) - 1
        top = min(1, last)
        while top < last and self._changes(trials, top):
            top += 1
        return top

    def _changes(self, trials: Sequence[Trial], top: int) -> bool:
        """Whether the trials at a rung rank there otherwise than at the rung below (section 4.1, soft ranking)."""
        there = sorted((trial for trial in trials if trial.epoch >= self._steps[top]), key=lambda trial: trial.number)
        above = [scores_at(trial, self._steps[top], self.objectives) for trial in there]
        below = [scores_at(trial, self._steps[top - 1], self.objectives) for trial in there]
        good = [index for index in range(len(there)) if finite(above[index]) and finite(below[index])]
        above, below = [above[index] for index in good], [below[index] for index in good]
        if len(self.objectives) > 1:
            levels, epsilon = _fronts(below), 0.0
        else:
            levels = [scores[0] for scores in below]
            epsilon = noise(there, self._steps[top]) if self.epsilon is None else self.epsilon
        return any(abs(levels[a] - levels[b]) > epsilon for a, b in zip(order(above), order(below), strict=True))


def _fronts(scores: Sequence[Scores]) -> list[float]:
    return [float(front) for front in fronts(np.array(scores))] if scores else []


def noise(trials: Sequence[Trial], epoch: int) -> float:
    """Return the distance below which two curves count as equal (section 4.2, equation 1); 0 while nothing is known.

    It is the 90th percentile, over pairs of curves that cross at least twice up to ``epoch``, which all have reached,
    of their distance there. Of many trials the first ``CURVES`` are compared.
    """
    curves = [np.array(trial.curve[: index_at(trial, epoch) + 1]) for trial in trials[:CURVES]]
    distances = []
    for first, second in itertools.combinations(curves, 2):
        shared = min(len(first), len(second))
        gaps = first[:shared] - second[:shared]
        gaps = gaps[np.isfinite(gaps) & (gaps != 0)]
        if np.count_nonzero(np.diff(np.sign(gaps))) > 1:
            distances.append(abs(float(gaps[-1])))
    return float(np.percentile(distances, PERCENTILE)) if distances else 0.0
