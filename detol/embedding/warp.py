"""The warp of the scores: a surrogate sees how far a score is from the best on a logarithmic scale."""

import numpy as np
from numpy.typing import NDArray

MARGIN = 0.2
"""Regret, in units of the typical one, below which differences shrink no further."""


def log_regret(scores: NDArray[np.float64], margin: float = MARGIN) -> NDArray[np.float64]:
    """Return ``-log(regret / typical + margin)``, where the typical regret is that of the median score.

    Spreads out the good scores, among which the search has to tell apart, and draws in the long tail of bad ones that
    would set the length scales otherwise (Bodin et al. 2020, arXiv 1906.11152, modulate with noise to the same end).

    Args:
        scores: shape (n,), finite, more is better, n >= 1.
        margin: > 0.
    """
    regret = scores.max() - scores
    typical = max(float(np.median(regret)), 1e-12 * max(1.0, abs(float(scores.max()))))
    return np.asarray(-np.log(regret / typical + margin))


def worst_for_failed(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores (n,) where those that are not finite are as bad as the worst, or worse where all are equal.

    So what failed is avoided, and how badly it would have done does not matter. At least one score is finite.
    """
    scored = np.isfinite(scores)
    worst, best = scores[scored].min(), scores[scored].max()
    return np.where(scored, scores, worst if worst < best else worst - 1.0)


def standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with mean 0 and variance 1 (all zero when they are all the same)."""
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))
