"""The kernel of the surrogate: a mixture over decisions and over live graphs, and a linear part for the prior mean.

``k(a, b) = mix * exp(-hamming(a, b) / l_d) + (1 - mix) * exp(-structural(a, b) / l_g) + linear * <a, b>``

The first term compares decisions (Hamming distance, Ru et al. 2020, arXiv 1906.08878), the second the live graphs, in
one of the pool's views of them, so that equal networks in several rows are close but not one. The linear term is the
same as a prior mean that is linear in cheap figures (parameters, depth, counts of operations) with weights drawn from
N(0, linear) (Rasmussen and Williams 2006, section 2.7); it is zero where the data do not speak for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from detol.embedding.graph_features import Floats


@dataclass(frozen=True, slots=True)
class Settings:
    """One setting of the kernel; scores have unit variance.

    Args:
        decisions: length scale of the Hamming term, > 0; distances are in [0, 1].
        graphs: length scale of the structural term, > 0; squared distances are 1 on average.
        mix: share of the Hamming term, in [0, 1].
        linear: variance of the linear term, >= 0.
        noise: variance of what is a row's own, > 0.
        view: which of the pool's views of graphs the structural and the linear term compare.
    """

    decisions: float
    graphs: float
    mix: float
    linear: float
    noise: float
    view: int = 0

    @property
    def log_prior(self) -> float:
        """Log odds before anything is observed, the first view's settings at 0."""
        return -DOUBT if self.view else 0.0


def mixture(settings: Settings, hamming: Floats, structural: Floats, linear: Floats | None) -> Floats:
    """Return the kernel for distances of any one shape."""
    total = np.zeros_like(hamming)
    if settings.mix > 0:
        total += np.float32(settings.mix) * np.exp(hamming * np.float32(-1 / settings.decisions))
    if settings.mix < 1:
        total += np.float32(1 - settings.mix) * np.exp(structural * np.float32(-1 / settings.graphs))
    if settings.linear > 0 and linear is not None:
        total += np.float32(settings.linear) * linear
    return total


def spread(count: int, *, prior: bool = True, graphs: bool = True, views: int = 1) -> Sequence[Settings]:
    """Return settings spread evenly over the plausible ranges (a Sobol sequence, always the same).

    Args:
        count: how many, >= 1.
        prior: whether some have a linear term.
        graphs: whether some have a structural term.
        views: of graphs, >= 1: the settings take turns.
    """
    drawn = qmc.Sobol(5, seed=1, scramble=True).random(1 << max(0, count - 1).bit_length())[:count]
    found = []
    for place, (decisions, like, mix, linear, noise) in enumerate(drawn):
        found.append(
            Settings(
                decisions=_between(decisions, *DECISIONS),
                graphs=_between(like, *GRAPHS),
                mix=float(mix) if graphs else 1.0,
                linear=0.0
                if not prior or linear < NO_PRIOR
                else _between((linear - NO_PRIOR) / (1 - NO_PRIOR), *LINEAR),
                noise=_between(noise, *NOISE),
                view=place % views,
            )
        )
    return found


DECISIONS = (0.15, 1.5)
GRAPHS = (0.1, 1.5)
LINEAR = (0.05, 3.0)
NOISE = (0.002, 0.3)
DOUBT = 2.0
"""Log odds against a further view of the graphs: few results speak for any by chance."""
NO_PRIOR = 0.25
"""Share of the settings without a linear term."""


def _between(share: float, low: float, high: float) -> float:
    return float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))
