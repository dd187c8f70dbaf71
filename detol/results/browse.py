"""Pages of trials, for people who look: filtered, sorted and cut by the database itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from detol.errors import UsageError, unknown
from detol.results import owner
from detol.results.places import search_id
from detol.results.rows import from_text
from detol.results.schema import costs, data_sets, parents, searches, trials
from detol.search.records import Objective, parse_objective
from detol.search.widths import LOST_RANKS, WIDTH_NOW

LARGEST_PAGE = 500


@dataclass(frozen=True)
class TrialRow:
    """One trial in a list; ``value`` is of the primary objective in its natural direction, costs may be unknown.

    ``ranks_lost`` says which of its ranks died and where, ``width_now`` how many were left; mostly empty.
    """

    number: int
    trial: str
    state: str
    value: float | None
    epoch: int
    epochs: int
    params: int | None
    multiply_adds: int | None
    seconds: float | None
    origin: str
    note: str
    digest: str
    width: int
    attempt: int
    reused: str
    reason: str
    created: str
    ended: str
    ranks_lost: str = ""
    width_now: int | None = None


@dataclass(frozen=True)
class TrialPage:
    """One page of the trials of a search.

    Args:
        rows: of this page.
        total: trials that pass the filter.
        page: from 1; the last one when a later one was asked for.
        size: rows of a full page.
    """

    rows: list[TrialRow]
    total: int
    page: int
    size: int

    @property
    def pages(self) -> int:
        """How many pages there are, at least 1."""
        return max(1, -(-self.total // self.size))


@dataclass(frozen=True)
class Filter:
    """Which trials of a search are meant; empty: all.

    Args:
        state: of them.
        origin: how they came about.
        text: stands in the digest, the note, the reason or the decisions; or is the number.
    """

    state: str = ""
    origin: str = ""
    text: str = ""

    def condition(self, search: int) -> "sa.ColumnElement[bool]":
        """Return the condition on ``trials``."""
        found: list[sa.ColumnElement[bool]] = [trials.c.search == search]
        if self.state:
            found.append(trials.c.state == self.state)
        if self.origin:
            found.append(trials.c.origin == self.origin)
        text = self.text.strip()
        if text:
            columns = (trials.c.digest, trials.c.note, trials.c.reason, trials.c.decisions)
            anywhere = [column.icontains(text, autoescape=True) for column in columns]
            if text.isascii() and text.isdecimal() and len(text) < 10:
                anywhere.append(trials.c.number == int(text))
            found.append(sa.or_(*anywhere))
        return sa.and_(*found)


_LISTED = (
    "number",
    "state",
    "epoch",
    "epochs",
    "seconds",
    "origin",
    "note",
    "digest",
    "width",
    "attempt",
    "reused",
    "reason",
    "created",
    "ended",
)
PRICED = sa.and_(costs.c.topology == trials.c.topology, costs.c.data == trials.c.data)
"""A trial's topology on its data set: where its costs stand."""
_SORTS: dict[str, sa.ColumnElement[Any]] = {
    "number": trials.c.number,
    "value": trials.c.score,
    "epoch": trials.c.epoch,
    "seconds": trials.c.seconds,
    "params": costs.c.params,
    "multiply_adds": costs.c.multiply_adds,
    "state": trials.c.state,
    "origin": trials.c.origin,
}
SORTS = tuple(_SORTS)
"""What a page of trials can be sorted by."""


def objective_of_search(connection: sa.Connection, search: int) -> Objective:
    """Return the primary objective of a search, by its id."""
    text = connection.scalar(sa.select(searches.c.objective).where(searches.c.id == search))
    return parse_objective(text) if text else Objective("score")


