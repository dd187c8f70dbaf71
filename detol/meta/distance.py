"""How near two data sets are: by their descriptors, and by how alike they rank the same topologies."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from detol.meta.descriptor import Descriptor

SCALES: Mapping[str, float] = {
    "log_rows": 5.0,
    "log_size": 5.0,
    "log_channels": 2.0,
    "log_side": 2.5,
    "log_outputs": 3.0,
    "balance": 0.5,
    "largest": 0.5,
    "target_skewness": 2.0,
    "skewness": 2.0,
    "kurtosis": 4.0,
    "channel_spread": 2.0,
    "constant": 1.0,
    "zeros": 1.0,
    "intrinsic_dimension": 1.5,
    "nearest": 1.0,
}
"""Differences that count as all there is, by figure: about those between the most unlike data sets of one kind."""
OTHER_TASK = 0.5
"""What is added where one is a classification and the other a regression."""
DESCRIBED = 10.0
"""The descriptors count for as much as the ranks of so many shared topologies."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How alike two data sets rank topologies: Kendall's tau-b in [-1, 1] over ``shared`` of them (0: not known)."""

    tau: float
    shared: int


def distance(left: Descriptor, right: Descriptor) -> float:
    """Return how unlike two data sets are by their descriptors, in [0, 1]; infinite for other kinds of data.

    The mean over the figures that both have of their difference, as a share of what can be (Gower 1971, Biometrics
    27:857, with fixed ranges). Without a shared figure it is 1.
    """
    if left.kind != right.kind:
        return math.inf
    shared = [name for name in SCALES if name in left.figures and name in right.figures]
    if not shared:
        return 1.0
    parts = [min(1.0, abs(left.figures[name] - right.figures[name]) / SCALES[name]) for name in shared]
    return min(1.0, sum(parts) / len(parts) + (OTHER_TASK if left.task != right.task else 0.0))


def agreement(left: Mapping[str, float], right: Mapping[str, float]) -> Agreement:
    """Return Kendall's tau-b of the scores (more is better) of the topologies that both have, by digest.

    With fewer than three shared ones, or where all scores of one are equal, nothing is known.
    """
    from scipy.stats import kendalltau  # some 0.3 s, so not with this module

    shared = sorted(left.keys() & right.keys())
    if len(shared) < 3:
        return Agreement(0.0, 0)
    tau = float(kendalltau([left[name] for name in shared], [right[name] for name in shared]).statistic)
    return Agreement(tau, len(shared)) if math.isfinite(tau) else Agreement(0.0, 0)


def similarity(apart: float, agreed: Agreement) -> float:
    """Return how much one data set's results are believed for another, in [0, 1].

    1 - distance counts as ``DESCRIBED`` shared topologies, the share of pairs that are ranked alike, (1 + tau) / 2, as
    as many as there are.
    """
    if math.isinf(apart):
        return 0.0
    alike = (1 + agreed.tau) / 2
    return (DESCRIBED * (1 - apart) + agreed.shared * alike) / (DESCRIBED + agreed.shared)
