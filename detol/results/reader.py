"""Trials read from the database."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from detol.results.rows import Row, to_trial
from detol.results.schema import parents, reports, searches, topologies, trials
from detol.search.records import State, Trial
from detol.search.spared import trained

SCORED = tuple(str(state) for state in State if state.scored)
"""States that carry a score, as the database writes them."""

ANSWERS = tuple(str(state) for state in State if state.scored and state.final)
"""Those that answer for other trials: what rests may still come further."""

# Statements are made once: making one costs more than running it.
_TRIALS = sa.select(trials, topologies.c.body).join_from(trials, topologies)
_ALL = _TRIALS.where(trials.c.search == sa.bindparam("of")).order_by(trials.c.number)
_ONE = _TRIALS.where(trials.c.search == sa.bindparam("of"), trials.c.number == sa.bindparam("only"))
_REPORTS = sa.select(reports).where(reports.c.search == sa.bindparam("of"))
_ALL_REPORTS = _REPORTS.order_by(reports.c.number, reports.c.epoch)
_ITS_REPORTS = _REPORTS.where(reports.c.number == sa.bindparam("only")).order_by(reports.c.epoch)
_PARENTS = sa.select(parents).where(parents.c.search == sa.bindparam("of"))
_ALL_PARENTS = _PARENTS.order_by(parents.c.number, parents.c.slot)
_ITS_PARENTS = _PARENTS.where(parents.c.number == sa.bindparam("only")).order_by(parents.c.slot)
_SAME = (
    trials.c.digest == sa.bindparam("digest"),
    trials.c.recipe == sa.bindparam("recipe"),
    trials.c.data == sa.bindparam("data"),
    trials.c.scores.is_not(None),
    trials.c.reused == "",
)
_AS_LONG = trials.c.epochs == sa.bindparam("epochs")


def _about(*conditions: "sa.ColumnElement[bool]") -> tuple["sa.Select[Any]", "sa.Select[Any]", "sa.Select[Any]"]:
    """Return the statements for the trials that meet all conditions, for their reports, and for their parents."""
    found = (
        sa.select(trials, topologies.c.body, searches.c.name)
        .join_from(trials, topologies)
        .join(searches, searches.c.id == trials.c.search)
        .where(*conditions)
        .order_by(trials.c.search, trials.c.number)
    )
    theirs = []
    for table, order in ((reports, reports.c.epoch), (parents, parents.c.slot)):
        same = sa.and_(table.c.search == trials.c.search, table.c.number == trials.c.number)
        theirs.append(sa.select(table).join_from(trials, table, same).where(*conditions).order_by(order))
    return found, theirs[0], theirs[1]


_KNOWN = {
    (unfinished, any_length): _about(
        *_SAME, trials.c.state.in_(SCORED if unfinished else ANSWERS), *(() if any_length else (_AS_LONG,))
    )
    for unfinished in (False, True)
    for any_length in (False, True)
}


def answers(trial: Trial, *, unfinished: bool = False) -> bool:
    """Return whether a trial can answer for another of the same topology: trained here from scratch, ended, scored.

    ``unfinished``: one that rests can, too, as far as it has come.
    """
    # Of one that rests by another's curve alone nothing was trained.
    there = trial.state.final or (unfinished and trained(trial) > 0)
    scored = trial.state.scored and there and trial.scores is not None
    return scored and not trial.reused and not trial.inherited


def placed(trial: Trial, search: str) -> Trial:
    """Return a trial whose ``reused`` says where it stands."""
    return replace(trial, reused=f"{search}/{trial.number}")


def all_trials(connection: sa.Connection, search: int) -> Iterator[Trial]:
    """Yield the trials of a search, by its id, in the order of their numbers."""
    of = {"of": search}
    curves: dict[int, list[Row]] = defaultdict(list)
    for report in connection.execute(_ALL_REPORTS, of).mappings():
        curves[report["number"]].append(report)
    lines: dict[int, list[int]] = defaultdict(list)
    for line in connection.execute(_ALL_PARENTS, of).mappings():
        lines[line["number"]].append(line["parent"])
    for row in connection.execute(_ALL, of).mappings():
        yield to_trial(row, lines.pop(row["number"], ()), curves.pop(row["number"], ()))


def one_trial(connection: sa.Connection, search: int, number: int) -> Trial | None:
    """Return one trial by the id of its search and its number, ``None`` when there is none."""
    row = connection.execute(_ONE, {"of": search, "only": number}).mappings().first()
    return None if row is None else _complete(connection, row)


def known(
    connection: sa.Connection,
    digest: str,
    recipe: str,
    data: str,
    epochs: int,
    *,
    unfinished: bool = False,
    any_length: bool = False,
) -> list[Trial]:
    """Return the trained, scored trials of all searches with these digests; ``reused`` says where each stands.

    ``unfinished``: those that rest as well. ``any_length``: whatever the length of their schedule.
    """
    values: dict[str, str | int] = {"digest": digest, "recipe": recipe, "data": data}
    if not any_length:
        values["epochs"] = epochs
    which, curves, lines = _KNOWN[unfinished, any_length]
    rows = connection.execute(which, values).mappings().all()
    if not rows:
        return []
    told: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for report in connection.execute(curves, values).mappings():
        told[report["search"], report["number"]].append(report)
    of: dict[tuple[int, int], list[int]] = defaultdict(list)
    for line in connection.execute(lines, values).mappings():
        of[line["search"], line["number"]].append(line["parent"])
    keys = [(row["search"], row["number"]) for row in rows]
    found = [(to_trial(row, of[key], told[key]), row["name"]) for row, key in zip(rows, keys, strict=True)]
    return [placed(trial, name) for trial, name in found if answers(trial, unfinished=unfinished)]


def _complete(connection: sa.Connection, row: Row) -> Trial:
    which = {"of": row["search"], "only": row["number"]}
    lines = [line["parent"] for line in connection.execute(_ITS_PARENTS, which).mappings()]
    return to_trial(row, lines, connection.execute(_ITS_REPORTS, which).mappings().all())
