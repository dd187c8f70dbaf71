"""Trials read from the database."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import sqlalchemy as sa

from detol.results.rows import Row, to_trial
from detol.results.schema import parents, reports, searches, topologies, trials
from detol.search.records import State, Trial

SCORED = tuple(str(state) for state in State if state.scored)
"""States that carry a score, as the database writes them."""


def answers(trial: Trial) -> bool:
    """Return whether a trial can answer for another of the same topology: trained here, ended, and scored."""
    return trial.state.scored and trial.scores is not None and not trial.reused


def placed(trial: Trial, search: str) -> Trial:
    """Return a trial whose ``reused`` says where it stands."""
    return replace(trial, reused=f"{search}/{trial.number}")


def read_trials(connection: sa.Connection, which: "sa.ColumnElement[bool]") -> Iterator[Trial]:
    """Yield the trials of one search that fulfil a condition on ``trials``, by number."""
    rows = connection.execute(
        sa.select(trials, topologies.c.body).join_from(trials, topologies).where(which).order_by(trials.c.number)
    ).mappings()
    curves: dict[int, list[Row]] = defaultdict(list)
    query = sa.select(reports).join_from(reports, trials).where(which).order_by(reports.c.number, reports.c.epoch)
    for report in connection.execute(query).mappings():
        curves[report["number"]].append(report)
    lines: dict[int, list[int]] = defaultdict(list)
    query = sa.select(parents).join_from(parents, trials).where(which).order_by(parents.c.number, parents.c.slot)
    for line in connection.execute(query).mappings():
        lines[line["number"]].append(line["parent"])
    for row in rows:
        yield to_trial(row, lines.get(row["number"], ()), curves.get(row["number"], ()))


_KNOWN = (
    sa.select(trials.c.search, trials.c.number, searches.c.name)
    .join_from(trials, searches)
    .where(
        trials.c.digest == sa.bindparam("digest"),
        trials.c.recipe == sa.bindparam("recipe"),
        trials.c.data == sa.bindparam("data"),
        trials.c.epochs == sa.bindparam("epochs"),
        trials.c.state.in_(SCORED),
        trials.c.scores.is_not(None),
        trials.c.reused == "",
    )
    .order_by(trials.c.search, trials.c.number)
)


def known(connection: sa.Connection, digest: str, recipe: str, data: str, epochs: int) -> list[Trial]:
    """Return the trained, scored trials of all searches with these digests; ``reused`` says where each stands."""
    values = {"digest": digest, "recipe": recipe, "data": data, "epochs": epochs}
    return [
        placed(one(connection, search, number), name) for search, number, name in connection.execute(_KNOWN, values)
    ]


def one(connection: sa.Connection, search: int, number: int) -> Trial:
    """Return one trial by the id of its search and its number; ``StopIteration`` when there is none."""
    return next(read_trials(connection, sa.and_(trials.c.search == search, trials.c.number == number)))
