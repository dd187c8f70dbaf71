"""The best trial of a search or of a topology, as :func:`detol.search.scoring.better` orders them."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import sqlalchemy as sa

from detol.results.reader import SCORED
from detol.results.rows import from_text
from detol.results.schema import reports, searches, trials
from detol.search.records import INHERITED, TIE_BREAK

COMPLETED = "completed"
COMPLETED_FIRST = sa.case((trials.c.state == COMPLETED, 0), else_=1)
"""Order of trials in front of their scores: a winner has trained to the end."""
SCRATCH_FIRST = sa.case((trials.c.extra.contains(f'"{INHERITED}"'), 1), else_=0)
"""Order behind that: a score that was reached from another's weights is not the one to report."""

LAST_REPORT = sa.and_(
    reports.c.search == trials.c.search, reports.c.number == trials.c.number, reports.c.epoch == trials.c.epoch
)
"""Joins a trial with its last report."""
_CHUNK = 500


class Winner(NamedTuple):
    """The best of some trials.

    Args:
        search: id of its search.
        name: of its search.
        number: of the trial.
        score: the primary one, more is better.
    """

    search: int
    name: str
    number: int
    score: float


def winner(connection: sa.Connection, which: "sa.ColumnElement[bool]") -> Winner | None:
    """Return the best of the trials that a condition holds for; ``None`` where none has a score.

    The best has trained to the end, from weights of its own, and has the highest score; of those that are equal in
    this it has the lowest validation log loss, then it was trained there and not answered by another, then it is older.
    """
    scored = sa.and_(which, trials.c.state.in_(SCORED), trials.c.score.is_not(None))
    ahead = (COMPLETED_FIRST, SCRATCH_FIRST, trials.c.score)
    top = connection.execute(
        sa.select(*ahead).where(scored).order_by(*ahead[:2], trials.c.score.desc()).limit(1)
    ).first()
    if top is None:
        return None
    equal = (
        sa.select(trials.c.search, searches.c.name, trials.c.number, trials.c.score, trials.c.reused, reports.c.metrics)
        .join_from(trials, searches)
        .outerjoin(reports, LAST_REPORT)
        .where(scored, *(column == value for column, value in zip(ahead, top, strict=True)))
    )
    rows = connection.execute(equal).all()
    best = min(rows, key=lambda row: (_tie_break(row.metrics), bool(row.reused), row.search, row.number))
    return Winner(best.search, best.name, best.number, best.score)


def log_losses(connection: sa.Connection, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
    """Return the validation log loss that trials ended with, by search and number; infinite where it is not known."""
    found = dict.fromkeys(places, math.inf)
    for search, group in groupby(sorted(places), key=lambda place: place[0]):
        numbers = [number for _, number in group]
        for start in range(0, len(numbers), _CHUNK):
            part = trials.c.search == search, trials.c.number.in_(numbers[start : start + _CHUNK])
            query = sa.select(trials.c.number, reports.c.metrics).join_from(trials, reports, LAST_REPORT).where(*part)
            found.update({(search, row.number): _tie_break(row.metrics) for row in connection.execute(query)})
    return found


def _tie_break(metrics: str | None) -> float:
    """Return what is lower for the better of equal trials; infinite where a report does not hold it."""
    value = from_text(metrics or "{}").get(TIE_BREAK)
    return value if isinstance(value, int | float) and math.isfinite(value) else math.inf
