"""Topologies in the order of their mean score, without a look at all trials.

The index ``ix_trials_rank`` holds the trials in the order of their scores. A topology's mean is at most the score of
its best trial, so once the next trial in that order scores less than the best mean found so far, no topology that was
not met yet can stand above it (the threshold algorithm: Fagin, Lotem and Naor 2001, "Optimal aggregation algorithms for
middleware", section 4). The first few topologies so cost a few rows, however many trials there are.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from detol.results.reader import SCORED
from detol.results.schema import trials
from detol.results.scope import Scope
from detol.results.standing import COLUMNS, Key, Standing, key_of, standing
from detol.search.records import Objective

_FIRST, _MOST = 32, 4096
"""Rows of the first batch and of the largest: each is twice the one before."""
_STEP = 16
"""Rows of a batch where ``least`` falls from one to the next, so that more of them would be for nothing."""
_CHUNK = 500
_IN_ORDER = (trials.c.score.desc(), trials.c.search.desc(), trials.c.number.desc())


class Walk:
    """Standings of a scope, best mean first.

    Args:
        connection: to the database.
        scope: the searches meant, each with ``objectives[0]`` as its primary objective (or without that metric).
        objectives: the first one is walked by; the others are costs.

    Attributes:
        least: what still counts: trials with a greater cost (by the second objective) are passed over; ``None``: none
            is. May be lowered while the walk goes on.
    """

    def __init__(self, connection: sa.Connection, scope: Scope, objectives: Sequence[Objective]) -> None:
        self._connection, self._scope, self._objectives = connection, scope, tuple(objectives)
        self.least: int | None = None

    def standings(self, states: Sequence[str]) -> Iterator[Standing]:
        """Yield the standings whose best trial is in one of these states, in the order of ``Standing.place``."""
        met: set[Key] = set()
        waiting: list[tuple[tuple[Any, ...], Standing]] = []
        streams = [self._batches(state) for state in states]
        heads: list[tuple[float, list[sa.RowMapping]]] = [next(stream) for stream in streams]
        while True:
            bound = max(bound for bound, _ in heads)
            while waiting and -waiting[0][0][1] > bound:
                yield heapq.heappop(waiting)[1]
            if bound == -math.inf and not waiting:
                return
            turn = max(range(len(heads)), key=lambda place: heads[place][0])
            for found in self._met(heads[turn][1], met):
                if found.best["state"] in states:
                    heapq.heappush(waiting, (found.place, found))
            heads[turn] = next(streams[turn])

    def _batches(self, state: str) -> Iterator[tuple[float, list[sa.RowMapping]]]:
        """Yield batches of trials in a state, best first, with the best score of each; without end empty ones."""
        cost = trials.c[self._objectives[1].metric] if len(self._objectives) > 1 else None
        size = _FIRST if cost is None else _STEP
        after: sa.ColumnElement[bool] = sa.true()
        while True:
            conditions = [trials.c.state == state, trials.c.score.is_not(None), after]
            if cost is not None:
                conditions.append(cost.is_not(None) if self.least is None else cost <= self.least)
            query = sa.select(*COLUMNS[:4], trials.c.score, trials.c.data, trials.c.inherited).where(
                *conditions, self._scope.condition()
            )
            rows = self._connection.execute(query.order_by(*_IN_ORDER).limit(size)).mappings().all()
            rows = [row for row in rows if math.isfinite(row["score"])]
            if rows:
                last = rows[-1]
                after = sa.tuple_(trials.c.score, trials.c.search, trials.c.number) < sa.tuple_(
                    last["score"], last["search"], last["number"]
                )
                yield rows[0]["score"], list(rows)
                size = min(2 * size, _MOST if cost is None else _STEP)
            while not rows:
                yield -math.inf, []

    def _met(self, rows: Sequence[sa.RowMapping], met: set[Key]) -> Iterator[Standing]:
        """Yield the standings of the topologies that are met here for the first time."""
        new = {key: row for row in reversed(rows) if (key := key_of(row)) not in met and self._may(row)}
        met.update(new)
        members: dict[Key, list[sa.RowMapping]] = defaultdict(list)
        digests = sorted({key[0] for key in new})
        for start in range(0, len(digests), _CHUNK):
            # By digest alone: more conditions would tempt the database to take another index.
            query = sa.select(*COLUMNS).where(trials.c.digest.in_(digests[start : start + _CHUNK]))
            for row in self._connection.execute(query).mappings():
                if row["state"] in SCORED and row["score"] is not None and row["search"] in self._scope.places:
                    members[key_of(row)].append(row)
        for key in new:
            found = standing(members[key], self._scope, self._objectives)
            if found is not None:
                yield found

    def _may(self, row: sa.RowMapping) -> bool:
        own = self._scope.places.get(row["search"])
        return own is not None and own.objective == self._objectives[0]


RESTING = tuple(state for state in SCORED if state != "completed")
"""States of trials that have a score and were not trained to their end."""
