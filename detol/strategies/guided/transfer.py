"""The model of a warm search: its own results under priors that other data sets give, each as far as it is borne out.

A member is a source's posterior (:mod:`detol.strategies.guided.source`), a correlation ``rho`` with it, and a setting
of the kernel of what the source does not tell. Members are weighted by how well they explain the search's own results
(their marginal likelihood), so that a source which the first results speak against counts for nothing soon: ``rho`` 0
is the search without it. The unit of the scores is unknown as long as there are few of them, and integrated out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from detol.embedding.graph_features import Floats
from detol.strategies.guided.acquisition import expected_improvement
from detol.strategies.guided.gaussian import MEAN_PRECISION, SCALE_WEIGHT, Distances, evidence
from detol.strategies.guided.kernels import Settings, mixture
from detol.strategies.guided.models import COMPARED, Rows, distances
from detol.strategies.guided.pool import Pool
from detol.strategies.guided.source import JITTER, SourcePosterior

Doubles = NDArray[np.float64]

CORRELATIONS = (0.5, 0.7, 0.85, 0.95, 0.99)
"""Of a search's scores with a source's, one as likely as the other before the first result."""
ALONE = 1 / 6
"""Prior weight of the search without its sources, where these have full weight."""
BLIND = 0.9
"""The correlation that is assumed before the first result."""
UNITS = np.exp(np.linspace(np.log(0.05), np.log(8.0), 32))
"""Inverse units of the scores that are summed over: a source's unit by the search's."""
MEMBERS = 6
FEW = 24
"""Own results up to which all settings are tried with each source; beyond, only the ``BEST`` of the search alone."""
BEST = 8


@dataclass(frozen=True, slots=True)
class _Prior:
    """A member before it is conditioned: no source with ``rho`` 0; ``unit`` is 1 by the unit of the scores."""

    source: SourcePosterior | None
    rho: float
    settings: Settings
    weight: float
    unit: float


@dataclass(slots=True)
class _Member:
    """A member conditioned on what is known: ``half`` is L^-1 K(known, candidates), in the source's unit."""

    prior: _Prior
    half: Floats
    mean: Floats
    variance: Floats


