"""The intrinsic dimension of samples: how many numbers it takes to say where on their manifold they lie."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEPT = 0.9
"""Share of the smallest ratios that count: the largest are of outliers, and of points at the rim."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The two nearest other samples of each sample.

    Args:
        nearest: row of the nearest, (n,).
        first: distance to it, (n,).
        second: distance to the next, (n,).
    """

    nearest: NDArray[np.intp]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def neighbours(x: NDArray[np.float32]) -> Neighbours:
    """Return the two nearest neighbours of each row by Euclidean distance.

    Args:
        x: (n, columns), n >= 3; some thousands of rows at most, n^2 distances are computed.
    """
    centred = x - x.mean(axis=0)
    lengths = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    squares = lengths[:, None] + lengths[None, :] - 2 * (centred @ centred.T).astype(np.float64)
    np.fill_diagonal(squares, np.inf)
    two = np.argpartition(squares, 1, axis=1)[:, :2]
    # Differences, not the expanded square, which loses the digits of what is near.
    apart = np.stack([np.linalg.norm(centred - centred[two[:, k]], axis=1) for k in (0, 1)], axis=1).astype(np.float64)
    order = np.argsort(apart, axis=1, kind="stable")
    apart = np.take_along_axis(apart, order, axis=1)
    return Neighbours(np.take_along_axis(two, order, axis=1)[:, 0], apart[:, 0], apart[:, 1])


def intrinsic_dimension(found: Neighbours) -> float:
    """Return the TwoNN estimate (Facco et al. 2017, Scientific Reports 7:12140, equations 3 to 5).

    The ratios mu = second / first follow the Pareto law F(mu) = 1 - mu^-d, whatever the density: d is the slope of
    -log(1 - F) over log(mu), a line through the origin, fitted on the smallest ``KEPT`` of them. Copies of a sample
    (distance 0) are left out; 0 when nothing is left.
    """
    there = found.first > 0
    ratios = np.sort(np.log(found.second[there] / found.first[there]))
    count = len(ratios)
    kept = int(KEPT * count)
    if kept < 2 or ratios[:kept].sum() <= 0:
        return 0.0
    empirical = -np.log1p(-np.arange(1, kept + 1) / (count + 1))
    return float(ratios[:kept] @ empirical / (ratios[:kept] @ ratios[:kept]))
