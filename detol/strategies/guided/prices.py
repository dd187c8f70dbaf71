"""What a candidate costs to train, learnt from the seconds that others took."""

from collections.abc import Sequence

import numpy as np

from detol.embedding.graph_features import Floats

RIDGE = 0.1
"""Weight of the penalty on the slopes, for standardised figures and logarithms of seconds."""


def prices(figures: Floats, seen: Sequence[int], seconds: Sequence[float]) -> Floats:
    """Return about how many seconds an epoch of each candidate takes, 1 on average over those seen.

    Logarithms of seconds are linear in the figures (logarithms of parameters and multiply-adds among them), fitted by
    ridge regression; predictions stay within what was seen, with a factor of two to either side.

    Args:
        figures: of all candidates, (rows, figures), standardised.
        seen: rows whose seconds are known, n >= 1.
        seconds: of an epoch of each, (n,), > 0.
    """
    known = np.log(np.asarray(seconds, np.float64))
    mean = known.mean()
    inputs = figures[np.asarray(seen, np.intp)].astype(np.float64)
    centre = inputs.mean(axis=0)
    inputs = inputs - centre
    # (X'X + r)^-1 X'y by the smaller system: there are often fewer rows than figures.
    weights = inputs.T @ np.linalg.solve(inputs @ inputs.T + RIDGE * np.eye(len(inputs)), known - mean)
    predicted = (figures.astype(np.float64) - centre) @ weights
    low, high = known.min() - mean - np.log(2), known.max() - mean + np.log(2)
    return np.asarray(np.exp(np.clip(predicted, low, high)), np.float32)
