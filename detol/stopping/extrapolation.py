"""Where a learning curve leads: an ensemble of parametric forms, each fitted by least squares.

The forms are those of Domhan et al. 2015 ("Speeding up automatic hyperparameter optimization ...", IJCAI, table 1) that
saturate, each written as ``level - size * shape(epoch)`` so that scores may be of any range and sign. Level and size
follow in closed form for given exponents (separable least squares, Golub and Pereyra 1973), and the exponents are
tried on a grid: there is no start value and no local minimum. The forms are averaged with weights from the Bayesian
information criterion.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXPONENTS = tuple(np.geomspace(0.1, 3.0, 14))
RATES = tuple(np.geomspace(0.01, 1.5, 14))
FINE_EXPONENTS = tuple(np.geomspace(0.05, 4.0, 40))
FINE_RATES = tuple(np.geomspace(0.005, 2.0, 40))
OFFSETS = (0.5, 1.0, 2.0, 4.0, 8.0)
MIDDLES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
STEPS = (0.75, 1.0, 1.5, 2.0)
STRETCHES = (0.4, 0.6, 0.8)
UNKNOWN = 0.25
"""Share of the rise still to come that no fit knows; the spread is calibrated on other curves from there."""
LEAST = 4
"""Points from which something is fitted: each form takes part where there are more of them than it has parameters."""


def _forms(x: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return (number of parameters, shapes (grid, len(x))) of each form, falling from the first epoch on."""
    return [
        (3, np.array([x**-a for a in FINE_EXPONENTS])),  # pow3: c - a x**-alpha
        (4, np.array([(x + b) ** -a for a in EXPONENTS for b in OFFSETS])),  # pow4: c - (a x + b)**-alpha
        (4, np.array([1 / (1 + (x / b) ** c) for b in MIDDLES for c in STEPS])),  # log power: a / (1 + (x / e**b)**c)
        (3, np.array([np.exp(-a * x) for a in FINE_RATES])),  # exp3: c - exp(-a x + b)
        (4, np.array([np.exp(-a * x**s) for a in RATES for s in STRETCHES])),  # exp4: c - exp(-a x**alpha + b)
        (2, np.array([1 / np.log(x + 1)])),  # ilog2: c - a / log(x + 1)
    ]


@dataclass(frozen=True)
class _Basis:
    """The shapes of all forms (n in all) at some epochs, prepared for weighted least squares.

    Args:
        readers: (n, points) what takes the size of a shape from centred scores.
        energy: (n,) weighted square of each centred shape.
        ahead: (n,) the shape at the horizon, less its mean.
        starts: where each form begins among the n.
        parameters: of each form.
    """

    readers: np.ndarray
    energy: np.ndarray
    ahead: np.ndarray
    starts: np.ndarray
    parameters: np.ndarray


@functools.lru_cache(maxsize=8192)
def _basis(epochs: tuple[int, ...], horizon: int) -> _Basis:
    weights = _weights(len(epochs))
    forms = _forms(np.array([*epochs, horizon], dtype=float))
    shapes = np.concatenate([each for _, each in forms])
    mean = shapes[:, :-1] @ weights
    centred = shapes[:, :-1] - mean[:, None]
    energy = np.maximum(centred**2 @ weights, 1e-300)
    starts = np.cumsum([0, *(len(each) for _, each in forms[:-1])])
    parameters = np.array([count for count, _ in forms], dtype=float)
    return _Basis(centred * weights / energy[:, None], energy, shapes[:, -1] - mean, starts, parameters)


@functools.lru_cache(maxsize=4096)
def _weights(count: int) -> np.ndarray:
    """Return what each point counts, summing to 1: late ones more, since it goes on from there."""
    weights: np.ndarray = np.arange(1, count + 1, dtype=float)
    weights /= weights.sum()
    return weights


def extrapolate(epochs: Sequence[int], scores: Sequence[float], horizon: int) -> tuple[float, float]:
    """Return the mean and the spread (standard deviation, > 0) of the score after ``horizon`` epochs.

    The spread is what the forms differ by, what the points scatter around them, and a share of the rise still to come;
    it is not calibrated.

    Args:
        epochs: of the points, ascending.
        scores: finite, at least ``LEAST``.
        horizon: beyond the last epoch.

    Raises:
        ValueError: too few points.
    """
    if len(scores) < LEAST:
        raise ValueError(f"an extrapolation needs at least {LEAST} points, got {len(scores)}")
    return _extrapolate(tuple(epochs), tuple(scores), horizon)


@functools.lru_cache(maxsize=100_000)
def _extrapolate(epochs: tuple[int, ...], scores: tuple[float, ...], horizon: int) -> tuple[float, float]:
    y, basis = np.array(scores), _basis(epochs, horizon)
    weights = _weights(len(y))
    middle = float(weights @ y)
    centred = y - middle
    total = float(weights @ centred**2)
    floor = 1e-6 * total + 1e-300  # no curve is known better than to a thousandth of its range
    sizes = basis.readers @ centred
    errors = np.maximum(total - sizes**2 * basis.energy, 0.0)
    best = [
        start + int(np.argmin(part))
        for start, part in zip(basis.starts, np.split(errors, basis.starts[1:]), strict=True)
    ]
    open_ = basis.parameters < len(y)
    best = [place for place, part in zip(best, open_, strict=True) if part]
    ends, errors = middle + sizes[best] * basis.ahead[best], errors[best]
    criterion = len(y) * np.log(errors + floor) + basis.parameters[open_] * math.log(len(y))
    share = np.exp(-0.5 * (criterion - criterion.min()))
    share /= share.sum()
    mean = float(share @ ends)
    to_come = UNKNOWN * (mean - float(y[-1]))
    return mean, math.sqrt(float(share @ (ends - mean) ** 2) + float(share @ errors) + to_come**2 + floor)
