"""Which searches a question is about, and what they optimise."""

from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa

from detol.errors import ResultsError, unknown
from detol.results.places import check_space, data_digest, search_id
from detol.results.reader import SCORED
from detol.results.rows import from_text
from detol.results.schema import data_sets, reports, searches, trials
from detol.search.records import Objective, parse_objective

COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
FACTS = (*COSTS, "seconds")
_FALLS = ("depth",)  # with what parse_objective says, all costs are minimised

RANKED = sa.and_(trials.c.state.in_(SCORED), trials.c.score.is_not(None))


@dataclass(frozen=True)
class Which:
    """Which trials are meant: on a data set (name or digest), of a space, of a search; ``None``: all."""

    data: str | None = None
    space: str | None = None
    search: str | None = None


@dataclass(frozen=True)
class Place:
    """What a trial's row says of its search: ``data`` is the data set's name."""

    name: str
    space: str
    data: str
    source: str
    objective: Objective


class Scope:
    """The searches that are meant.

    Args:
        connection: to the database.
        which: trials are meant.

    Attributes:
        places: by the id of each search, oldest first.
        all: whether these are all searches of the database.

    Raises:
        ResultsError: an unknown name.
    """

    def __init__(self, connection: sa.Connection, which: Which) -> None:
        self._connection = connection
        columns = (searches.c.id, searches.c.name, searches.c.space, searches.c.source, searches.c.objective)
        query = sa.select(*columns, data_sets.c.name.label("data")).join_from(searches, data_sets)
        self.all = which == Which()
        if which.data is not None:
            query = query.where(searches.c.data == data_digest(connection, which.data))
        if which.space is not None:
            check_space(connection, which.space)
            query = query.where(searches.c.space == which.space)
        if which.search is not None:
            query = query.where(searches.c.id == search_id(connection, which.search))
        self.places: dict[int, Place] = {}
        read: dict[str, Objective] = {"": Objective("score")}
        for row in connection.execute(query.order_by(searches.c.id)):
            if row.objective not in read:
                read[row.objective] = parse_objective(row.objective)
            self.places[row.id] = Place(row.name, row.space, row.data, row.source, read[row.objective])
        if not self.all:
            self.all = len(self.places) == connection.scalar(sa.select(sa.func.count()).select_from(searches))

    def condition(self) -> "sa.ColumnElement[bool]":
        """Return the condition on ``trials.search``; for one search it leads an index, for several it follows one."""
        if self.all:
            return sa.true()
        if len(self.places) == 1:
            return trials.c.search == next(iter(self.places))
        return (trials.c.search + 0).in_(self.places)  # a sum: so that no index by search is taken for it

    @cached_property
    def usual(self) -> Objective:
        """The primary objective of the newest search that has a score; scores of another are not comparable."""
        for search in reversed(self.places):
            query = sa.select(trials.c.number).where(trials.c.search == search, RANKED).limit(1)
            if self._connection.scalar(query) is not None:
                return self.places[search].objective
        return Objective("score")

    def wanted(self, text: str) -> Objective:
        """Return the objective that a person names; ``score`` is the usual one, and ``depth`` is minimised.

        Raises:
            ResultsError: no trial meant has such a metric; near names are given.
        """
        if text == "score":
            return self.usual
        objective = parse_objective(text)
        if text in _FALLS:
            objective = Objective(objective.metric, minimise=True)
        if objective.metric in FACTS:
            return objective
        known, some = set(FACTS), False
        for search in reversed(self.places):
            metrics = self._metrics(search)
            some = some or metrics is not None
            known |= metrics or set()
            if objective.metric in known:
                return objective
        if some:
            raise unknown("metric", objective.metric, known, ResultsError)
        return objective  # nothing has a score yet, so nobody can tell

    def uniform(self, objective: Objective) -> bool:
        """Return whether each trial's ``score`` is its value of an objective: no search meant has another.

        Searches with another primary objective count only if their reports hold the metric, too.
        """
        if objective.metric in FACTS:
            return False
        others = [search for search, place in self.places.items() if place.objective != objective]
        return not any(objective.metric in (self._metrics(search) or ()) for search in others)

    def _metrics(self, search: int) -> set[str] | None:
        """Return the metrics of a search: those of one scored trial, since all are measured alike; None: no score."""
        query = (
            sa.select(reports.c.metrics)
            .select_from(trials)
            .outerjoin(
                reports,
                sa.and_(
                    reports.c.search == trials.c.search,
                    reports.c.number == trials.c.number,
                    reports.c.epoch == trials.c.epoch,
                ),
            )
            .where(trials.c.search == search, RANKED)
            .limit(1)
        )
        row = self._connection.execute(query).first()
        if row is None:
            return None
        own = self.places[search].objective
        return {own.metric} | set(from_text(row.metrics) if row.metrics else ())
