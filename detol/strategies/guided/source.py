"""What records of another data set say of all rows of a pool: a Gaussian process conditioned on them.

Its posterior is the prior of the process over the data set that is searched now: with correlation ``rho`` between the
two, f = rho * f_source + sqrt(1 - rho^2) * g, where g is a process of its own. That is the intrinsic model of
coregionalisation (Bonilla et al. 2008, "Multi-task Gaussian process prediction", equation 2), as Swersky et al. 2013
(NeurIPS, "Multi-task Bayesian optimization") use it to warm a search, conditioned in two steps: the source once, the
search's own results at each ask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from detol.embedding.graph_features import Floats
from detol.embedding.warp import log_regret, standardised
from detol.strategies.guided.gaussian import MEAN_PRECISION, SCALE_WEIGHT, Distances, best_members
from detol.strategies.guided.kernels import Settings, mixture
from detol.strategies.guided.pool import Pool

MEMBERS = 2
"""Settings of the kernel that a single source's process is kept under, those that explain it best; of several one."""
OWN = 0.5
"""Share of a row's own part (the kernel's noise) that is the network's and carries over; the rest is chance."""
COMPARED = 100
"""Records on which settings are compared at most."""
JITTER = 1e-5


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The records of one source as rows of a pool.

    Args:
        rows: of the pool, each once, n of them.
        scores: (n,), more is better.
        weight: how much the source is believed, in (0, 1].
    """

    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    weight: float


class SourcePosterior:
    """A source's process under one setting of the kernel, over all rows of a settled pool.

    Args:
        pool: settled; the object is of use until rows are added or dropped.
        source: n records.
        values: of these, (n,), mean 0, variance 1.
        settings: of the kernel.
        weight: of this posterior among all, > 0.
        place: of its source among all.

    Attributes:
        mean: float32 (rows,), 0 on average over the records.
        variance: float32 (rows,), what carries over of a row's own part included.
        best: the largest mean of a record.
    """

    def __init__(
        self,
        pool: Pool,
        source: SourceRows,
        values: NDArray[np.float64],
        settings: Settings,
        weight: float,
        place: int = 0,
    ) -> None:
        self._pool, self._settings, self.weight, self.place = pool, settings, weight, place
        rows, count = source.rows, len(source.rows)
        apart = _distances(pool, rows)
        toward = mixture(settings, *apart.seen(settings.view))
        among = toward[:, rows].astype(float)
        among[np.diag_indices(count)] += settings.noise + JITTER
        factor = np.linalg.cholesky(among)
        ones, seen = solve_triangular(factor, np.stack([np.ones(count), values], 1), lower=True).T
        precision = ones @ ones + MEAN_PRECISION
        level = (ones @ seen) / precision
        self._own = np.float32(OWN * settings.noise)
        toward[np.arange(count), rows] += self._own
        self._half = solve_triangular(factor.astype(np.float32), toward, lower=True, check_finite=False)
        spread = (seen @ seen - (ones @ seen) ** 2 / precision + SCALE_WEIGHT) / (count + SCALE_WEIGHT)
        self._scale = np.float32(spread)
        self.mean = np.asarray(np.float32(level) + (seen - level * ones).astype(np.float32) @ self._half, np.float32)
        prior = 1 + np.float32(settings.linear) * pool.linear_lengths()[settings.view] + self._own
        left = prior - np.einsum("ij,ij->j", self._half, self._half)
        self.variance = np.asarray(np.maximum(left, 1e-6) * self._scale, np.float32)
        self.best = float(self.mean[rows].max())
        self._known: dict[int, Floats] = {}

    def covariance(self, rows: Sequence[int]) -> Floats:
        """Return the posterior covariance of some rows with all rows, float32 (len(rows), pool's rows)."""
        missing = [row for row in rows if row not in self._known]
        for row in missing:
            apart = _distances(self._pool, np.asarray([row], np.intp))
            column = mixture(self._settings, *apart.seen(self._settings.view))[0]
            column -= self._half[:, row] @ self._half
            column[row] += self._own
            self._known[row] = np.asarray(column * self._scale, np.float32)
        return np.stack([self._known[row] for row in rows]) if rows else np.zeros((0, len(self.mean)), np.float32)


Chosen: TypeAlias = Sequence[tuple[Settings, float]]
"""Settings of the kernel with weights that add up to 1."""


def choose_settings(pool: Pool, sources: Sequence[SourceRows], settings: Sequence[Settings]) -> list[Chosen]:
    """Return for each source the settings that explain it best.

    Args:
        pool: settled.
        sources: each with at least 2 records.
        settings: to choose from.
    """
    most, found = MEMBERS if len(sources) == 1 else 1, []
    for source in sources:
        values = standardised(log_regret(source.scores))
        some = _compared(values)
        distances = _distances(pool, source.rows[some])[:, source.rows[some]]
        found.append(best_members(settings, distances, values[some], most))
    return found


def fit_sources(pool: Pool, sources: Sequence[SourceRows], chosen: Sequence[Chosen]) -> list[SourcePosterior]:
    """Return the posteriors of all sources, each under its settings."""
    return [
        SourcePosterior(pool, source, standardised(log_regret(source.scores)), settings, source.weight * weight, place)
        for place, (source, members) in enumerate(zip(sources, chosen, strict=True))
        for settings, weight in members
    ]


def _distances(pool: Pool, rows: NDArray[np.intp]) -> Distances:
    everything = slice(None)
    return Distances(
        pool.hamming(rows, everything),
        pool.structural(rows, everything),
        pool.linear(rows, everything),
        tuple(
            (pool.structural(rows, everything, view), pool.linear(rows, everything, view))
            for view in range(1, pool.views)
        ),
    )


def _compared(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the places on which settings are compared: all, or half of them the best and half evenly from the rest."""
    if len(values) <= COMPARED:
        return np.arange(len(values))
    order = np.argsort(-values, kind="stable")
    rest = order[COMPARED // 2 :]
    evenly = rest[np.linspace(0, len(rest) - 1, COMPARED - COMPARED // 2).astype(np.intp)]
    return np.concatenate([order[: COMPARED // 2], evenly])
