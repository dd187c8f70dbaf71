"""Predicts the score of a topology that was never trained: a Gaussian process over embeddings, averaged over kernels.

``k(a, b) = sum_j w_j exp(-|a_j - b_j|^2 / l_j) + v <a_f, b_f>`` over blocks j of what is known of a topology (patterns,
figures, and learned vectors where they are given), scaled so that two rows are 1 apart on average; the linear term over
the figures is a prior mean with weights drawn from N(0, v) (Rasmussen and Williams 2006, section 2.7). With few scores
the marginal likelihood is flat, so that settings are not fitted: a fixed spread of them is averaged, each weighted by
its evidence (section 5.4.1, constant mean and scale integrated out). Scores are warped to log regret, which tells good
ones apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.stats import qmc

from detol.embedding.features import features, table
from detol.embedding.graph_features import Floats, GraphFeatures
from detol.embedding.size import NOMINAL
from detol.embedding.warp import log_regret, standardised
from detol.graph.topology import Topology

SETTINGS, MEMBERS = 64, 8
"""Settings of the kernel that are compared, and averaged over at most."""
COMPARED = 200
"""Scores on which settings are compared at most."""
LENGTHS, NOISE, LINEAR = (0.1, 2.0), (0.01, 0.3), (0.05, 3.0)
NO_PRIOR = 0.25
"""Share of the settings without a linear term."""
MEAN_PRECISION, SCALE_WEIGHT, JITTER = 0.1, 2.0, 1e-6
MARGIN = 0.5
"""Of the warp (see :func:`detol.embedding.warp.log_regret`): ranks count, not only the best."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known of n topologies: blocks float32 (n, columns), of which the second holds the figures by name."""

    patterns: Floats
    figures: Floats
    names: Sequence[str]
    vectors: Floats | None = None

    @classmethod
    def of(cls, found: Sequence[GraphFeatures], vectors: Floats | None = None) -> "Inputs":
        """Return the inputs of topologies by their features, with a learned vector of each where given."""
        figures, names = table([one.figures for one in found])
        return cls(np.stack([one.patterns for one in found]), figures, names, vectors)

    def __len__(self) -> int:
        """Return how many topologies it holds."""
        return len(self.patterns)

    def __getitem__(self, where: "NDArray[np.intp]") -> "Inputs":
        """Return some rows."""
        some = None if self.vectors is None else self.vectors[where]
        return Inputs(self.patterns[where], self.figures[where], self.names, some)


class Predictor:
    """A regression from topologies to scores; more is better.

    Args:
        reference: topologies that means and spreads are taken from: all candidates, say; no scores of them are needed.
        margin: of the warp of the scores, > 0: small ones tell the best apart, large ones rank all alike.

    ::

        known = inputs(topologies)
        predictor = Predictor(known).fit(known, scores)
        mean, deviation = predictor.predict(inputs(others))
    """

    def __init__(self, reference: Inputs, margin: float = MARGIN) -> None:
        self._margin = margin
        self._names = {name: at for at, name in enumerate(reference.names)}
        figures = reference.figures.astype(np.float64)
        spread = figures.std(axis=0)
        self._kept = spread > 1e-9
        self._mean, self._spread = figures.mean(axis=0)[self._kept], spread[self._kept]
        self._scales = [_scale(block) for block in self._raw(reference)]
        self._members: list[_Member] = []
        self._known: list[Doubles] = []
        self._values = np.zeros(0)

    def fit(self, known: Inputs, scores: Sequence[float] | Doubles) -> "Predictor":
        """Condition on scores of topologies, in any unit; returns itself.

        Args:
            known: n >= 2 topologies.
            scores: (n,), finite.

        Raises:
            ValueError: fewer than two, as many scores as topologies are not there, or one that is not finite.
        """
        given = np.asarray(scores, np.float64)
        if len(known) != len(given) or len(given) < 2 or not np.isfinite(given).all():
            raise ValueError(f"a predictor is fitted to >= 2 finite scores, one a topology, got {given.shape}")
        self._known = self._blocks(known)
        self._values = standardised(log_regret(given, self._margin))
        settings = _spread(len(self._known))
        some = _compared(given)
        among, linear = self._among(some)
        logs = np.array([_conditioned(one, among, linear, self._values[some]).evidence for one in settings])
        order = np.argsort(-logs, kind="stable")[:MEMBERS]
        weights = np.exp(logs[order] - logs[order[0]])
        kept = weights > 0.02
        among, linear = self._among(np.arange(len(given)))
        self._members = [_conditioned(settings[at], among, linear, self._values) for at in order[kept]]
        for member, weight in zip(self._members, weights[kept] / weights[kept].sum(), strict=True):
            member.weight = float(weight)
        return self

    def predict(self, candidates: Inputs) -> tuple[Doubles, Doubles]:
        """Return the mean and the standard deviation of each candidate's score, warped: float64 (m,) each.

        They compare with each other and with :attr:`best`; the unit is a standard deviation of the known ones.
        """
        blocks = self._blocks(candidates)
        distances = [_squares(known, block) for known, block in zip(self._known, blocks, strict=True)]
        linear = self._linear(self._known).T @ self._linear(blocks)
        own = np.einsum("ij,ij->j", self._linear(blocks), self._linear(blocks))
        mean, square = np.zeros(len(candidates)), np.zeros(len(candidates))
        for member in self._members:
            across = _kernel(member.settings, distances, linear)
            half = solve_triangular(member.factor, across, lower=True, check_finite=False)
            predicted = member.level + half.T @ member.rest
            variance = np.maximum(1 + member.settings.linear * own - (half * half).sum(0), 1e-6)
            mean += member.weight * predicted
            square += member.weight * (predicted**2 + variance * member.scale)
        return mean, np.sqrt(np.maximum(square - mean**2, 1e-9))

    @property
    def best(self) -> float:
        """The best known score, warped."""
        return float(self._values.max())

    def _raw(self, given: Inputs) -> list[Doubles]:
        figures = np.zeros((len(given), len(self._names)))
        for column, name in enumerate(given.names):
            if name in self._names:  # what the reference has not is the same in all that it knows
                figures[:, self._names[name]] = given.figures[:, column]
        scaled = (figures[:, self._kept] - self._mean) / self._spread
        blocks = [given.patterns.astype(np.float64), scaled]
        return blocks if given.vectors is None else [*blocks, given.vectors.astype(np.float64)]

    def _blocks(self, given: Inputs) -> list[Doubles]:
        return [block * scale for block, scale in zip(self._raw(given), self._scales, strict=True)]

    def _linear(self, blocks: Sequence[Doubles]) -> Doubles:
        """Return the figures as columns (figures, n), with unit length on average."""
        figures = blocks[1] / self._scales[1]
        return np.asarray(figures.T / np.sqrt(max(1, figures.shape[1])))

    def _among(self, rows: "NDArray[np.intp]") -> tuple[list[Doubles], Doubles]:
        """Return the distances in each block, and the linear kernel, among some of the known."""
        blocks = [block[rows] for block in self._known]
        linear = self._linear(blocks)
        return [_squares(block, block) for block in blocks], np.asarray(linear.T @ linear)


