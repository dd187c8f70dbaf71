"""Whether a results database is sound: digests, keys, curves against scores. It is only read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from detol.results.rows import Row, from_text
from detol.results.rules import data_faults, recipe_faults, search_faults, step_faults, topology_faults, trial_faults
from detol.results.schema import (
    costs,
    data_sets,
    metadata,
    parents,
    recipes,
    reports,
    searches,
    steps,
    topologies,
    trials,
)
from detol.search.records import INHERITED

if TYPE_CHECKING:
    from detol.results.store import Database

_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
_SHOWN = 20
"""Rows named of each foreign key that leads nowhere."""


@dataclass(frozen=True)
class Fault:
    """Something that is wrong: ``where`` names the row as a person would, ``what`` is one line."""

    where: str
    what: str


@dataclass(frozen=True)
class Verified:
    """What was looked at, by kind, and what is wrong."""

    checked: Mapping[str, int]
    faults: list[Fault] = field(default_factory=list)


def verify(database: "Database") -> Verified:
    """Look at every row of a database.

    - the file itself (SQLite);
    - foreign keys of all tables;
    - digests of topologies and recipes, made again from their bodies;
    - each trial: its digest, state, figures, its curve against its scores, parents and answers that exist;
    - columns that repeat what stands elsewhere (costs, inheritance).
    """
    with database.read() as connection:
        return _Check(connection).run()


class _Check:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._faults: list[Fault] = []
        self._checked: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self._scores: dict[str, dict[int, float | None]] = {}  # of each search by name: answers are held against them

    def run(self) -> Verified:
        if self._connection.dialect.name == "sqlite":
            self._file()
        self._keys()
        self._each(data_sets, "data_sets", "data set", "digest", data_faults)
        self._each(recipes, "recipes", "recipe", "digest", recipe_faults)
        for row in self._stream(sa.select(topologies)):
            self._digests[row["key"]] = row["digest"]
            self._note(f"topology {row['digest']} ({row['key']})", topology_faults(row))
        self._checked["topologies"] = len(self._digests)
        prices = self._prices()
        listed = [dict(row) for row in self._stream(sa.select(searches).order_by(searches.c.id))]
        self._checked |= {"searches": len(listed), "trials": 0, "reports": 0}
        for search in listed:
            faults = list(search_faults(search))
            faults += [
                f"step {step['number']}: {fault}"
                for step in self._stream(sa.select(steps).where(steps.c.search == search["id"]))
                for fault in step_faults(step)
            ]
            self._note(f"search {search['name']!r}", faults)
            if not faults:  # else its trials cannot be read
                self._search(search, prices)
        for search in listed:
            self._answers(search)
        return Verified(self._checked, self._faults)

    def _file(self) -> None:
        said = self._connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        self._note("the file", (line for line in said if line != "ok"))

    def _keys(self) -> None:
        """Look for rows whose foreign key leads nowhere (a database may have been written with the check off)."""
        for table in metadata.sorted_tables:
            for constraint in table.foreign_key_constraints:
                pairs = [(element.parent, element.column) for element in constraint.elements]
                there = sa.exists().where(*(far == near for near, far in pairs))
                query = sa.select(*table.primary_key.columns).where(~there, *(near.is_not(None) for near, _ in pairs))
                for row in self._connection.execute(query.limit(_SHOWN)).mappings():
                    key = ", ".join(f"{name} {value}" for name, value in row.items())
                    near = ", ".join(str(column.name) for column, _ in pairs)
                    far = constraint.referred_table.name
                    self._faults.append(Fault(f"{table.name} ({key})", f"its {near} is in no row of {far}"))

    def _each(self, table: sa.Table, what: str, kind: str, name: str, rule: Any) -> None:
        count = 0
        for row in self._stream(sa.select(table)):
            count += 1
            self._note(f"{kind} {row[name]}", rule(row))
        self._checked[what] = count

    def _prices(self) -> dict[tuple[str, str], tuple[int, ...]]:
        columns = (costs.c.topology, costs.c.data, *(costs.c[name] for name in _COSTS))
        return {
            (topology, data): tuple(rest) for topology, data, *rest in self._connection.execute(sa.select(*columns))
        }

    def _search(self, search: Row, prices: Mapping[tuple[str, str], tuple[int, ...]]) -> None:
        of = search["id"]
        curves: dict[int, list[Row]] = defaultdict(list)
        query = sa.select(reports).where(reports.c.search == of).order_by(reports.c.number, reports.c.epoch)
        for report in self._stream(query):
            curves[report["number"]].append(report)
            self._checked["reports"] += 1
        lines: dict[int, list[int]] = defaultdict(list)
        for line in self._stream(sa.select(parents).where(parents.c.search == of)):
            lines[line["number"]].append(line["parent"])
        rows = {row["number"]: row for row in self._stream(sa.select(trials).where(trials.c.search == of))}
        self._checked["trials"] += len(rows)
        self._scores[search["name"]] = {number: row["score"] for number, row in rows.items()}
        whole = bool(search["config_digest"])  # of a part that came along with an import, parents stayed behind
        for number, row in sorted(rows.items()):
            where = f"{search['name']}/{number}"
            self._note(where, trial_faults(row, curves.get(number, []), search, self._digests))
            self._note(where, _repeated(row, prices))
            gone = [parent for parent in lines.get(number, ()) if parent not in rows]
            if gone and whole:
                self._faults.append(Fault(where, f"its parent {gone[0]} is no trial of the search"))

    def _answers(self, search: Row) -> None:
        query = sa.select(trials.c.number, trials.c.reused, trials.c.score, trials.c.state)
        for row in self._stream(query.where(trials.c.search == search["id"], trials.c.reused != "")):
            name, _, number = row["reused"].rpartition("/")
            if not number.isdecimal() or int(number) not in self._scores.get(name, ()):
                what = f"it was answered by {row['reused']!r}, which is not there"
                self._faults.append(Fault(f"{search['name']}/{row['number']}", what))

    def _stream(self, query: "sa.Select[Any]") -> Iterator[sa.RowMapping]:
        yield from self._connection.execute(query.execution_options(yield_per=1000)).mappings()

    def _note(self, where: str, faults: Iterable[str]) -> None:
        self._faults += [Fault(where, fault) for fault in faults]


def _repeated(row: Row, prices: Mapping[tuple[str, str], tuple[int, ...]]) -> Iterator[str]:
    """Yield what of a trial's repeated columns is not as it stands elsewhere."""
    price = prices.get((row["topology"], row["data"]))
    own = tuple(row[name] for name in _COSTS)
    if price is not None and own != price:
        yield f"its costs are {own}, those of its topology {price}"
    extra = from_text(row["extra"]) if row["extra"].startswith("{") else {}
    if row["inherited"] != str(extra.get(INHERITED, "")):
        yield f"it inherited from {row['inherited']!r}, its facts say {str(extra.get(INHERITED, ''))!r}"