class TransferModel:
    """Ranks candidates of a pool; keeps :class:`detol.strategies.guided.models.Model`.

    Args:
        pool: settled.
        sources: fitted on this pool, at least one.
        seen: rows observed, n >= 0 of them.
        values: of these, (n,), standardised.
        pending: rows asked and not told; they count as observed at their mean.
        candidates: rows to rank.
        settings: of the kernel of what sources do not tell.

    Attributes:
        trust: weight of the members that follow each source, which add up to at most 1: the rest goes without any.
    """

    def __init__(
        self,
        pool: Pool,
        sources: Sequence[SourcePosterior],
        seen: Sequence[int],
        values: Doubles,
        pending: Sequence[int],
        candidates: Rows,
        settings: Sequence[Settings],
    ) -> None:
        self._pool, self._candidates = pool, candidates
        self._own = [lengths[candidates] for lengths in pool.linear_lengths()]
        self._seen, self._values = list(seen), values
        if len(self._seen):
            chosen, self.trust = _chosen(pool, sources, self._seen, values, settings)
        else:
            total = sum(source.weight for source in sources)
            middle = settings[0]
            chosen = [_Prior(source, BLIND, middle, source.weight / total, 1.0) for source in sources]
            self.trust = [0.0] * (1 + max(source.place for source in sources))
            for source in sources:
                self.trust[source.place] += (1 - ALONE) * source.weight / total
        known = [*self._seen, *pending]
        self._members = [self._condition(prior, known) for prior in chosen]
        self._place = {int(row): place for place, row in enumerate(candidates)}
        self._improvement: Floats | None = None

    def improvement(self) -> tuple[Rows, Floats]:
        """Return the candidates' rows and the expected improvement of each, in units of the scores."""
        if self._improvement is None:
            total = np.zeros(len(self._candidates), np.float32)
            for member in self._members:
                prior = member.prior
                spread = np.sqrt(np.maximum(member.variance, 1e-6) + np.float32(prior.settings.noise))
                found = expected_improvement(member.mean, np.asarray(spread, np.float32), self._to_beat(prior))
                total += np.float32(prior.weight / prior.unit) * found
            self._improvement = total
        return self._candidates, self._improvement

    def believe(self, row: int) -> None:
        """Count a candidate as observed at its mean."""
        place = self._place[row]
        for member in self._members:
            column = member.half[:, place]
            pivot = max(float(member.variance[place]), 1e-6) + member.prior.settings.noise + JITTER
            new = (self._kernel(member.prior, [row])[0][self._candidates] - column @ member.half) / np.sqrt(pivot)
            member.half = np.vstack([member.half, np.asarray(new, np.float32)[None]])
            member.variance = np.asarray(member.variance - new * new, np.float32)
        self._improvement = None

    def _to_beat(self, prior: _Prior) -> float:
        if len(self._values):
            return prior.unit * float(self._values.max())
        return prior.rho * prior.source.best if prior.source else 0.0

    def _kernel(self, prior: _Prior, rows: Sequence[int]) -> Floats:
        """Return a member's prior covariance of some rows with all rows of the pool."""
        apart = _distances(self._pool, rows)
        rest = mixture(prior.settings, *apart.seen(prior.settings.view))
        if prior.source is None:
            return rest
        share = np.float32(prior.rho**2)
        return np.asarray(share * prior.source.covariance(rows) + (1 - share) * rest, np.float32)

    def _condition(self, prior: _Prior, known: Sequence[int]) -> _Member:
        own = 1 + np.float32(prior.settings.linear) * self._own[prior.settings.view]
        mean = np.zeros(len(self._candidates), np.float32)
        if prior.source is not None:
            share = np.float32(prior.rho**2)
            own = share * prior.source.variance[self._candidates] + (1 - share) * own
            mean = np.float32(prior.rho) * prior.source.mean[self._candidates]
        if not known:
            return _Member(prior, np.zeros((0, len(mean)), np.float32), mean, np.asarray(own, np.float32))
        count, places = len(self._values), np.asarray(known, np.intp)
        kernel = self._kernel(prior, known)
        among = kernel[:, places].astype(float)
        among[np.diag_indices(len(known))] += prior.settings.noise + JITTER
        factor = np.linalg.cholesky(among)
        half = solve_triangular(factor.astype(np.float32), kernel[:, self._candidates], lower=True, check_finite=False)
        if count:
            expected = 0.0 if prior.source is None else prior.rho * prior.source.mean[places[:count]].astype(float)
            right = np.stack([np.ones(count), prior.unit * self._values - expected], 1)
            ones, seen = solve_triangular(factor[:count, :count], right, lower=True, check_finite=False).T
            level = (ones @ seen) / (ones @ ones + MEAN_PRECISION)
            mean = mean + np.float32(level) + (seen - level * ones).astype(np.float32) @ half[:count]
        variance = own - np.einsum("ij,ij->j", half, half)
        return _Member(prior, half, np.asarray(mean, np.float32), np.asarray(variance, np.float32))


