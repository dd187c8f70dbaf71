"""The part of the guided strategy that a warm start adds: sources as rows of the pool, and when they are followed."""

from collections.abc import Container, Mapping, Sequence

import numpy as np

from detol.search.protocols import SearchSpace
from detol.search.warm import WarmSource
from detol.spaces.decisions import Decisions
from detol.strategies.base import complete
from detol.strategies.guided.kernels import Settings
from detol.strategies.guided.pool import Pool
from detol.strategies.guided.source import Chosen, SourcePosterior, SourceRows, choose_settings, fit_sources

LEAST = 2
"""Usable records that a source has at least."""
MOST = 300
"""Records of a source that are used at most: half of them the best, the others evenly from the rest."""
LEADERS = 10
"""The best of each source, of which candidates of a large space are mutations until the search has leaders enough."""


class Warmth:
    """The sources of a warm start over one pool.

    Args:
        pool: of the strategy; rows of the records are added.
        space: decisions that are not complete in it are left out.
        sources: of the warm start; those with fewer than ``LEAST`` usable records are left out.
        settings: of the kernel, to choose from.
    """

    def __init__(
        self, pool: Pool, space: SearchSpace, sources: Sequence[WarmSource], settings: Sequence[Settings]
    ) -> None:
        self._pool, self._settings = pool, settings
        self._sources: list[SourceRows] = []
        self._places: list[int] = []  # of these among those given
        self._given = len(sources)
        self.leaders: list[Decisions] = []
        for place, source in enumerate(sources):
            scores = _scores(space, source)
            if len(scores) < LEAST:
                continue
            rows = np.asarray(pool.add(scores), np.intp)
            self._places.append(place)
            self._sources.append(SourceRows(rows, np.asarray(list(scores.values())), source.weight))
            self.leaders += list(scores)[:LEADERS]
        self._chosen: list[Chosen] = []  # once: a pool that grows makes little difference to what explains a source
        self._fitted: list[SourcePosterior] = []
        self._rows = -1  # of the pool when the sources were fitted
        self._firsts = 0  # sources whose best was asked for

    def __bool__(self) -> bool:
        """Return whether there is a source to learn from."""
        return bool(self._sources)

    def spread(self, trust: Sequence[float]) -> list[float]:
        """Return trust in each source given to the strategy: 0 in those that it could not use."""
        found = [0.0] * self._given
        for place, value in zip(self._places, trust, strict=True):
            found[place] = value
        return found

    @property
    def rows(self) -> list[int]:
        """The rows of all records."""
        return [int(row) for source in self._sources for row in source.rows]

    def posteriors(self) -> Sequence[SourcePosterior]:
        """Return what the sources say of the pool as it is; call it after :meth:`Pool.settle`."""
        if self._rows != len(self._pool):
            self._chosen = self._chosen or choose_settings(self._pool, self._sources, self._settings)
            self._fitted = fit_sources(self._pool, self._sources, self._chosen)
            self._rows = len(self._pool)
        return self._fitted

    def first(self, taken: Container[int]) -> int | None:
        """Return the row that the next source promises most of, once for each source; then ``None``.

        What the sources say together may be none's best: each is given the chance to show what it is worth. Where its
        row is taken it has had it. Call it after :meth:`Pool.settle`.
        """
        while self._firsts < len(self._sources):
            found = next(each for each in self.posteriors() if each.place == self._firsts)
            self._firsts += 1
            row = int(found.mean.argmax())
            if row not in taken:
                return row
        return None

    def moved(self, rows: Mapping[int, int]) -> None:
        """Take note of new numbers of the rows, by the old ones."""
        self._sources = [
            SourceRows(np.asarray([rows[int(row)] for row in source.rows], np.intp), source.scores, source.weight)
            for source in self._sources
        ]
        self._rows = -1


def usable(space: SearchSpace, sources: Sequence[WarmSource]) -> bool:
    """Return whether a source of a warm start has records enough that are complete in a space."""
    return any(len(_scores(space, source)) >= LEAST for source in sources)


def _scores(space: SearchSpace, source: WarmSource) -> dict[Decisions, float]:
    """Return the mean score of each topology that the space has, best first, ``MOST`` at most."""
    each: dict[Decisions, list[float]] = {}
    for record in source.records:
        if record.decisions in each or complete(space, record.decisions):
            each.setdefault(record.decisions, []).append(record.score)
    means = {decisions: sum(scores) / len(scores) for decisions, scores in each.items()}
    order = sorted(means, key=lambda decisions: -means[decisions])
    if len(order) > MOST:
        rest = order[MOST // 2 :]
        evenly = np.linspace(0, len(rest) - 1, MOST - MOST // 2).astype(int)
        order = order[: MOST // 2] + [rest[int(place)] for place in evenly]
    return {decisions: means[decisions] for decisions in order}
