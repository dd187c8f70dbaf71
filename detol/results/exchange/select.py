"""Which results of a database travel, and reading them: by search, by data set, or all."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa

from detol.results.exchange.bundle import COLUMNS, FORMAT, VERSION, Row, escaped
from detol.results.places import data_digest, search_id
from detol.results.rows import now
from detol.results.schema import REVISIONS, data_sets, parents, recipes, reports, searches, steps, topologies, trials

_PRIVATE = ("db", "tracking", "ray", "metrics")
"""Settings that say where a search ran: addresses, perhaps with passwords."""
_CHUNK = 500
_SAID: Mapping[str, tuple[str, ...]] = {
    "data_sets": ("name", "kind", "task"),
    "searches": ("space", "strategy", "stopper"),
    "trials": ("reason", "note"),
}
"""Columns with what people, files and errors said: an import refuses what is not printable, so escapes travel."""


@dataclass(frozen=True)
class Selection:
    """Which searches are meant: those named, those on a data set (name or digest); neither: all."""

    searches: Sequence[str] = ()
    data: str | None = None


class DatabaseBundle:
    """The searches of a database that are meant, and of other searches the trials that answered for theirs.

    Args:
        connection: to the database, in one consistent view for as long as the bundle is used.
        where: what a person calls the database.
        which: the searches meant.

    Raises:
        ResultsError: no search or data set of that name.
    """

    def __init__(self, connection: sa.Connection, where: str, which: Selection | None = None) -> None:
        self._connection, self.where = connection, where
        self.header = {
            "format": FORMAT,
            "version": VERSION,
            "schema": REVISIONS[-1],
            "detol": version("detol"),
            "exported": now(),
        }
        self._parts = self._closed(_meant(connection, which or Selection()))
        self._ids: dict[str, int] = {}
        self.searches = [self._search(row) for row in self._rows(searches, searches.c.id, list(self._parts))]
        self.data_sets = self._some(data_sets, {row["data"] for row in self.searches})
        self.recipes = self._some(recipes, {row["recipe"] for row in self.searches})

    def topologies(self) -> Iterator[Row]:
        """Yield the topologies of all trials meant."""
        keys: set[str] = set()
        for search, numbers in self._parts.items():
            query = sa.select(trials.c.number, trials.c.topology).where(trials.c.search == search)
            keys |= {key for number, key in self._connection.execute(query) if numbers is None or number in numbers}
        for chunk in _chunks(sorted(keys)):
            yield from self._rows(topologies, topologies.c.key, chunk)

    def trials(self, uid: str) -> list[Row]:
        """Return the trials of a search that are meant."""
        search = self._ids[uid]
        numbers = self._parts[search]
        lines: dict[int, list[int]] = defaultdict(list)
        query = sa.select(parents).where(parents.c.search == search).order_by(parents.c.number, parents.c.slot)
        for line in self._connection.execute(query).mappings():
            lines[line["number"]].append(line["parent"])
        curves: dict[int, list[Row]] = defaultdict(list)
        columns = (reports.c.number, *COLUMNS["reports"])
        found = sa.select(*columns).where(reports.c.search == search).order_by(reports.c.number, reports.c.epoch)
        for number, *values in self._connection.execute(found):
            if numbers is None or number in numbers:
                curves[number].append(dict(zip((c.name for c in COLUMNS["reports"]), values, strict=True)))
        query = sa.select(*COLUMNS["trials"]).where(trials.c.search == search).order_by(trials.c.number)
        return [
            {
                **_printable(row, "trials"),
                "parents": lines.get(row["number"], []),
                "reports": curves.get(row["number"], []),
            }
            for row in self._connection.execute(query).mappings()
            if numbers is None or row["number"] in numbers
        ]

    def _closed(self, meant: Sequence[int]) -> dict[int, set[int] | None]:
        """Add the trials elsewhere that answered: ``None`` stands for all trials of a search."""
        parts: dict[int, set[int] | None] = dict.fromkeys(meant)
        open_ = [trials.c.search == search for search in meant]
        known: dict[str, int | None] = {}
        while open_:
            listed = []
            for condition in open_:
                query = sa.select(trials.c.reused).where(condition, trials.c.reused != "").distinct()
                listed += list(self._connection.scalars(query))
            open_ = []
            for ref in listed:
                name, _, number = ref.rpartition("/")
                if name not in known:
                    known[name] = self._connection.scalar(sa.select(searches.c.id).where(searches.c.name == name))
                search = known[name]
                if search is None or not number.isdecimal():
                    continue  # detol results verify tells of it
                part = parts.setdefault(search, set())
                if part is not None and int(number) not in part:
                    part.add(int(number))
                    open_.append(sa.and_(trials.c.search == search, trials.c.number == int(number)))
        return parts

    def _search(self, row: Row) -> Row:
        found: Row = {column.name: row[column.name] for column in COLUMNS["searches"]}
        self._ids[row["uid"]] = row["id"]
        settings = json.loads(row["settings"])
        for values in (settings, settings.get("settings")):
            if isinstance(values, dict):
                values.update({name: "" for name in _PRIVATE if name in values})
        found["settings"] = json.dumps(settings)
        if self._parts[row["id"]] is None:
            query = sa.select(*COLUMNS["steps"]).where(steps.c.search == row["id"]).order_by(steps.c.number)
            return {**found, "steps": [dict(step) for step in self._connection.execute(query).mappings()]}
        return {**found, "config_digest": "", "steps": []}  # a part of a search is no search to follow

    def _some(self, table: sa.Table, keys: Sequence[str] | set[str]) -> list[Row]:
        return self._rows(table, next(iter(table.primary_key.columns)), sorted(keys))

    def _rows(self, table: sa.Table, key: "sa.Column[Any]", keys: Sequence[Any]) -> list[Row]:
        found: list[Row] = []
        for chunk in _chunks(keys):
            query = sa.select(table).where(key.in_(chunk)).order_by(key)
            found += [_printable(row, table.name) for row in self._connection.execute(query).mappings()]
        return found


def _printable(row: Mapping[Any, Any], table: str) -> Row:
    return {**row, **{name: escaped(row[name]) for name in _SAID.get(table, ())}}


def _meant(connection: sa.Connection, which: Selection) -> list[int]:
    if which.searches:
        return sorted({search_id(connection, name) for name in which.searches})
    query = sa.select(searches.c.id).order_by(searches.c.id)
    if which.data is not None:
        query = query.where(searches.c.data == data_digest(connection, which.data))
    return list(connection.scalars(query))


def _chunks(keys: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(keys), _CHUNK):
        yield list(keys[start : start + _CHUNK])
