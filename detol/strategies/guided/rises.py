"""Scores after few epochs, brought to where the others stand: by what those that went on have gained since.

A trial that rests at a rung, or was stopped there, scored after fewer epochs than one that was trained to its end.
Side by side they say more of the epochs than of the networks. So what is missing of each is added: from one epoch at
which trials stand to the next, the mean gain of all whose curves are known at both. That keeps the order of trials that
stand at the same epoch, and of itself it makes nobody better than one that was trained further from the same score.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detol.search.records import State, Trial

Doubles = NDArray[np.float64]


class Rises:
    """What trials gained from epoch to epoch, and at which epoch those stand that were not trained to their end."""

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
        """Return scores, (n,), of trials, each as far as the gains of others are known; those of finished ones stay.

        Args:
            numbers: of the trials, (n,).
            scores: their last ones, more is better; minus infinity stays.
        """
        if not self._stand:
            return scores
        ahead = self._ahead()
        missing = [ahead.get(self._stand.get(number, -1), 0.0) for number in numbers]
        return scores + np.asarray(missing, np.float64)

    def _ahead(self) -> dict[int, float]:
        """Return, for each epoch at which a trial stands, what is gained from there on the average."""
        stations = sorted({*self._stand.values(), self._end})
        gains: list[float] = []
        for here, there in itertools.pairwise(stations):
            both = [curve[[here - 1, there - 1]] for curve in self._curves.values() if len(curve) >= there]
            found = np.asarray(both, np.float64).reshape(-1, 2)
            gain = found[:, 1] - found[:, 0]
            gain = gain[np.isfinite(gain)]
            gains.append(float(gain.mean()) if len(gain) else 0.0)
        totals = np.cumsum(gains[::-1])[::-1]
        return dict(zip(stations, totals.tolist(), strict=False))
