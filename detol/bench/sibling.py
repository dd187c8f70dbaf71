"""A warm start on a table: random records of a sibling column stand for an earlier search on another data set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from detol.bench.table import BenchTable, figures, read_table
from detol.errors import UsageError
from detol.search.records import Objective
from detol.search.warm import WarmRecord, WarmSource
from detol.spaces.decisions import Decisions

DRAWS = 100
"""Samples in a row that may be known already before the space counts as exhausted."""


class Sibling:
    """A column of the table that another data set stands in.

    Args:
        table: of the search.
        objective: the column, and its direction; the wrong one makes a reversed sibling.
        records: how many of its rows are known, >= 2; others for each seed.
        key: the table's key column.

    Raises:
        UsageError: no such column, the table's own objective, or fewer than two records.
    """

    def __init__(self, table: BenchTable, objective: Objective, records: int, *, key: str = "") -> None:
        if records < 2:
            raise UsageError(f"--warm-rows must be at least 2, got {records}")
        if objective.metric == table.objective.metric:
            raise UsageError(
                f"--warm-objective is a sibling of --objective, not itself, got {objective.metric}: "
                "what is measured is not known before the search"
            )
        self._table, self._objective, self._records = table, objective, records
        frame = read_table(Path(table.path), key)
        self._scores = objective.score(1.0) * figures(frame, objective.metric, "warm objective", table.path)

    def sources(self, seed: int) -> Sequence[WarmSource]:
        """Return what a search of this seed knows: one source of uniformly sampled decisions, best first."""
        rng = np.random.default_rng([seed, 201])
        known: dict[Decisions, float] = {}
        space, size = self._table.space, self._table.space.size
        wanted, draws = min(self._records, size or self._records), 0
        while len(known) < wanted and draws < DRAWS * wanted:
            decisions = space.sample(rng)
            draws += 1
            if decisions not in known:
                known[decisions] = float(self._scores[self._table.row_of(decisions)])
        records = sorted(known.items(), key=lambda each: -each[1])
        name = str(self._objective)
        return [WarmSource(name, name, tuple(WarmRecord(decisions, score) for decisions, score in records))]
