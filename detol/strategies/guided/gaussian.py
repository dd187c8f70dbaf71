"""A Gaussian process averaged over settings of its kernel, weighted by how well each explains what is known.

With ten to fifty observations the marginal likelihood is flat, so that a single maximum is often the wrong one; a
weighted average over a fixed spread of settings is robust, and a function of the observations alone. Each setting has
a constant mean and a scale of its own, both integrated out (Rasmussen and Williams 2006, sections 2.7 and 5.4.1; the
scale has an inverse gamma prior).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from detol.embedding.graph_features import Floats
from detol.strategies.guided.acquisition import expected_improvement
from detol.strategies.guided.kernels import Settings, mixture

MEAN_PRECISION = 0.1
"""Prior precision of the constant mean, in units of the kernel's scale."""
SCALE_WEIGHT = 2.0
"""The prior scale (1) counts as so many observations."""
JITTER = 1e-6

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distances:
    """Distances between two sets of rows, all of one shape; see :class:`detol.strategies.guided.pool.Pool`.

    Attributes:
        hamming: of the decisions.
        structural: squared distances of the graphs, in the first view of them.
        linear: inner products of the figures, in the first view.
        more: both for each further view.
    """

    hamming: Floats
    structural: Floats
    linear: Floats
    more: tuple[tuple[Floats, Floats], ...] = ()

    def seen(self, view: int) -> tuple[Floats, Floats, Floats]:
        """Return what :func:`detol.strategies.guided.kernels.mixture` takes, in one view of the graphs."""
        return (self.hamming, *((self.structural, self.linear), *self.more)[view])

    def __getitem__(self, where: Any) -> "Distances":
        """Return a part, as an array does."""
        more = tuple((structural[where], linear[where]) for structural, linear in self.more)
        return Distances(self.hamming[where], self.structural[where], self.linear[where], more)


@dataclass(slots=True)
class _Member:
    """One setting conditioned on what is known: ``half`` is L^-1 K(known, candidates)."""

    settings: Settings
    weight: float
    half: Floats
    mean: Floats
    variance: Floats
    scale: float

    def deviation(self) -> Floats:
        # What is a row's own counts: it is a row's observed score that is to improve.
        spread = np.maximum(self.variance, 1e-6) + np.float32(self.settings.noise)
        return np.asarray(np.sqrt(spread * np.float32(self.scale)), np.float32)


def evidence(settings: Sequence[Settings], among: Distances, values: Doubles) -> Doubles:
    """Return the log marginal likelihood of each setting, up to a constant: float64 (settings,).

    Args:
        settings: to compare.
        among: distances among the observed, (n, n).
        values: what was observed, (n,), of mean 0 and variance about 1.
    """
    count = len(values)
    covariance = np.stack([mixture(s, *among.seen(s.view)) for s in settings]).astype(float)
    covariance += (np.array([s.noise for s in settings]) + JITTER)[:, None, None] * np.eye(count)
    factor = np.linalg.cholesky(covariance)
    right = np.broadcast_to(np.stack([np.ones(count), values], 1), (len(settings), count, 2))
    solved = np.linalg.solve(factor, right)
    ones, seen = solved[..., 0], solved[..., 1]
    precision = (ones * ones).sum(1) + MEAN_PRECISION
    squares = (seen * seen).sum(1) - (ones * seen).sum(1) ** 2 / precision + SCALE_WEIGHT
    logs = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    return np.asarray(-0.5 * (count + SCALE_WEIGHT) * np.log(squares) - logs - 0.5 * np.log(precision))


class Posterior:
    """The ensemble's view of candidates, given observations and pending points.

    Pending points count as observed at their own mean (kriging believer, Ginsbourger et al. 2010): means stay, and
    the uncertainty around them falls, so that the next proposal lies elsewhere.

    Args:
        settings: the members, with weights that add up to 1.
        among: distances among the observed (first) and the pending (then), (n + p, n + p).
        toward: distances of these to the candidates, (n + p, m).
        values: of the observed, (n,).
        own: the linear kernel of each candidate with itself, (m,), for each view of graphs.
    """

    def __init__(
        self,
        settings: Sequence[tuple[Settings, float]],
        among: Distances,
        toward: Distances,
        values: Doubles,
        own: Sequence[Floats],
    ) -> None:
        self.members = [_condition(s, w, among, toward, values, own) for s, w in settings]
        self._toward = toward
        self._best = float(values.max())

    def improvement(self) -> Floats:
        """Return the expected improvement of each candidate on the best observed value, float32 (m,)."""
        total = np.zeros(len(self.members[0].mean), np.float32)
        for member in self.members:
            total += np.float32(member.weight) * expected_improvement(member.mean, member.deviation(), self._best)
        return total

    def believe(self, place: int, toward: Distances) -> None:
        """Count candidate ``place`` as pending; ``toward`` has its distances to all candidates, (m,)."""
        for member in self.members:
            column = member.half[:, place]
            row = mixture(member.settings, *toward.seen(member.settings.view)) - column @ member.half
            pivot = max(float(member.variance[place]), 1e-6) + member.settings.noise + JITTER
            new = row / np.float32(np.sqrt(pivot))
            member.half = np.vstack([member.half, new[None]])
            member.variance = np.asarray(member.variance - new * new, np.float32)


def _condition(
    settings: Settings, weight: float, among: Distances, toward: Distances, values: Doubles, own: Sequence[Floats]
) -> _Member:
    count, every = len(values), len(among.hamming)
    covariance = mixture(settings, *among.seen(settings.view)).astype(float)
    covariance[np.diag_indices(every)] += settings.noise + JITTER
    factor = np.linalg.cholesky(covariance)
    right = np.stack([np.ones(count), values], 1)
    ones, seen = solve_triangular(factor[:count, :count], right, lower=True, check_finite=False).T
    precision = ones @ ones + MEAN_PRECISION
    level = (ones @ seen) / precision
    rest = seen - level * ones
    across = mixture(settings, *toward.seen(settings.view))
    half = solve_triangular(factor.astype(np.float32), across, lower=True, check_finite=False)
    mean = np.float32(level) + rest.astype(np.float32) @ half[:count]
    variance = 1 + np.float32(settings.linear) * own[settings.view] - np.einsum("ij,ij->j", half, half)
    scale = float((seen @ seen - (ones @ seen) ** 2 / precision + SCALE_WEIGHT) / (count + SCALE_WEIGHT))
    return _Member(settings, weight, half, mean.astype(np.float32), variance.astype(np.float32), scale)


def best_members(
    settings: Sequence[Settings], among: Distances, values: Doubles, most: int
) -> Sequence[tuple[Settings, float]]:
    """Return at most ``most`` most likely settings, prior odds included, with weights that add up to 1."""
    logs = evidence(settings, among, values) + [setting.log_prior for setting in settings]
    order = np.argsort(-logs, kind="stable")[:most]
    weights = np.exp(logs[order] - logs[order[0]])
    kept = weights > 0.02
    weights = weights[kept] / weights[kept].sum()
    return [(settings[int(place)], float(weight)) for place, weight in zip(order[kept], weights, strict=True)]
