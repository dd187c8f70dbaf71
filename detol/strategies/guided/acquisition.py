"""Expected improvement, averaged over the members of an ensemble."""

import numpy as np
from scipy.special import ndtr

from detol.embedding.graph_features import Floats


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return E[max(0, f - best)] for f ~ N(mean, deviation^2) (Jones et al. 1998, equation 15).

    Args:
        mean: any shape.
        deviation: the same shape, > 0.
        best: what is to be improved on.
    """
    u = (mean - np.float32(best)) / deviation
    density = np.exp(-0.5 * u * u) / np.float32(np.sqrt(2 * np.pi))
    return np.asarray(deviation * (u * ndtr(u) + density), np.float32)
