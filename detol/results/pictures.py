"""What pictures of a search show: points and curves, light enough for 10,000 trials."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from detol.results.browse import PRICED, objective_of_search
from detol.results.places import search_id
from detol.results.rank import COSTS
from detol.results.reader import SCORED
from detol.results.rows import from_text
from detol.results.schema import costs, reports, searches, trials
from detol.results.winner import COMPLETED
from detol.search.records import Objective, parse_objective

_FACTS = ("number", "state", "origin", "epoch")


@dataclass(frozen=True)
class Point:
    """A trial as a picture of a search needs it: ``values`` are natural, by name; what is unknown is left out."""

    number: int
    state: str
    origin: str
    epoch: int
    values: dict[str, float]
    reused: bool


def points(connection: sa.Connection, search: str) -> list[Point]:
    """Return all trials of a search with their values: each objective, each cost, and seconds."""
    found = search_id(connection, search)
    listed = connection.scalar(sa.select(searches.c.objectives).where(searches.c.id == found))
    objectives = [parse_objective(text) for text in from_text(listed or "[]")] or [Objective("score")]
    query = (
        sa.select(
            *(trials.c[name] for name in (*_FACTS, "seconds", "score", "scores", "reused")),
            *(costs.c[name] for name in COSTS),
        )
        .outerjoin_from(trials, costs, PRICED)
        .where(trials.c.search == found)
        .order_by(trials.c.number)
    )
    result = []
    for row in connection.execute(query).mappings():
        values = {name: float(row[name]) for name in (*COSTS, "seconds") if row[name] is not None}
        if row["score"] is not None:
            values[objectives[0].metric] = objectives[0].score(row["score"])
        if row["scores"] and len(objectives) > 1:
            scores = zip(objectives, from_text(row["scores"]), strict=False)
            values |= {objective.metric: objective.score(score) for objective, score in scores}
        of = {name: row[name] for name in _FACTS}
        result.append(Point(values=values, reused=bool(row["reused"]), **of))
    return result


def front_of(found: Sequence[Point], first: Objective, second: Objective) -> list[Point]:
    """Return the points that none beats in two objectives at once, best in the first one first.

    As :func:`detol.results.rank.front`: completed trials alone, unless none is completed; of trials with equal values
    the first counts.
    """
    scored = [p for p in found if p.state in SCORED and first.metric in p.values and second.metric in p.values]
    scored = [p for p in scored if p.state == COMPLETED] or scored
    scored.sort(key=lambda p: (-first.score(p.values[first.metric]), -second.score(p.values[second.metric]), p.number))
    kept: list[Point] = []
    for point in scored:  # by the first objective: only a better second one is unbeaten
        if not kept or second.score(point.values[second.metric]) > second.score(kept[-1].values[second.metric]):
            kept.append(point)
    return kept


def curves(connection: sa.Connection, search: str, numbers: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
    """Return learning curves, (epoch, value) by number of trial; epochs without a finite value are left out."""
    found = search_id(connection, search)
    objective = objective_of_search(connection, found)
    query = (
        sa.select(reports.c.number, reports.c.epoch, reports.c.score)
        .where(reports.c.search == found, reports.c.number.in_(numbers), reports.c.score.is_not(None))
        .order_by(reports.c.number, reports.c.epoch)
    )
    result: dict[int, list[tuple[int, float]]] = {}
    for number, epoch, score in connection.execute(query):
        result.setdefault(number, []).append((epoch, objective.score(score)))
    return result
