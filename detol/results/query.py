"""Questions to the results database: what the command line, dashboards and export read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from detol.errors import UsageError
from detol.graph import codec
from detol.results import browse, chronicle, descriptors, pictures, places, rank, totals
from detol.results.browse import Filter, TrialPage, TrialRow
from detol.results.chronicle import Identity, Record
from detol.results.pictures import Point, front_of
from detol.results.places import Found
from detol.results.rank import FrontRow, TopRow, Which
from detol.results.rows import from_text
from detol.results.schema import costs, data_sets, embeddings, parents, recipes, searches, trials
from detol.results.sql import Answer, select
from detol.results.tables import plain, to_csv, to_json
from detol.results.totals import SearchRow
from detol.search.records import Objective, parse_objective

if TYPE_CHECKING:
    from detol.graph.topology import Topology
    from detol.results.similarity import SimilarRow
    from detol.results.store import Database

__all__ = [
    "Answer",
    "CurveRow",
    "Filter",
    "Found",
    "FrontRow",
    "Identity",
    "LineRow",
    "Point",
    "Query",
    "Record",
    "SearchRow",
    "TopRow",
    "TrialPage",
    "TrialRow",
    "front_of",
    "plain",
    "to_csv",
    "to_json",
]


@dataclass(frozen=True)
class CurveRow:
    """One epoch of a trial: ``value`` is of the search's primary objective, in its natural direction."""

    epoch: int
    value: float
    seconds: float
    metrics: dict[str, float]


@dataclass(frozen=True)
class LineRow:
    """A trial in a line of descent; ``generation`` 0 is the one asked for, 1 its parents, and so on."""

    generation: int
    trial: str
    parents: tuple[str, ...]
    origin: str
    note: str
    digest: str
    state: str
    value: float | None
    decisions: dict[str, Any]