def inputs(
    topologies: Sequence[Topology], shape: Sequence[int] = NOMINAL["image"], vectors: Floats | None = None
) -> Inputs:
    """Return what the predictor knows of topologies; ``shape`` of a sample, ``vectors`` (n, columns) learned ones."""
    return Inputs.of([features(topology, shape) for topology in topologies], vectors)


@dataclass(frozen=True, slots=True)
class _Settings:
    weights: tuple[float, ...]
    lengths: tuple[float, ...]
    linear: float
    noise: float


@dataclass(slots=True)
class _Member:
    """One setting conditioned on what is known; ``rest`` is L^-1 (values - level)."""

    settings: _Settings
    factor: Doubles
    level: float
    rest: Doubles
    scale: float
    evidence: float
    weight: float = 1.0


def _conditioned(settings: _Settings, among: Sequence[Doubles], linear: Doubles, values: Doubles) -> _Member:
    count = len(values)
    covariance = _kernel(settings, among, linear)
    covariance[np.diag_indices(count)] += settings.noise + JITTER
    factor: Doubles = np.asarray(np.linalg.cholesky(covariance), np.float64)
    right = np.stack([np.ones(count), values], 1)
    ones, seen = solve_triangular(factor, right, lower=True, check_finite=False).T
    precision = ones @ ones + MEAN_PRECISION
    squares = seen @ seen - (ones @ seen) ** 2 / precision + SCALE_WEIGHT
    total = count + SCALE_WEIGHT
    evidence = -0.5 * total * np.log(squares) - np.log(np.diagonal(factor)).sum() - 0.5 * np.log(precision)
    level = (ones @ seen) / precision
    return _Member(settings, factor, float(level), seen - level * ones, float(squares / total), float(evidence))


@lru_cache
def _spread(blocks: int) -> Sequence[_Settings]:
    """Return settings spread evenly over the plausible ranges: weights of the blocks over the simplex."""
    found = []
    for row in qmc.Sobol(2 * blocks + 2, seed=1, scramble=True).random(SETTINGS):
        shares = -np.log(row[:blocks] + 1e-6)
        prior = (row[2 * blocks] - NO_PRIOR) / (1 - NO_PRIOR)
        found.append(
            _Settings(
                weights=tuple((shares / shares.sum()).tolist()),
                lengths=tuple(_between(float(share), *LENGTHS) for share in row[blocks : 2 * blocks]),
                linear=_between(float(prior), *LINEAR) if prior >= 0 else 0.0,
                noise=_between(float(row[-1]), *NOISE),
            )
        )
    return found


def _between(share: float, low: float, high: float) -> float:
    return float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))


def _kernel(settings: _Settings, distances: Sequence[Doubles], linear: Doubles) -> Doubles:
    parts = zip(settings.weights, settings.lengths, distances, strict=True)
    total = settings.linear * linear
    for weight, length, apart in parts:
        total = total + weight * np.exp(apart / -length)
    return np.asarray(total)


def _scale(block: Doubles) -> float:
    """Return the factor that brings two rows 1 apart on average, in squared distance."""
    return float(1 / np.sqrt(max(2 * block.var(axis=0).sum(), 1e-12)))


def _squares(a: Doubles, b: Doubles) -> Doubles:
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0))


def _compared(scores: Doubles) -> "NDArray[np.intp]":
    """Return the rows on which settings are compared: all, or as many of them, evenly by rank."""
    if len(scores) <= COMPARED:
        return np.arange(len(scores))
    order = np.argsort(-scores, kind="stable")
    return np.sort(order[np.linspace(0, len(scores) - 1, COMPARED).astype(np.intp)])
