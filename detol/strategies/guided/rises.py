"""Scores after few epochs, brought to where the others stand: by what became of those that went on from there.

A trial that rests at a rung, or was stopped there, scored after fewer epochs than one that was trained to its end.
Side by side they say more of the epochs than of the networks. So each is taken along, from one epoch at which trials
stand to the next, by the regression line of the later score on the earlier one over all whose curves are known at both.
That those went on since they were the best bends the line little: they were chosen by what it is a function of. It is
flatter than 1: quick starters lose most of their lead, and taking it for theirs to the end would send a search after
whatever learns fast. The order of trials that stand at the same epoch is kept.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detol.search.records import State, Trial

Doubles = NDArray[np.float64]
PULL = 3.0
"""A slope of 1, by which scores keep their distances, counts as so many trials."""


class Rises:
    """The curves of trials, and at which epoch those stand that were not trained to their end."""

    def __init__(self) -> None:
        self._curves: dict[int, NDArray[np.float32]] = {}  # by number of the trial; NaN where nothing was reported
        self._stand: dict[int, int] = {}
        self._end = 0

    def note(self, trials: Sequence[Trial]) -> None:
        """Take note of trials as they are told; a later telling replaces an earlier one."""
        for trial in trials:
            self._curves.pop(trial.number, None)
            self._stand.pop(trial.number, None)
            if trial.epochs < 2 or not trial.reports or not trial.state.scored:
                continue
            curve = np.full(trial.epoch, np.nan, np.float32)
            for report, score in zip(trial.reports, trial.curve, strict=True):
                curve[report.epoch - 1] = score if np.isfinite(score) else np.nan
            self._curves[trial.number] = curve
            self._end = max(self._end, trial.epochs)
            if trial.state is not State.COMPLETED and trial.epoch < trial.epochs:
                self._stand[trial.number] = trial.epoch

    def lifted(self, numbers: Sequence[int], scores: Doubles) -> Doubles:
        """Return scores, (n,), of trials, each as far as the curves of others are known; those of finished ones stay.

        Args:
            numbers: of the trials, (n,).
            scores: their last ones, more is better; minus infinity stays.
        """
        if not self._stand:
            return scores
        found = np.array(scores, np.float64)
        stand = np.asarray([self._stand.get(number, self._end) for number in numbers])
        for here, there in itertools.pairwise(sorted({*self._stand.values(), self._end})):
            behind = (stand <= here) & np.isfinite(found)
            found[behind] = _taken_along(found[behind], self._both(here, there))
        return found

    def _both(self, here: int, there: int) -> Doubles:
        """Return the scores after two epochs of all whose curves are known at both: (n, 2)."""
        both = [curve[[here - 1, there - 1]] for curve in self._curves.values() if len(curve) >= there]
        found = np.asarray(both, np.float64).reshape(-1, 2)
        return found[np.isfinite(found).all(axis=1)]


def _taken_along(scores: Doubles, both: Doubles) -> Doubles:
    """Return where scores are expected to come by the line through (n, 2) earlier and later ones.

    Its slope is in [0, 1], drawn to 1 by ``PULL``. Below the lowest earlier score nothing is known of the line: what is
    missing there counts whole.
    """
    if not len(both):
        return scores
    (start, end), (lowest, _) = both.mean(axis=0), both.min(axis=0)
    apart = both[:, 0] - start
    square = float(apart @ apart)
    slope = float(np.clip(apart @ both[:, 1] / square, 0, 1)) if square > 0 else 1.0
    slope = (len(both) * slope + PULL) / (len(both) + PULL)
    return np.asarray(end + slope * (np.maximum(scores, lowest) - start) - np.maximum(0, lowest - scores))
