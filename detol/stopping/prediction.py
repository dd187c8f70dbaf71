"""What a trial will score at its end: from its own points, and from the curves of others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detol.search.records import Trial
from detol.stopping.curves import at
from detol.stopping.extrapolation import LEAST, extrapolate

ENOUGH = 20
"""Finished curves from which a regression is taken in place of an extrapolation."""
NEAREST = 40
"""Curves that are compared with, at most: those that stood nearest after the same epoch."""
FEW = 10
"""Finished curves from which the rise after the last value is judged where there are too few points to extrapolate."""
PRIOR, DOUBT = 3.0, 2.25
"""A calibration begins as if so many curves had been seen, with errors so many times as large as the fits expect."""


@dataclass(frozen=True)
class Prediction:
    """A score at the end of a training.

    Args:
        mean: more is better.
        spread: standard deviation, >= 0; infinite when nothing can be said.
        how: ``finished``, ``regression``, ``extrapolation`` or ``last value``.
        freedom: degrees of freedom of the spread, which is itself an estimate: errors are Student's t.
    """

    mean: float
    spread: float
    how: str
    freedom: float = math.inf


def predict(trial: Trial, others: Sequence[Trial], horizon: int) -> Prediction:
    """Return what a trial will score after ``horizon`` epochs.

    With at least 20 finished curves among ``others``: a regression on features of the curve, its spread from residuals
    with the curve itself left out. With fewer: an ensemble of parametric forms, moved and widened by what the same
    ensemble got wrong on the longer curves of others. With too few points for that: the last value, and the rise that
    finished curves had from there.

    Args:
        trial: whose last score is finite.
        others: curves that are as long or longer, of this search or an earlier one on the same data.
        horizon: epochs of a training to its end.
    """
    last, epoch = trial.curve[-1], trial.epoch
    if epoch >= horizon:
        return Prediction(last, 0.0, "finished")
    longer = [(now, other) for other in others if other.epoch > epoch and math.isfinite(now := at(other, epoch))]
    longer.sort(key=lambda pair: (abs(pair[0] - last), pair[1].number))
    finished = [pair for pair in longer if math.isfinite(at(pair[1], horizon))][:NEAREST]
    if len(finished) >= ENOUGH:
        return _regression(trial, [other for _, other in finished], horizon)
    points = _points(trial, epoch)
    if len(points[0]) >= LEAST:
        return _calibrated(points, epoch, [other for _, other in longer][:NEAREST], horizon)
    if len(finished) >= FEW:
        rises = np.array([at(other, horizon) - now for now, other in finished])
        spread = float(rises.std(ddof=1)) * math.sqrt(1 + 1 / len(rises))
        return Prediction(last + float(rises.mean()), spread, "last value", len(rises) - 1)
    return Prediction(last, math.inf, "last value")


def _points(trial: Trial, until: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return epochs and scores of the finite part of a curve."""
    pairs = [
        (report.epoch, score)
        for report, score in zip(trial.reports, trial.curve, strict=True)
        if report.epoch <= until and math.isfinite(score)
    ]
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def _calibrated(
    points: tuple[tuple[int, ...], tuple[float, ...]], epoch: int, longer: Sequence[Trial], horizon: int
) -> Prediction:
    """Extrapolate, corrected by the errors that the same would have made on longer curves cut to the same length."""
    mean, spread = extrapolate(*points, horizon)
    errors = []
    for other in longer:
        known = _points(other, epoch)
        last = min(other.epoch, horizon)
        truth = at(other, last)
        if len(known[0]) >= LEAST and math.isfinite(truth):
            guess, width = extrapolate(*known, last)
            errors.append((truth - guess) / width)
    found = np.array(errors)
    bias = float(found.sum()) / (PRIOR + len(found))
    scale = math.sqrt((PRIOR * DOUBT**2 + float(((found - bias) ** 2).sum())) / (PRIOR + len(found)))
    return Prediction(mean + bias * spread, spread * scale, "extrapolation", PRIOR + len(found))


def _features(trial: Trial, epoch: int, horizon: int) -> list[float]:
    """Return what a regression sees of a curve up to an epoch: the last value, its rises, where they lead."""
    last, middle, first = at(trial, epoch), at(trial, math.ceil(epoch / 2)), at(trial, 1)
    points = _points(trial, epoch)
    ahead = extrapolate(*points, horizon)[0] if len(points[0]) >= LEAST else last
    rises = [ahead - last, last - middle, middle - first]
    return [last, *(rise if math.isfinite(rise) else 0.0 for rise in rises)]


def _regression(trial: Trial, finished: Sequence[Trial], horizon: int) -> Prediction:
    """Ridge regression of the rise to the end on features of the curve; the spread is that of left-out residuals."""
    epoch = trial.epoch
    table = np.array([_features(other, epoch, horizon) for other in [trial, *finished]])
    rises = np.array([at(other, horizon) for other in finished]) - table[1:, 0]
    middle, scale = table[1:].mean(axis=0), table[1:].std(axis=0)
    table = (table - middle) / np.where(scale > 0, scale, 1.0)
    table = np.hstack([np.ones((len(table), 1)), table])
    own, design = table[0], table[1:]
    inverse = np.linalg.inv(design.T @ design + np.diag([1e-9, *[1.0] * (table.shape[1] - 1)]))
    solution = inverse @ design.T @ rises
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    left_out = (rises - design @ solution) / np.maximum(1 - leverage, 1e-3)
    spread = math.sqrt(float(np.mean(left_out**2)) * (1 + float(own @ inverse @ own)))
    return Prediction(trial.curve[-1] + float(own @ solution), spread, "regression", len(finished) - len(own))
