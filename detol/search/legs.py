"""How long trials take: one to its first milestone, before it has begun, and several side by side."""

import heapq
import math
from collections.abc import Iterable, Sequence

import numpy as np

LEAST = 4
"""Trials that a line is fitted to; with fewer, the longest counts."""
TINY = 1e-6
"""Seconds that count for none."""
SPREAD = 2.0
"""Standard deviations about the line that a forecast lies above it: one in forty takes longer."""


def longest(costs: Sequence[float], seconds: Sequence[float], cost: float) -> float:
    """Return about how many seconds a trial takes at most.

    Logarithms of seconds are linear in those of costs, by least squares with a slope in [0, 1]: what costs more takes
    no less, and no more than in proportion.

    Args:
        costs: multiply-adds of others, (n,), >= 0 (below 1 as 1).
        seconds: that these took, (n,), >= 0.
        cost: multiply-adds of the trial, >= 0.

    Returns:
        Seconds; 0 where there are no others.
    """
    if len(costs) < LEAST:
        return max(seconds, default=0.0)
    x, y = np.log(np.maximum(costs, 1.0)), np.log(np.maximum(seconds, TINY))
    spread = float(np.var(x))
    slope = float(np.clip(np.mean((x - x.mean()) * (y - y.mean())) / spread, 0.0, 1.0)) if spread else 0.0
    rest = y - y.mean() - slope * (x - x.mean())
    deviation = math.sqrt(float(np.sum(rest**2)) / (len(y) - 2))
    return math.exp(float(y.mean()) + slope * (math.log(max(cost, 1.0)) - float(x.mean())) + SPREAD * deviation)


def makespan(seconds: Iterable[float], workers: int) -> float:
    """Return when the last of some jobs ends that so many workers (>= 1) take in turn, the longest first (Graham 1969).

    That is at most 4/3 - 1/(3 workers) of the shortest possible.
    """
    ends = [0.0] * workers
    for length in sorted(seconds, reverse=True):
        heapq.heapreplace(ends, ends[0] + length)
    return max(ends)
