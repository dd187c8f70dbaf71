"""Writing another database's results into ours: with their source, each once, and conflicts beside each other.

A search is the same in every copy by its ``uid``. Of it,

- a trial that is here already, equal, is left alone, so that an import done twice changes nothing;
- one that has gone on since (it ran then) is brought up to date, where it was imported; ours are never changed;
- one that is here with another result (both copies of the database went on on their own) is kept as well: in another
  *edition* of the search, whose uid ends in ``~1`` (then ``~2`` ...).

Trials of different searches that share topology, recipe, data, epochs and seed with different scores are separate
observations anyway.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from detol.errors import UsageError
from detol.results.engine import insert_new
from detol.results.exchange.bundle import COLUMNS, Bundle, Row
from detol.results.exchange.editions import KEY, Edition, judge
from detol.results.rows import from_text, now
from detol.results.schema import costs, data_sets, parents, recipes, reports, searches, steps, topologies, trials
from detol.search.records import State

if TYPE_CHECKING:
    from detol.results.store import Database

_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
_CHUNK = 1000


@dataclass
class Outcome:
    """What came in.

    Args:
        source: who it is from.
        searches: names here of the searches that are new or brought up to date, in order.
        new_searches: how many are new.
        added: trials.
        updated: trials that had gone on since.
        known: trials that were here already.
        reports: that are new.
        topologies: that are new.
        conflicts: trials of this import, trained, beside a trial here with the same topology, recipe, data, epochs and
            seed and another score: both are kept.
    """

    source: str
    searches: list[str] = field(default_factory=list)
    new_searches: int = 0
    added: int = 0
    updated: int = 0
    known: int = 0
    reports: int = 0
    topologies: int = 0
    conflicts: int = 0


def check_source(who: str) -> str:
    """Return the name of a source; ``UsageError`` when it is empty, over 100 characters, or holds a slash."""
    who = who.strip()
    if not who or len(who) > 100 or "/" in who or not who.isprintable():
        raise UsageError(f"a source is who the results are from, 1 to 100 characters without a slash, got {who[:40]!r}")
    return who


def admit(database: "Database", bundle: Bundle, who: str) -> Outcome:
    """Write a checked bundle into a database: all or nothing, in one transaction.

    Raises:
        UsageError: ``who`` is no name of a source.
    """
    who = check_source(who)
    return database.write(lambda connection: _Admission(connection, bundle, who).run())


class _Admission:
    def __init__(self, connection: sa.Connection, bundle: Bundle, who: str) -> None:
        self._connection, self._bundle, self._who = connection, bundle, who
        self._outcome = Outcome(who)
        self._dialect = connection.dialect.name
        query = sa.select(searches.c.id, searches.c.name, searches.c.uid, searches.c.source)
        rows = connection.execute(query).mappings().all()
        self._names = {row["name"] for row in rows}
        self._here = {row["uid"]: dict(row) for row in rows}
        self._refs: dict[str, str] = {}  # SEARCH/NUMBER there -> here, where an edition changes it
        self._named: dict[str, str] = {}  # search there -> here

    def run(self) -> Outcome:
        """Decide where everything goes, then write it: answers may point at searches that come later."""
        self._insert(data_sets, self._bundle.data_sets)
        self._insert(recipes, self._bundle.recipes)
        self._write_topologies()
        editions = [self._place(search) for search in self._bundle.searches]
        before = self._connection.scalar(sa.select(sa.func.max(searches.c.id))) or 0
        touched: list[tuple[int, list[int]]] = []
        for search, parts in zip(self._bundle.searches, editions, strict=True):
            for number, edition in enumerate(parts):
                self._write_edition(search, edition, main=number == 0)
                touched.append((edition.id, [row["number"] for row in (*edition.new, *edition.newer)]))
        self._outcome.new_searches = sum(1 for id_, _ in touched if id_ > before)
        self._outcome.conflicts = sum(self._conflicts(id_, numbers, before) for id_, numbers in touched if numbers)
        return self._outcome

    # -- deciding

    def _place(self, search: Row) -> list[Edition]:
        incoming = self._bundle.trials(search["uid"])
        editions = [self._edition(search, 0)]
        for trial in incoming:
            place = 0
            while True:
                if place == len(editions):
                    editions.append(self._edition(search, place))
                edition = editions[place]
                verdict = judge(edition, trial)
                if verdict != "conflict":
                    break
                place += 1
            if verdict == "known":
                self._outcome.known += 1
            elif verdict == "newer":
                edition.newer.append(trial)
            else:
                edition.new.append(trial)
            if place:
                self._refs[f"{search['name']}/{trial['number']}"] = f"{edition.name}/{trial['number']}"
        self._named[search["name"]] = editions[0].name
        return editions

    def _edition(self, search: Row, place: int) -> Edition:
        uid = f"{search['uid']}~{place}" if place else search["uid"]
        found = self._here.get(uid)
        if found is not None:
            return Edition(found["id"], found["name"], uid, not found["source"], self._trials(found["id"]))
        name = search["name"] if not place else f"{self._here_name(search)}~{place}"
        name = self._free(name)
        self._names.add(name)
        self._here[uid] = {"id": 0, "name": name, "uid": uid, "source": self._who}
        return Edition(0, name, uid, ours=False, trials={})

    def _here_name(self, search: Row) -> str:
        return str(self._here[search["uid"]]["name"])

    def _free(self, name: str) -> str:
        tried, number = name, 1
        while tried in self._names:
            ending = f"@{self._who}" + (f"-{number}" if number > 1 else "")
            tried, number = name[: 200 - len(ending)] + ending, number + 1
        return tried

    def _trials(self, search: int) -> dict[int, Row]:
        found = {}
        query = sa.select(*COLUMNS["trials"]).where(trials.c.search == search)
        for row in self._connection.execute(query).mappings():
            found[row["number"]] = {**row, "reports": []}
        query = sa.select(reports).where(reports.c.search == search).order_by(reports.c.number, reports.c.epoch)
        for row in self._connection.execute(query).mappings():
            found[row["number"]]["reports"].append(dict(row))
        return found

    # -- writing

    def _insert(self, table: sa.Table, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _CHUNK):
            self._connection.execute(
                insert_new(table, self._dialect), [_only(row, table) for row in rows[start : start + _CHUNK]]
            )

    def _write_topologies(self) -> None:
        here = set(self._connection.scalars(sa.select(topologies.c.key)))
        waiting = []
        for row in self._bundle.topologies():
            if row["key"] not in here:
                here.add(row["key"])
                waiting.append(row)
                self._outcome.topologies += 1
            if len(waiting) == _CHUNK:
                self._insert(topologies, waiting)
                waiting = []
        self._insert(topologies, waiting)

    def _write_edition(self, search: Row, edition: Edition, *, main: bool) -> None:
        if not edition.id:
            edition.id = self._write_search(search, edition, main=main)
        elif not edition.ours:
            went_on = main and self._refresh(search, edition)
            if went_on or edition.new or edition.newer:
                self._outcome.searches.append(edition.name)
        for trial in edition.newer:
            for table in (reports, parents):
                gone = (table.c.search == edition.id, table.c.number == trial["number"])
                self._connection.execute(table.delete().where(*gone))
            mine = (trials.c.search == edition.id, trials.c.number == trial["number"])
            self._connection.execute(trials.update().where(*mine).values(self._trial(trial)))
        if edition.new:
            rows = [{"search": edition.id, **self._trial(trial)} for trial in edition.new]
            self._many(trials, rows)
        self._outcome.added += len(edition.new)
        self._outcome.updated += len(edition.newer)
        self._write_parts(edition)

    def _write_parts(self, edition: Edition) -> None:
        curves, lines, prices = [], [], {}
        for trial in (*edition.new, *edition.newer):
            of = {"search": edition.id, "number": trial["number"]}
            curves += [{**of, **_only(report, reports)} for report in trial["reports"]]
            lines += [{**of, "slot": slot, "parent": parent} for slot, parent in enumerate(trial["parents"])]
            if all(trial[name] is not None for name in _COSTS):
                key = (trial["topology"], trial["data"])
                prices[key] = {"topology": key[0], "data": key[1], **{name: trial[name] for name in _COSTS}}
        self._many(reports, curves)
        self._many(parents, lines)
        self._insert(costs, list(prices.values()))
        self._outcome.reports += len(curves)

    def _write_search(self, search: Row, edition: Edition, *, main: bool) -> int:
        origin: dict[str, Any] = {
            "name": search["name"],
            "file": PurePath(self._bundle.where).name,
            "exported": self._bundle.header.get("exported", ""),
            "imported": now(),
        }
        if search["source"]:  # it had come from somebody else there
            origin |= {"source": search["source"], "provenance": from_text(search["provenance"])}
        row = {
            **_only(search, searches),
            "name": edition.name,
            "uid": edition.uid,
            "source": self._who,
            "provenance": json.dumps(origin),
        }
        if not main:
            row |= {"config_digest": "", "consumed": 0.0, "state": "finished"}
        made = self._connection.execute(searches.insert().returning(searches.c.id), row).scalar_one()
        self._outcome.searches.append(edition.name)
        if main:
            self._write_steps(made, search["steps"])
        return int(made)

    def _refresh(self, search: Row, edition: Edition) -> bool:
        """Bring an imported search up to date when it had gone on since; return whether it had."""
        mine = searches.c.id == edition.id
        now_here = self._connection.execute(sa.select(searches).where(mine)).mappings().one()
        names = ("state", "consumed", "ended", "trials", "epochs", "config_digest")
        logged = self._connection.scalar(sa.select(sa.func.count()).where(steps.c.search == edition.id)) or 0
        later = search["consumed"] > now_here["consumed"] or len(search["steps"]) > logged
        later = later or bool(search["config_digest"] and not now_here["config_digest"])
        if not later or not search["config_digest"]:
            return False
        self._connection.execute(searches.update().where(mine).values({name: search[name] for name in names}))
        self._connection.execute(steps.delete().where(steps.c.search == edition.id))
        self._write_steps(edition.id, search["steps"])
        return True

    def _write_steps(self, search: int, listed: Sequence[Row]) -> None:
        rows = [{"search": search, "number": number, **_only(step, steps)} for number, step in enumerate(listed)]
        self._many(steps, rows)

    def _many(self, table: sa.Table, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _CHUNK):
            self._connection.execute(table.insert(), rows[start : start + _CHUNK])

    def _trial(self, trial: Row) -> Row:
        ref = trial["reused"]
        if ref:
            name, _, number = ref.rpartition("/")
            ref = self._refs.get(ref, f"{self._named[name]}/{number}")
        return {**_only(trial, trials), "reused": ref}

    def _conflicts(self, search: int, numbers: Sequence[int], before: int) -> int:
        """Return how many of these trials stand beside one of the same key, here before, with another score."""
        other = trials.alias()
        same = sa.and_(*(other.c[name] == trials.c[name] for name in KEY))
        differs = sa.and_(_trained(other), other.c.search <= before, other.c.score != trials.c.score)
        query = (
            sa.select(trials.c.number)
            .join_from(trials, other, sa.and_(same, differs))
            .where(trials.c.search == search, _trained(trials))
            .distinct()
        )
        return len(set(self._connection.scalars(query)) & set(numbers))


def _trained(table: "sa.FromClause") -> "sa.ColumnElement[bool]":
    """Return whether a trial was trained from scratch to its end."""
    return sa.and_(table.c.reused == "", table.c.inherited == "", table.c.state == str(State.COMPLETED))


def _only(row: Mapping[str, Any], table: sa.Table) -> Row:
    """Return what of a row travels and stands in a table."""
    names = [column.name for column in COLUMNS.get(table.name, tuple(table.columns))]
    return {name: row[name] for name in names if name in row}
