"""What trainings took, against what the model of a step foretold: learnt while a search runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CAUTION = 0.07
"""Share that an epoch on two ranks is taken to be slower than foretold, until one has been measured.

Two cores (AMD EPYC, gloo, the large network of ``benchmarks/auto_ranks.py --real``): epochs of 10.9 s on one rank and
6.6 on two, 15.6 and 8.3 foretold. Beside that fault of scale, which ended trials of one rank correct, two ranks are
14 % slower than they should be, and a search that believed the model took 15 % longer than with all trials side by
side. Half of it is believed: whoever never tries two ranks never learns what they take."""

_LEVEL, _SIZE, _WIDE, _NOISE = 3.0, 0.3, 0.3, 0.1
"""Prior deviations of the three coefficients, and that of the logarithm of a measured time."""

_TURNS, _FAR = 3, 2.0
"""Turns of reweighting, and deviations of noise from which a training counts less: something else ran beside it."""


@dataclass(frozen=True, slots=True)
class Correction:
    """How many times longer an epoch takes than foretold: exp(level + size log(s / typical) + wide 2 (n - 1) / n).

    For ``s`` foretold seconds on ``n`` ranks; 2 (n - 1) / n is what a ring sends of the gradient.
    """

    level: float = 0.0
    size: float = 0.0
    wide: float = 0.0
    typical: float = 1.0

    def __call__(self, seconds: float, width: int) -> float:
        """Return the factor of an epoch of so many foretold seconds, > 0."""
        one, size, wide = _features(seconds / self.typical, width)
        return math.exp(self.level * one + self.size * size + self.wide * wide)


NONE = Correction()


def learnt(measured: Sequence[tuple[float, int, float]]) -> Correction:
    """Return the correction that trainings teach: Bayesian linear regression of the logarithm, robust to stragglers.

    Before the first one the level is 0 and :data:`CAUTION` is all it knows; sizes make no difference until they do.

    Args:
        measured: foretold seconds of an epoch, ranks, and measured seconds; all > 0.
    """
    caution = math.log1p(CAUTION)
    if not measured:
        return Correction(wide=caution)
    typical = math.exp(float(np.mean([math.log(foretold) for foretold, _, _ in measured])))
    features = np.array([_features(foretold / typical, width) for foretold, width, _ in measured])
    ratios = np.log([taken / foretold for foretold, _, taken in measured])
    prior, precision = np.array([0.0, 0.0, caution]), np.diag([_LEVEL**-2, _SIZE**-2, _WIDE**-2])
    weights = np.full(len(ratios), _NOISE**-2)
    for _ in range(_TURNS):
        weighted = features * weights[:, None]
        found = np.linalg.solve(weighted.T @ features + precision, weighted.T @ ratios + precision @ prior)
        off = np.abs(ratios - features @ found) / (_FAR * _NOISE)
        weights = _NOISE**-2 / np.maximum(off, 1.0)  # Huber's
    level, size, wide = (float(value) for value in found)
    return Correction(level, size, wide, typical)


def _features(relative: float, width: int) -> tuple[float, float, float]:
    return 1.0, math.log(relative), 2 * (width - 1) / width
