"""What reuse and early stopping saved: trainings, epochs, and the time of all devices that they would have taken."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from detol.results.rows import from_text
from detol.results.schema import reports, trials
from detol.search.history import TIME_UP
from detol.search.records import State
from detol.search.spared import OWN, SPARED_EPOCHS, SPARED_SECONDS


@dataclass
class Savings:
    """Of one search, or of a database.

    Args:
        continued: trainings that went on from a checkpoint of another search.
        trainings_saved: trials that needed no training: results answered them.
        epochs_saved: of these, and those that a checkpoint left out.
        seconds_saved: device seconds (seconds times ranks) that these epochs took where they were trained.
        trainings_spared: trials that early stopping ended; the end of a search's time is none.
        epochs_spared: that were left of their schedules.
        seconds_spared: device seconds that these would have taken, at the pace of the epochs that were trained.
    """

    continued: int = 0
    trainings_saved: int = 0
    epochs_saved: int = 0
    seconds_saved: float = 0.0
    trainings_spared: int = 0
    epochs_spared: int = 0
    seconds_spared: float = 0.0


_EARLY = sa.and_(trials.c.state == State.STOPPED.value, trials.c.reason != TIME_UP)
_HELPED = sa.or_(trials.c.reused != "", trials.c.extra.contains(f'"{SPARED_EPOCHS}"'))
_LEFT = trials.c.epochs - trials.c.epoch


def savings(
    connection: sa.Connection, searches: Sequence[int] | None = None, *, answers: bool = True
) -> dict[int, Savings]:
    """Return what was saved by each search, by its id; searches without a trial of which anything was are left out.

    Args:
        connection: to the database.
        searches: ids; by default all.
        answers: whether a result that was stopped early and answered spares its epochs again. So it does for the search
            that it answered: without stopping that would have trained them. For the database it does not.
    """
    found: dict[int, Savings] = defaultdict(Savings)
    mine = sa.true() if searches is None else trials.c.search.in_(searches)
    pace = trials.c.seconds * trials.c.width / trials.c.epoch
    own = (
        sa.select(trials.c.search, sa.func.count(), sa.func.sum(_LEFT), sa.func.sum(_LEFT * pace))
        .where(mine, _EARLY, trials.c.epoch > 0, sa.not_(_HELPED))
        .group_by(trials.c.search)
    )
    for search, count, epochs, seconds in connection.execute(own):
        saved = found[search]
        saved.trainings_spared += int(count)
        saved.epochs_spared += int(epochs)
        saved.seconds_spared += float(seconds or 0.0)
    never = (
        sa.select(trials.c.search, sa.func.count(), sa.func.sum(_LEFT))
        .where(mine, _EARLY, trials.c.epoch == 0, sa.not_(_HELPED))
        .group_by(trials.c.search)
    )
    for search, count, epochs in connection.execute(never):
        found[search].trainings_spared += int(count)
        found[search].epochs_spared += int(epochs)
    for row in connection.execute(_helped(mine)).mappings():
        _add(found[row["search"]], row, answers=answers)
    return found


def _helped(mine: "sa.ColumnElement[bool]") -> "sa.Select[tuple[object, ...]]":
    """Select the trials whose curves are not, or not all, their own, with the seconds of all their epochs."""
    columns = [trials.c[name] for name in ("search", "number", "epochs", "epoch", "width", "reused", "state", "extra")]
    took = sa.func.sum(reports.c.seconds).label("took")
    early = sa.case((_EARLY, 1), else_=0).label("early")
    same = sa.and_(reports.c.search == trials.c.search, reports.c.number == trials.c.number)
    return (
        sa.select(*columns, early, took)
        .outerjoin_from(trials, reports, same)
        .where(mine, _HELPED)
        .group_by(*columns, trials.c.reason)
    )


def _add(saved: Savings, row: sa.RowMapping, *, answers: bool) -> None:
    extra, epoch = from_text(row["extra"]), int(row["epoch"])
    took = float(row["took"] or 0.0) * row["width"]
    if row["reused"]:
        spared = epoch - min(epoch, int(extra.get(OWN, 0)))
        saved.trainings_saved += 1
        saved.epochs_saved += spared
        saved.seconds_saved += took * spared / epoch if epoch else 0.0
    elif int(extra[SPARED_EPOCHS]):
        saved.continued += 1
        saved.epochs_saved += int(extra[SPARED_EPOCHS])
        saved.seconds_saved += float(extra.get(SPARED_SECONDS, 0.0))
    if row["early"] and (answers or not row["reused"]):
        left = int(row["epochs"]) - epoch
        saved.trainings_spared += 1
        saved.epochs_spared += left
        saved.seconds_spared += took / epoch * left if epoch else 0.0


def total(parts: Iterable[Savings]) -> Savings:
    """Return the sum."""
    whole = Savings()
    for part in parts:
        for name, value in vars(part).items():
            setattr(whole, name, getattr(whole, name) + value)
    return whole
