"""Dominance among several objectives: fronts and crowding (Deb et al. 2002, "A fast and elitist ... NSGA-II").

No installed library has a public non-dominated sort (Optuna's is private), so it stands here; the tests hold it against
Optuna's.
"""

import numpy as np

VIOLATION = "violation"
"""Among the extra facts of a trial that was refused: by how much it is over a limit, as a share of the limit, > 0."""


def fronts(scores: np.ndarray) -> np.ndarray:
    """Return the number (n,) of each point's front: 0 for points that no other dominates, and so on.

    A point dominates another when it is at least as good in all objectives and better in one; equal points share a
    front. Takes O(n**2 m) time and O(n**2) memory.

    Args:
        scores: (n, m), more is better, finite.
    """
    not_worse: np.ndarray = np.all(scores[:, None, :] >= scores[None, :, :], axis=2)
    dominates = not_worse & ~not_worse.T
    dominators = dominates.sum(axis=0)
    found = np.full(len(scores), -1)
    number = 0
    while (found < 0).any():
        front = (found < 0) & (dominators == 0)
        found[front] = number
        dominators = dominators - dominates[front].sum(axis=0)
        number += 1
    return found


def crowding(scores: np.ndarray) -> np.ndarray:
    """Return the crowding distance (n,) within one front: the mean side of the box to the neighbours (section III B).

    The first and last point of each objective are infinitely far; an objective in which all are equal counts nothing.

    Args:
        scores: (n, m), finite.
    """
    distance = np.zeros(len(scores))
    for values in scores.T:
        order = np.argsort(values, kind="stable")
        spread = values[order[-1]] - values[order[0]]
        if spread > 0:
            distance[order[1:-1]] += (values[order[2:]] - values[order[:-2]]) / spread
            distance[order[[0, -1]]] = np.inf
    return distance
