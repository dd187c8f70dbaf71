"""What proposes rows of a pool: the Gaussian process while observations are few, the forest beyond."""

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from detol.embedding.graph_features import Floats
from detol.strategies.guided.forest import Forest
from detol.strategies.guided.gaussian import Distances, Posterior, best_members
from detol.strategies.guided.kernels import Settings
from detol.strategies.guided.pool import Pool

Rows = NDArray[np.intp]

COMPARED = 100
"""Observations on which settings of the kernel are compared at most."""
WORK = 6_400_000
SOLVE = 1_200_000_000
"""Entries of kernels, and multiplications of solving, that a model may take: they bound the candidates."""
SOME = 2_000
"""Candidates at most where not all can be ranked: their distances are not remembered."""


class Model(Protocol):
    """Ranks candidates; what it is told to believe counts as pending from then on."""

    def improvement(self) -> tuple[Rows, Floats]:
        """Return the candidates' rows and the expected improvement of each."""
        ...

    def believe(self, row: int) -> None:
        """Count a candidate as pending."""
        ...


def most_members(observed: int, most: int) -> int:
    """Return how many settings are averaged over for so many observations."""
    return most if observed <= 128 else min(most, 2) if observed <= 320 else 1


def most_candidates(observed: int, members: int, rows: int) -> int:
    """Return how many of so many rows a Gaussian process can rank in time: all, or ``SOME`` at most."""
    room = min(WORK // (observed * members), SOLVE // (observed * observed * members))
    return rows if rows <= room else min(room, SOME)


class GaussianModel:
    """The Gaussian process over a pool.

    Args:
        pool: settled.
        seen: rows observed, n of them.
        values: of these, (n,), standardised.
        pending: rows asked and not told.
        candidates: rows to rank.
        settings: of the kernel, to choose from.
        most: how many settings are averaged over.
    """

    def __init__(
        self,
        pool: Pool,
        seen: Sequence[int],
        values: NDArray[np.float64],
        pending: Sequence[int],
        candidates: Rows,
        settings: Sequence[Settings],
        most: int,
    ) -> None:
        self._pool, self._candidates = pool, candidates
        known = [*seen, *pending]
        places = np.asarray(known, np.intp)
        toward = distances(pool, known, candidates)
        whole = len(candidates) == len(pool)  # what is known is among them
        among = toward[:, places] if whole else distances(pool, places, places)
        some = _compared(values)
        chosen = best_members(settings, among[np.ix_(some, some)], values[some], most)
        own = [lengths[candidates] for lengths in pool.linear_lengths()]
        self._posterior = Posterior(chosen, among, toward, values, own)
        self._place = {int(row): place for place, row in enumerate(candidates)}
        self._improvement: Floats | None = None

    def improvement(self) -> tuple[Rows, Floats]:
        """Return the candidates' rows and the expected improvement of each."""
        if self._improvement is None:
            self._improvement = self._posterior.improvement()
        return self._candidates, self._improvement

    def believe(self, row: int) -> None:
        """Count a candidate as observed at its mean."""
        self._posterior.believe(self._place[row], distances(self._pool, [row], self._candidates)[0])
        self._improvement = None


def distances(pool: Pool, left: Sequence[int] | NDArray[np.intp], right: NDArray[np.intp]) -> Distances:
    """Return the distances of some rows of a pool to others, in all its views of graphs: (left, right) each."""
    hamming, structural = pool.distances(left, right)
    (first, *rest), places = structural, np.asarray(left, np.intp)
    more = tuple((apart, pool.linear(places, right, view)) for view, apart in enumerate(rest, 1))
    return Distances(hamming, first, pool.linear(places, right), more)


def _compared(values: NDArray[np.float64]) -> Rows:
    """Return the places on which settings are compared: all, or half of them the best and half evenly from the rest."""
    if len(values) <= COMPARED:
        return np.arange(len(values))
    order = np.argsort(-values, kind="stable")
    rest = np.sort(order[COMPARED // 2 :])
    evenly = rest[np.linspace(0, len(rest) - 1, COMPARED - COMPARED // 2).astype(np.intp)]
    return np.concatenate([order[: COMPARED // 2], evenly])


class ForestModel:
    """The forest over a pool; candidates near pending ones count for less.

    Args:
        pool: settled.
        forest: fitted on ``pool.inputs``.
        pending: rows asked and not told.
        candidates: rows to rank.
    """

    def __init__(self, pool: Pool, forest: Forest, pending: Sequence[int], candidates: Rows) -> None:
        self._pool, self._candidates = pool, candidates
        inputs = pool.inputs(candidates)[:, : forest.columns]
        self._improvement = forest.improvement(inputs) + np.float32(1e-12)
        for row in pending:
            self.believe(row)

    def improvement(self) -> tuple[Rows, Floats]:
        """Return the candidates' rows and the expected improvement of each."""
        return self._candidates, self._improvement

    def believe(self, row: int) -> None:
        """Lower the improvement of what is near: by 1 - 1/e one choice away, hardly for many (local penalisation)."""
        apart = self._pool.hamming(np.asarray([row], np.intp), self._candidates)[0] * self._pool.width
        self._improvement = self._improvement * (1 - np.exp(-apart))


class PricedModel:
    """Another model whose improvements are divided by a price: what is likely to improve most for what it costs.

    Expected improvement per second (Snoek et al. 2012, arXiv 1206.2944, section 3.2).

    Args:
        model: ranks candidates.
        prices: of all rows of the pool, > 0.
    """

    def __init__(self, model: Model, prices: Floats) -> None:
        self._model, self._prices = model, prices

    def improvement(self) -> tuple[Rows, Floats]:
        """Return the candidates' rows and the expected improvement of each for its price."""
        rows, improvement = self._model.improvement()
        return rows, np.asarray(improvement / self._prices[rows], np.float32)

    def believe(self, row: int) -> None:
        """Count a candidate as pending."""
        self._model.believe(row)


def best_row(model: Model, blocked: Collection[int], only: Collection[int] | None = None) -> int | None:
    """Return the row of largest improvement that is not blocked (and among ``only``); ``None`` when there is none."""
    rows, improvement = model.improvement()
    allowed = ~np.isin(rows, np.fromiter(blocked, np.intp, len(blocked)))
    if only is not None:
        allowed &= np.isin(rows, np.fromiter(only, np.intp, len(only)))
    if not allowed.any():
        return None
    return int(rows[int(np.argmax(np.where(allowed, improvement, -np.inf)))])