class Query:
    """Reads a results database; nothing here writes.

    Args:
        database: an open one. Each question sees one consistent state of it.
    """

    def __init__(self, database: "Database") -> None:
        self._database = database

    def top(
        self,
        data: str | None = None,
        space: str | None = None,
        search: str | None = None,
        limit: int = 10,
        metric: str | None = None,
    ) -> list[TopRow]:
        """Return the best trials, one for each topology, recipe and data set; completed ones before stopped ones.

        Args:
            data: name or digest of a data set.
            space: name of a space.
            search: name of a search.
            limit: at most so many rows, >= 1.
            metric: METRIC[:min|max] to rank by: a metric of the reports (the last counts), a cost, or ``seconds``. By
                default (or ``score``) the primary objective of the newest search meant; trials that have no such value
                are left out.

        Raises:
            UsageError: an unknown name, a metric that no trial meant has, or a limit under 1.
        """
        if limit < 1:
            raise UsageError(f"--limit must be at least 1, got {limit}")
        with self._database.read() as connection:
            return rank.top(connection, Which(data, space, search), limit, metric)

    def front(
        self,
        objectives: Sequence[str] = ("score", "params"),
        data: str | None = None,
        space: str | None = None,
        search: str | None = None,
    ) -> list[FrontRow]:
        """Return the trials that none beats in all objectives at once; ``score`` stands for the primary metric.

        Completed trials alone, unless none of those meant is completed.

        Raises:
            UsageError: an unknown name, an objective that no trial meant has, or no objective.
        """
        if not objectives:
            raise UsageError("a front needs at least one objective, e.g. score params")
        with self._database.read() as connection:
            return rank.front(connection, Which(data, space, search), objectives)

    def curve(self, ref: str) -> list[CurveRow]:
        """Return the learning curve of a trial, or of the best trial of a search or topology."""
        with self._database.read() as connection:
            found = places.find(connection, ref)
            return _curve(found, _objective(connection, found.search_id))

    def resolve(self, ref: str, data: str | None = None) -> Found:
        """Return the trial that ``SEARCH/NUMBER`` names, or the best of a search or of a topology (digest or prefix).

        A completed trial is better than a stopped one.

        Raises:
            ResultsError: nothing of that name, nothing with a score, several topologies, or several data sets.
        """
        with self._database.read() as connection:
            return places.find(connection, ref, data)

    def trained(self, found: Found) -> Found:
        """Return the trial that was trained for a result: itself, or the earlier one that answered it."""
        with self._database.read() as connection:
            return places.trained(connection, found)

    def show(self, ref: str, data: str | None = None) -> dict[str, Any]:
        """Return everything about a trial, as strict JSON holds it (see :func:`~detol.results.tables.plain`)."""
        with self._database.read() as connection:
            found = places.find(connection, ref, data)
            trial, objective = found.trial, _objective(connection, found.search_id)
            of = sa.and_(trials.c.search == found.search_id, trials.c.number == trial.number)
            row = connection.execute(sa.select(trials).where(of)).mappings().one()
            priced = (costs.c.topology == row["topology"], costs.c.data == row["data"])
            cost = connection.execute(sa.select(costs).where(*priced)).mappings().first()
            names = ("name", "kind", "task", "digest")
            kind = connection.execute(sa.select(data_sets).where(data_sets.c.digest == row["data"])).mappings().one()
            warm = descriptors.sources_of(connection, found.search_id)
            whose = sa.select(searches.c.source, searches.c.provenance).where(searches.c.id == found.search_id)
            source, provenance = connection.execute(whose).one()
            recipe = connection.scalar(sa.select(recipes.c.settings).where(recipes.c.digest == row["recipe"]))
            others = connection.execute(
                sa.select(searches.c.name, trials.c.number, trials.c.state, trials.c.score, trials.c.reused)
                .join_from(trials, searches)
                .where(trials.c.digest == row["digest"], trials.c.data == row["data"], sa.not_(of))
                .order_by(trials.c.search, trials.c.number)
            ).all()
        shown = (
            "state",
            "origin",
            "note",
            "reason",
            "attempt",
            "epochs",
            "epoch",
            "seed",
            "width",
            "seconds",
            "reused",
        )
        result: dict[str, Any] = plain(
            {
                "trial": found.ref,
                "digest": trial.digest,
                "metric": objective.metric,
                "value": objective.score(trial.score),
                "scores": trial.scores,
                **{name: row[name] for name in (*shown, "weights", "created", "ended")},
                "parents": [f"{found.search}/{number}" for number in trial.candidate.parents],
                "decisions": dict(trial.candidate.decisions),
                "cost": {name: cost[name] for name in rank.COSTS} if cost else None,
                "data": {name: kind[name] for name in names},
                "recipe": {"digest": row["recipe"], **from_text(recipe or "{}")},
                "extra": dict(trial.extra),
                "curve": _curve(found, objective),
                "others": [
                    {
                        "trial": f"{name}/{number}",
                        "state": state,
                        "value": None if score is None else objective.score(score),
                        "reused": reused,
                    }
                    for name, number, state, score, reused in others
                ],
                "warm_sources": warm,
                "source": source,
                "provenance": from_text(provenance),
            }
        )
        result["topology"] = json.loads(codec.to_json(trial.candidate.topology))
        return result

    def warm_sources(self, name: str) -> list[dict[str, Any]]:
        """Return what a search began with from other data sets: searches, data, weight, records, distance, tau ..."""
        with self._database.read() as connection:
            return descriptors.sources_of(connection, places.search_id(connection, name))

    def lineage(self, ref: str) -> list[LineRow]:
        """Return a trial and its ancestors to the roots, each once, by generation (the nearest one counts)."""
        with self._database.read() as connection:
            found = places.find(connection, ref)
            return _lineage(connection, found)

    def searches(self, limit: int | None = None, offset: int = 0) -> list[SearchRow]:
        """Return all searches, newest first; or at most ``limit`` of them, after the first ``offset``."""
        with self._database.read() as connection:
            return totals.search_rows(connection, limit=limit, offset=offset)

    def trials(
        self,
        search: str,
        which: Filter | None = None,
        *,
        sort: str = "number",
        descending: bool = False,
        page: int = 1,
        size: int = 50,
    ) -> TrialPage:
        """Return one page of the trials of a search; arguments and errors: :func:`detol.results.browse.trial_page`."""
        with self._database.read() as connection:
            return browse.trial_page(
                connection, search, which or Filter(), sort=sort, descending=descending, page=page, size=size
            )

    def some(self, search: str, numbers: Sequence[int]) -> list[TrialRow]:
        """Return the trials of a search with these numbers, in their order."""
        with self._database.read() as connection:
            return browse.some_trials(connection, search, numbers)

    def decisions(self, search: str) -> dict[int, dict[str, Any]]:
        """Return the decisions of all trials of a search, by number."""
        with self._database.read() as connection:
            return browse.decisions(connection, search)

    def children(self, search: str, number: int) -> list[TrialRow]:
        """Return the trials that derive from one."""
        with self._database.read() as connection:
            return browse.children(connection, search, number)

    def similar(self, ref: str, limit: int = 10) -> "list[SimilarRow]":
        """Return the scored topologies nearest to a trial's, among those that ``detol results similar`` has embedded.

        Raises:
            ResultsError: nothing of that name.
        """
        from detol.embedding.embedders import embedder
        from detol.results.similarity import among_stored

        with self._database.read() as connection:
            return among_stored(connection, ref, embedder("features"), limit=limit)

    def embedded(self) -> int:
        """Return how many vectors of topologies are stored."""
        with self._database.read() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(embeddings)) or 0

    def counts(self, search: str) -> dict[str, dict[str, int]]:
        """Return how many trials a search has by ``state`` and by ``origin``."""
        with self._database.read() as connection:
            return browse.counts(connection, search)

    def points(self, search: str) -> list[Point]:
        """Return all trials of a search with their objectives and costs, light enough for a picture of 10,000."""
        with self._database.read() as connection:
            return pictures.points(connection, search)

    def curves(self, search: str, numbers: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
        """Return the learning curves, (epoch, value) by number, of some trials of a search."""
        with self._database.read() as connection:
            return pictures.curves(connection, search, numbers)

    def records(self, search: str) -> list[Record]:
        """Return all trials of a search with their times, costs and decisions, without curves and topologies."""
        with self._database.read() as connection:
            return chronicle.records(connection, search)

    def identity(self, search: str) -> Identity:
        """Return what a search was of: its data, recipe and settings by their digests."""
        with self._database.read() as connection:
            return chronicle.identity(connection, search)

    def kin(self, search: str, strategy: str) -> list[str]:
        """Return the searches by a strategy that are otherwise as one is: data, space, recipe, objective, epochs."""
        with self._database.read() as connection:
            return chronicle.kin(connection, search, strategy)

    def drawn(self, search: str, numbers: Sequence[int]) -> "dict[int, Topology]":
        """Return the topologies of some trials of a search, by number."""
        with self._database.read() as connection:
            return chronicle.drawn(connection, search, numbers)

    def pulse(self, search: str | None = None) -> str:
        """Return a text that changes whenever something of a search (or of any) does."""
        with self._database.read() as connection:
            return browse.pulse(connection, search)

    def data_sets(self) -> list[dict[str, Any]]:
        """Return all data sets with how much was tried on each, the last used first."""
        with self._database.read() as connection:
            return browse.data_rows(connection)

    def described(self, digest: str) -> dict[str, Any]:
        """Return what was written down of a data set when it was first searched: ``Dataset.describe`` of then."""
        with self._database.read() as connection:
            text = connection.scalar(sa.select(data_sets.c.description).where(data_sets.c.digest == digest))
        return dict(from_text(text or "{}"))

    def sample_of(self, found: Found) -> tuple[tuple[int, ...], int | None]:
        """Return the shape of one sample of a trial's data set, and how many outputs a network has there."""
        with self._database.read() as connection:
            query = sa.select(data_sets.c.shape, data_sets.c.outputs).join_from(data_sets, searches)
            shape, outputs = connection.execute(query.where(searches.c.id == found.search_id)).one()
        return tuple(from_text(shape)), outputs

    def spaces(self) -> list[dict[str, Any]]:
        """Return all spaces with how much was tried of each."""
        with self._database.read() as connection:
            return browse.space_rows(connection)

    def status(self, name: str) -> SearchRow:
        """Return one search; ``ResultsError`` when there is none of that name."""
        with self._database.read() as connection:
            return totals.search_rows(connection, name)[0]

    def settings(self, name: str) -> dict[str, Any]:
        """Return what a search was started with: settings, versions, objectives, options."""
        with self._database.read() as connection:
            return dict(totals.settings_of(connection, name))

    def stats(self) -> dict[str, Any]:
        """Return the totals of the database; the keys are those of :func:`detol.results.totals.stats`."""
        with self._database.read() as connection:
            return dict(totals.stats(connection))

    def sql(self, text: str) -> Answer:
        """Run one SQL statement that reads; anything else is refused with one line (``ResultsError``)."""
        return select(self._database, text)


def _objective(connection: sa.Connection, search: int) -> Objective:
    text = connection.scalar(sa.select(searches.c.objective).where(searches.c.id == search))
    return parse_objective(text) if text else Objective("score")


def _curve(found: Found, objective: Objective) -> list[CurveRow]:
    trial = found.trial
    return [
        CurveRow(report.epoch, objective.score(score), report.seconds, dict(report.metrics))
        for report, score in zip(trial.reports, trial.curve, strict=True)
    ]


def _lineage(connection: sa.Connection, found: Found) -> list[LineRow]:
    lines: dict[int, list[int]] = {}
    query = sa.select(parents).where(parents.c.search == found.search_id).order_by(parents.c.number, parents.c.slot)
    for line in connection.execute(query).mappings():
        lines.setdefault(line["number"], []).append(line["parent"])
    generation = {found.trial.number: 0}
    front = [found.trial.number]
    while front:
        above = sorted({parent for number in front for parent in lines.get(number, ())} - generation.keys())
        generation.update(dict.fromkeys(above, generation[front[0]] + 1))
        front = above
    objective = _objective(connection, found.search_id)
    rows = []
    for number in generation:
        of = (trials.c.search == found.search_id, trials.c.number == number)
        row = connection.execute(sa.select(trials).where(*of)).mappings().first()
        if row is None:
            continue
        rows.append(
            LineRow(
                generation=generation[number],
                trial=f"{found.search}/{number}",
                parents=tuple(f"{found.search}/{parent}" for parent in lines.get(number, ())),
                value=None if row["score"] is None else objective.score(row["score"]),
                decisions=from_text(row["decisions"]),
                **{name: row[name] for name in ("origin", "note", "digest", "state")},
            )
        )
    return rows