def _chosen(
    pool: Pool,
    sources: Sequence[SourcePosterior],
    seen: Sequence[int],
    values: Doubles,
    settings: Sequence[Settings],
) -> tuple[list[_Prior], list[float]]:
    """Return the members of most weight, weights adding up to 1, and the weight of all that follow each source."""
    some = _compared(values)
    rows, values = [seen[place] for place in some], values[some]
    places = np.asarray(rows, np.intp)
    among = _distances(pool, rows)[:, places]
    if len(rows) > FEW:
        logs = evidence(settings, among, values) + [setting.log_prior for setting in settings]
        settings = [settings[int(place)] for place in np.argsort(-logs)[:BEST]]
    kernels = np.stack([mixture(s, *among.seen(s.view)) for s in settings]).astype(float)
    # What sources of little weight leave is the search's own.
    share = (1 - ALONE) / max(1.0, sum(source.weight for source in sources))
    own = 1 - share * sum(source.weight for source in sources)
    found = list(_weighed(None, 0.0, np.log(own), kernels, values, places, settings))
    for source in sources:
        prior = np.log(share * source.weight / len(CORRELATIONS))
        for rho in CORRELATIONS:
            found += _weighed(source, rho, prior, kernels, values, places, settings)
    logs = np.array([log for log, _ in found])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    trust = [0.0] * (1 + max(source.place for source in sources))
    for weight, (_, member) in zip(weights, found, strict=True):
        if member.source is not None:
            trust[member.source.place] += float(weight)
    order = np.argsort(-weights, kind="stable")[:MEMBERS]
    order = order[weights[order] > 0.02 * weights[order[0]]]
    left = weights[order] / weights[order].sum()
    members = []
    for place, weight in zip(order, left, strict=True):
        prior = found[int(place)][1]
        members.append(_Prior(prior.source, prior.rho, prior.settings, float(weight), prior.unit))
    return members, trust


def _weighed(
    source: SourcePosterior | None,
    rho: float,
    prior: float,
    kernels: Doubles,
    values: Doubles,
    places: NDArray[np.intp],
    settings: Sequence[Settings],
) -> Iterator[tuple[float, _Prior]]:
    """Yield the log of prior times marginal likelihood of a source with a correlation, under each setting.

    With u the inverse unit, u * values ~ N(level + rho * mean, K): the level is integrated out in closed form
    (Rasmussen and Williams 2006, section 2.7), the unit, whose square has a gamma prior, by a sum over ``UNITS``.
    """
    count = len(values)
    covariance = (1 - rho**2) * kernels
    expected = np.zeros(count)
    if source is not None:
        covariance = covariance + rho**2 * source.covariance([int(p) for p in places])[:, places].astype(float)
        expected = rho * source.mean[places].astype(float)
    covariance += (np.array([s.noise for s in settings]) + JITTER)[:, None, None] * np.eye(count)
    factor = np.linalg.cholesky(covariance)
    right = np.broadcast_to(np.stack([np.ones(count), values, expected], 1), (len(settings), count, 3))
    solved = np.linalg.solve(factor, right)
    ones = solved[..., 0]
    precision = (ones * ones).sum(1) + MEAN_PRECISION

    def product(a: int, b: int) -> Doubles:
        left, other = solved[..., a], solved[..., b]
        apart = (ones * left).sum(1) * (ones * other).sum(1) / precision
        return np.asarray((left * other).sum(1) - apart)

    squares = product(1, 1) + SCALE_WEIGHT
    exponents = (
        (count + SCALE_WEIGHT) * np.log(UNITS)[None]
        - 0.5 * UNITS[None] ** 2 * squares[:, None]
        + UNITS[None] * product(1, 2)[:, None]
        - 0.5 * product(2, 2)[:, None]
    )
    top = exponents.max(1)
    logs = top + np.log(np.exp(exponents - top[:, None]).sum(1))
    logs -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1) + 0.5 * np.log(precision)
    for place, (log, unit) in enumerate(zip(logs, UNITS[exponents.argmax(1)], strict=True)):
        yield float(log + prior + settings[place].log_prior), _Prior(source, rho, settings[place], 0.0, float(unit))


def _distances(pool: Pool, rows: Sequence[int]) -> Distances:
    return distances(pool, rows, np.arange(len(pool)))


def _compared(values: Doubles) -> NDArray[np.intp]:
    if len(values) <= COMPARED:
        return np.arange(len(values))
    order = np.argsort(-values, kind="stable")
    return np.concatenate([order[: COMPARED // 2], np.sort(order[COMPARED // 2 :])[-(COMPARED - COMPARED // 2) :]])
