"""What a database and its searches amount to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from detol.results import owner
from detol.results.places import search_id
from detol.results.rows import from_text
from detol.results.savings import Savings, savings, total
from detol.results.schema import data_sets, reports, searches, topologies, trials
from detol.results.winner import winner
from detol.search.records import parse_objective


@dataclass(frozen=True)
class SearchRow:
    """One search.

    Args:
        name: of it.
        state: running, finished, or interrupted (by its user, or because its controller died).
        data: name of its data set.
        space: where its candidates come from.
        strategy: what proposes them.
        stopper: what stops trials early.
        objective: the primary one.
        seed: of the search.
        budget: trials asked for; ``None``: no limit.
        epochs: length of a trial's schedule.
        trials: how many there are.
        states: how many are in each state.
        trained: how many were trained here (not refused, not answered).
        reused: how many were answered from the database.
        paused: how many rest at a milestone, and may go on.
        epochs_trained: epochs of all trainings.
        best: ``SEARCH/NUMBER`` of the best (a completed trial, if there is one); empty when none has a score.
        value: its value of the objective.
        seconds: consumed time of the search.
        created: UTC, ISO 8601.
        ended: likewise; empty while it runs.
        host: where its controller runs; empty when none does.
        pid: of its controller.
        continued: of the trained, those that went on from a checkpoint of another search.
        trainings_saved: as of :class:`detol.results.savings.Savings`, and so on.
        epochs_saved: likewise.
        seconds_saved: likewise.
        trainings_spared: likewise.
        epochs_spared: likewise.
        seconds_spared: likewise.
        source: who it was imported from; empty for our own.
    """

    name: str
    state: str
    data: str
    space: str
    strategy: str
    stopper: str
    objective: str
    seed: str
    budget: int | None
    epochs: int | None
    trials: int
    states: dict[str, int]
    trained: int
    reused: int
    paused: int
    epochs_trained: int
    best: str
    value: float | None
    seconds: float
    created: str
    ended: str
    host: str
    pid: int | None
    continued: int = 0
    trainings_saved: int = 0
    epochs_saved: int = 0
    seconds_saved: float = 0.0
    trainings_spared: int = 0
    epochs_spared: int = 0
    seconds_spared: float = 0.0
    source: str = ""


def search_rows(
    connection: sa.Connection, name: str | None = None, *, limit: int | None = None, offset: int = 0
) -> list[SearchRow]:
    """Return all searches, newest first (at most ``limit``, after the first ``offset``), or the one of a name."""
    query = sa.select(searches, data_sets.c.name.label("data_name")).join_from(searches, data_sets)
    counts = sa.select(
        trials.c.search,
        trials.c.state,
        sa.case((trials.c.reused == "", 0), else_=1).label("answered"),
        sa.func.count().label("count"),
        sa.func.sum(trials.c.epoch).label("epochs"),
    ).group_by(trials.c.search, trials.c.state, sa.text("answered"))
    if name is not None:
        found = search_id(connection, name)
        query, counts = query.where(searches.c.id == found), counts.where(trials.c.search == found)
    elif limit is not None:
        shown = sa.select(searches.c.id).order_by(searches.c.id.desc()).limit(limit).offset(offset)
        ids = list(connection.scalars(shown))
        query, counts = query.where(searches.c.id.in_(ids)), counts.where(trials.c.search.in_(ids))
    by_search: dict[int, list[sa.RowMapping]] = {}
    for row in connection.execute(counts).mappings():
        by_search.setdefault(row["search"], []).append(row)
    rows = connection.execute(query.order_by(searches.c.id.desc())).mappings().all()
    saved = savings(connection, [row["id"] for row in rows])
    return [_search_row(connection, row, by_search.get(row["id"], []), saved.get(row["id"], Savings())) for row in rows]


def _search_row(
    connection: sa.Connection, row: sa.RowMapping, counts: list[sa.RowMapping], saved: Savings
) -> SearchRow:
    states: dict[str, int] = {}
    for part in counts:
        states[part["state"]] = states.get(part["state"], 0) + part["count"]
    trained = [part for part in counts if not part["answered"] and part["state"] != "refused"]
    best = winner(connection, trials.c.search == row["id"])
    objective = parse_objective(row["objective"]) if row["objective"] else None
    runs = owner.alive(row)
    dead = row["state"] == "running" and not runs
    same = ("name", "space", "strategy", "stopper", "objective", "seed", "epochs", "created", "ended", "source")
    return SearchRow(
        **{name: row[name] for name in same},
        state="interrupted" if dead else row["state"],
        data=row["data_name"],
        budget=row["trials"],
        trials=sum(states.values()),
        states=states,
        trained=sum(part["count"] for part in trained),
        reused=sum(part["count"] for part in counts if part["answered"]),
        paused=states.get("paused", 0),
        epochs_trained=sum(int(part["epochs"] or 0) for part in counts) - saved.epochs_saved,
        best=f"{row['name']}/{best.number}" if best else "",
        value=None if not best else objective.score(best.score) if objective else best.score,
        seconds=row["consumed"],
        host=row["host"] if runs else "",
        pid=row["pid"] if runs else None,
        **vars(saved),
    )


def stats(connection: sa.Connection) -> Mapping[str, Any]:
    """Return the totals of a database.

    Keys: searches, data_sets, topologies (distinct digests), trials, imported (of them, those from other people),
    states (trials in each), trained, reused, reports, epochs (trained), seconds (consumed by trainings), device_seconds
    (times width), and what was saved: as of :class:`detol.results.savings.Savings`.
    """
    listed = connection.execute(sa.select(trials.c.state, sa.func.count()).group_by(trials.c.state)).all()
    states = {str(state): int(count) for state, count in listed}
    here = sa.and_(trials.c.reused == "", trials.c.state != "refused")
    time = trials.c.seconds * trials.c.width
    done = connection.execute(
        sa.select(sa.func.count(), sa.func.sum(trials.c.seconds), sa.func.sum(time)).where(here)
    ).one()
    saved = total(savings(connection, answers=False).values())
    imported = sa.select(sa.func.count()).select_from(trials).join(searches).where(searches.c.source != "")
    epochs = connection.scalar(sa.select(sa.func.sum(trials.c.epoch)).where(trials.c.state != "refused"))
    return {
        "searches": _count(connection, searches),
        "data_sets": _count(connection, data_sets),
        "topologies": connection.scalar(sa.select(sa.func.count(topologies.c.digest.distinct()))) or 0,
        "trials": sum(states.values()),
        "imported": connection.scalar(imported) or 0,
        "states": states,
        "trained": done[0],
        "reused": saved.trainings_saved,
        "reports": _count(connection, reports),
        "epochs": int(epochs or 0) - saved.epochs_saved,
        "seconds": float(done[1] or 0.0),
        "device_seconds": float(done[2] or 0.0),
        **vars(saved),
    }


def settings_of(connection: sa.Connection, name: str) -> Mapping[str, Any]:
    """Return the settings, versions and objectives of a search, as they were given."""
    found = search_id(connection, name)
    row = connection.execute(sa.select(searches).where(searches.c.id == found)).mappings().one()
    return {key: from_text(row[key]) for key in ("settings", "versions", "objectives", "options")}


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