def trial_page(
    connection: sa.Connection,
    search: str,
    which: Filter,
    *,
    sort: str = "number",
    descending: bool = False,
    page: int = 1,
    size: int = 50,
) -> TrialPage:
    """Return one page of a search's trials; those without a value of what is sorted by come last.

    Raises:
        UsageError: an unknown column to sort by, a page under 1, or a size outside of 1 to 500.
        ResultsError: no such search.
    """
    if sort not in _SORTS:
        raise unknown("column to sort by", sort, _SORTS)
    if page < 1 or not 1 <= size <= LARGEST_PAGE:
        raise UsageError(f"pages count from 1 and hold 1 to {LARGEST_PAGE} trials, got page {page} of size {size}")
    found = search_id(connection, search)
    condition = which.condition(found)
    total = int(connection.scalar(sa.select(sa.func.count()).select_from(trials).where(condition)) or 0)
    page = min(page, max(1, -(-total // size)))
    objective = objective_of_search(connection, found)
    column = _SORTS[sort]
    falling = descending != (sort == "value" and objective.minimise)  # scores are maximised inside
    query = (
        sa.select(*(trials.c[name] for name in (*_LISTED, "score", "extra")), costs.c.params, costs.c.multiply_adds)
        .outerjoin_from(trials, costs, PRICED)
        .where(condition)
        .order_by(sa.case((column.is_(None), 1), else_=0), column.desc() if falling else column, trials.c.number)
        .limit(size)
        .offset((page - 1) * size)
    )
    rows = [_row(row, search, objective) for row in connection.execute(query).mappings()]
    return TrialPage(rows, total, page, size)


def some_trials(connection: sa.Connection, search: str, numbers: Sequence[int]) -> list[TrialRow]:
    """Return the trials of these numbers (at most some hundreds), in their order."""
    found = search_id(connection, search)
    objective = objective_of_search(connection, found)
    query = (
        sa.select(*(trials.c[name] for name in (*_LISTED, "score", "extra")), costs.c.params, costs.c.multiply_adds)
        .outerjoin_from(trials, costs, PRICED)
        .where(trials.c.search == found, trials.c.number.in_(numbers))
    )
    rows = {row["number"]: _row(row, search, objective) for row in connection.execute(query).mappings()}
    return [rows[number] for number in dict.fromkeys(numbers) if number in rows]


def decisions(connection: sa.Connection, search: str) -> dict[int, dict[str, Any]]:
    """Return the decisions of all trials of a search, by number."""
    found = search_id(connection, search)
    query = sa.select(trials.c.number, trials.c.decisions).where(trials.c.search == found).order_by(trials.c.number)
    return {number: dict(from_text(text)) for number, text in connection.execute(query)}


def _row(row: sa.RowMapping, search: str, objective: Objective) -> TrialRow:
    return TrialRow(
        trial=f"{search}/{row['number']}",
        value=None if row["score"] is None else objective.score(row["score"]),
        params=row["params"],
        multiply_adds=row["multiply_adds"],
        **{name: row[name] for name in _LISTED},
        **ranks_lost(from_text(row["extra"] or "{}")),
    )


def ranks_lost(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``ranks_lost`` and ``width_now`` of the further facts of a trial; empty and ``None`` where none died."""
    left = extra.get(WIDTH_NOW)
    return {"ranks_lost": str(extra.get(LOST_RANKS, "")), "width_now": left if isinstance(left, int) else None}


def children(connection: sa.Connection, search: str, number: int) -> list[TrialRow]:
    """Return the trials that derive from one, by number."""
    found = search_id(connection, search)
    query = sa.select(parents.c.number).where(parents.c.search == found, parents.c.parent == number).distinct()
    return some_trials(connection, search, sorted(connection.scalars(query))[:LARGEST_PAGE])


def counts(connection: sa.Connection, search: str) -> dict[str, dict[str, int]]:
    """Return how many trials a search has by ``state`` and by ``origin``."""
    found = search_id(connection, search)
    result: dict[str, dict[str, int]] = {}
    for name in ("state", "origin"):
        column = trials.c[name]
        query = sa.select(column, sa.func.count()).where(trials.c.search == found).group_by(column).order_by(column)
        result[name] = {str(value): int(count) for value, count in connection.execute(query)}
    return result


def pulse(connection: sa.Connection, search: str | None = None) -> str:
    """Return a text that changes whenever something of a search, or of all, does.

    A new trial, a report, an end, ten more seconds of a search that runs, a controller that died.
    """
    totals = sa.select(
        sa.func.count(),
        sa.func.sum(trials.c.epoch),
        sa.func.sum(trials.c.attempt),
        sa.func.count(sa.case((trials.c.state == "running", 1))),
        sa.func.count(sa.case((trials.c.state == "paused", 1))),
        sa.func.max(trials.c.ended),
    )
    runs = sa.select(searches).order_by(searches.c.id)
    if search is not None:
        found = search_id(connection, search)
        totals, runs = totals.where(trials.c.search == found), runs.where(searches.c.id == found)
    seen = [
        (row["id"], row["state"], row["trials"], row["consumed"] // 10, owner.alive(row))
        for row in connection.execute(runs).mappings()
    ]
    return repr((tuple(connection.execute(totals).one()), seen))


def data_rows(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return all data sets with how much was tried on each: the last used first."""
    query = (
        sa.select(
            *(data_sets.c[name] for name in ("name", "digest", "kind", "task", "shape", "outputs")),
            sa.func.count(searches.c.id.distinct()).label("searches"),
            sa.func.count(trials.c.number).label("trials"),
            sa.func.count(trials.c.digest.distinct()).label("topologies"),
            sa.func.max(searches.c.created).label("last"),
        )
        .outerjoin_from(data_sets, searches, searches.c.data == data_sets.c.digest)
        .outerjoin(trials, trials.c.search == searches.c.id)
        .group_by(data_sets.c.digest)
        .order_by(sa.desc("last"))
    )
    return [{**row, "shape": from_text(row["shape"])} for row in connection.execute(query).mappings()]


def space_rows(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return all spaces that searches took candidates from, with how much was tried of each."""
    query = (
        sa.select(
            searches.c.space,
            sa.func.count(searches.c.id.distinct()).label("searches"),
            sa.func.count(trials.c.number).label("trials"),
            sa.func.count(trials.c.digest.distinct()).label("topologies"),
        )
        .outerjoin_from(searches, trials, trials.c.search == searches.c.id)
        .group_by(searches.c.space)
        .order_by(searches.c.space)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
