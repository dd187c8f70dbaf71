"""Finished learning curves of earlier searches, for rules that extrapolate the curves of a new one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from detol.results.rows import from_text
from detol.results.schema import recipes, reports, searches, trials
from detol.search.records import Report, State, Trial
from detol.search.rehearse import NOBODY

MOST = 100
"""Curves that a search begins with at most: the latest ones."""
FILLED = 20
"""Up to so many curves of the same space on other data take the places that those on the same data leave empty."""

_DIGITS = 7
"""Significant digits of a score that are kept: they are written into the search's record."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A finished learning curve of an earlier search.

    Args:
        trial: ``SEARCH/NUMBER``.
        same_data: whether it is of the same data as the search that begins with it.
        scores: the primary score after each epoch, more is better; all finite.
    """

    trial: str
    same_data: bool
    scores: tuple[float, ...]

    def as_trial(self, number: int) -> Trial:
        """Return it as stopping rules read it: a completed trial of that number, without its network."""
        found = tuple(Report(epoch, {}) for epoch in range(1, len(self.scores) + 1))
        epochs = len(found)
        return Trial(number, NOBODY, State.COMPLETED, epochs, reports=found, curve=self.scores, scores=self.scores[-1:])


def as_trials(curves: Iterable[Curve]) -> tuple[Trial, ...]:
    """Return curves as trials whose numbers no trial of a search has: -1, -2 ..."""
    return tuple(curve.as_trial(-1 - place) for place, curve in enumerate(curves))


def to_record(curves: Iterable[Curve]) -> list[dict[str, Any]]:
    """Return curves as the record of a search keeps them, so that a resume judges by the same ones."""
    return [{"trial": each.trial, "same_data": each.same_data, "scores": list(each.scores)} for each in curves]


def from_record(rows: Iterable[Mapping[str, Any]]) -> tuple[Curve, ...]:
    """Invert :func:`to_record`."""
    return tuple(Curve(str(row["trial"]), bool(row["same_data"]), tuple(map(float, row["scores"]))) for row in rows)


def curves(
    connection: sa.Connection,
    *,
    data: str,
    space: str,
    objective: str,
    epochs: int,
    averaging: float = 0.0,
    most: int = MOST,
) -> tuple[Curve, ...]:
    """Return curves of trials that were trained from scratch to their end, the latest first.

    First those on the same data, whatever the space. Where these are fewer than ``FILLED``, those of the same space on
    other data follow, up to ``FILLED`` in all. Imported searches count like our own.

    Args:
        connection: to the database.
        data: digest of the data set.
        space: name of the space.
        objective: the primary one, as text (``val_accuracy``, ``val_loss:min``).
        epochs: of each training.
        averaging: of the recipe: curves of averaged weights rise otherwise than those of the weights themselves.
        most: how many at most, >= 0.
    """
    alike = trials.c.recipe.in_(_measured_alike(connection, averaging))
    same = sa.and_(alike, searches.c.data == data)
    found = _some(connection, sa.and_(same, searches.c.objective == objective), epochs, most, same_data=True)
    room = min(most, FILLED) - len(found)
    if room > 0:
        other = sa.and_(alike, searches.c.data != data, searches.c.space == space, searches.c.objective == objective)
        found += _some(connection, other, epochs, room, same_data=False)
    return tuple(found)


def _measured_alike(connection: sa.Connection, averaging: float) -> list[str]:
    """Return the digests of the recipes with this averaging."""
    found = connection.execute(sa.select(recipes.c.digest, recipes.c.settings))
    return [digest for digest, settings in found if from_text(settings).get("averaging", 0.0) == averaging]


def _some(
    connection: sa.Connection, which: "sa.ColumnElement[bool]", epochs: int, most: int, *, same_data: bool
) -> list[Curve]:
    latest = (
        sa.select(trials.c.search, trials.c.number, searches.c.name)
        .join_from(trials, searches, searches.c.id == trials.c.search)
        .where(
            which,
            trials.c.state == str(State.COMPLETED),
            trials.c.epochs == epochs,
            trials.c.epoch == epochs,
            trials.c.score.is_not(None),
            trials.c.reused == "",
            trials.c.inherited == "",
        )
        .order_by(trials.c.search.desc(), trials.c.number.desc())
        .limit(most)
        .subquery()
    )
    query = (
        sa.select(latest.c.search, latest.c.number, latest.c.name, reports.c.score)
        .join_from(latest, reports, sa.and_(reports.c.search == latest.c.search, reports.c.number == latest.c.number))
        .order_by(latest.c.search.desc(), latest.c.number.desc(), reports.c.epoch)
    )
    scores: dict[str, list[float | None]] = defaultdict(list)
    for _, number, name, score in connection.execute(query):
        scores[f"{name}/{number}"].append(score)
    # A rule looks at every epoch: a curve with a gap, or one that was not finite somewhere, is left out.
    return [Curve(trial, same_data, whole) for trial, curve in scores.items() if (whole := _whole(curve, epochs))]


def _whole(scores: Sequence[float | None], epochs: int) -> tuple[float, ...]:
    kept = tuple(float(f"{score:.{_DIGITS}g}") for score in scores if score is not None)
    return kept if len(kept) == epochs else ()
