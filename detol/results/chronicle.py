"""A whole search as a report reads it: each trial with its times, costs and decisions, and the searches beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from detol.graph import codec
from detol.graph.topology import Topology
from detol.results.browse import PRICED, objective_of_search
from detol.results.places import search_id
from detol.results.rank import COSTS
from detol.results.rows import from_text
from detol.results.schema import costs, data_sets, parents, recipes, reports, searches, topologies, trials
from detol.search.records import INHERITED, Objective, State, parse_objective
from detol.search.spared import CHECKPOINT, CONTINUED, OWN, SPARED_EPOCHS, SPARED_SECONDS

_CHUNK = 500


@dataclass(frozen=True)
class Record:
    """A trial without its topology and its curve.

    Args:
        number: of the trial.
        state: where it stands.
        origin: how its candidate came about.
        note: of a reference: its name.
        reason: why it ended as it did.
        digest: of its topology.
        parents: numbers of the trials it derives from.
        decisions: by name.
        value: of the primary objective in its natural direction; ``None`` without a score.
        values: objectives, costs and seconds by name, in natural units; what is unknown is left out.
        epoch: epochs trained.
        epochs: of a training to the end.
        seconds: it was trained, all attempts; 0 when it was answered.
        rested: seconds of those that had passed when it last came to rest; 0 when it never did.
        rest: epoch at which it last came to rest; 0: never.
        width: ranks.
        reused: ``SEARCH/NUMBER`` that answered it; empty when it was trained.
        continued: ``SEARCH/NUMBER`` of the earlier training whose curve tells its first epochs; mostly empty.
        spared_epochs: of its curve, that were not trained for it: all of an answered trial's, those of a continued one.
        spared_seconds: device seconds (times width) that these took where they were trained.
        inherited: whether it started from another's weights.
        seat: host and number of the worker of its rank 0; empty where that is not known.
        created: UTC, ISO 8601.
        ended: likewise; empty while it has not.
    """

    number: int
    state: State
    origin: str
    note: str
    reason: str
    digest: str
    parents: tuple[int, ...]
    decisions: Mapping[str, Any]
    value: float | None
    values: Mapping[str, float]
    epoch: int
    epochs: int
    seconds: float
    rested: float
    rest: int
    width: int
    reused: str
    continued: str
    spared_epochs: int
    spared_seconds: float
    inherited: bool
    seat: str
    created: str
    ended: str


@dataclass(frozen=True)
class Identity:
    """What a search was of, so that it can be repeated.

    Args:
        data: digest of the data set.
        described: what was written down of the data set.
        recipe: digest of the recipe.
        recipe_settings: its settings.
        config: digest of the whole: equal for searches that would do the same.
        epochs: of a training to the end; ``None``: not known.
    """

    data: str
    described: Mapping[str, Any]
    recipe: str
    recipe_settings: Mapping[str, Any]
    config: str
    epochs: int | None


def records(connection: sa.Connection, search: str) -> list[Record]:
    """Return all trials of a search by number; ``ResultsError`` when there is no such search."""
    found = search_id(connection, search)
    objectives = _objectives(connection, found)
    lines: dict[int, list[int]] = {}
    query = sa.select(parents).where(parents.c.search == found).order_by(parents.c.number, parents.c.slot)
    for line in connection.execute(query).mappings():
        lines.setdefault(line["number"], []).append(line["parent"])
    listed = (
        sa.select(trials, *(costs.c[name] for name in COSTS))
        .outerjoin_from(trials, costs, PRICED)
        .where(trials.c.search == found)
        .order_by(trials.c.number)
    )
    rows = connection.execute(listed).mappings().all()
    extras = {row["number"]: from_text(row["extra"]) for row in rows}
    rests = {number: int(extra[CHECKPOINT]) for number, extra in extras.items() if extra.get(CHECKPOINT)}
    answered = {row["number"]: row["epoch"] for row in rows if row["reused"]}
    taken = _seconds_until(connection, found, {**rests, **answered})
    return [
        _record(
            row,
            objectives,
            tuple(lines.get(row["number"], ())),
            rest=rests.get(row["number"], 0),
            rested=0.0 if row["reused"] else taken.get(row["number"], 0.0),
            **_spared(row, extras[row["number"]], taken.get(row["number"], 0.0)),
            inherited=INHERITED in extras[row["number"]],
            seat=_seat(extras[row["number"]]),
        )
        for row in rows
    ]


def _objectives(connection: sa.Connection, search: int) -> list[Objective]:
    listed = connection.scalar(sa.select(searches.c.objectives).where(searches.c.id == search))
    return [parse_objective(text) for text in from_text(listed or "[]")] or [objective_of_search(connection, search)]


def _record(row: sa.RowMapping, objectives: Sequence[Objective], lines: tuple[int, ...], **more: Any) -> Record:
    values = {name: float(row[name]) for name in (*COSTS, "seconds") if row[name] is not None}
    if row["scores"]:
        scores = zip(objectives, from_text(row["scores"]), strict=False)
        values |= {objective.metric: objective.score(score) for objective, score in scores}
    same = ("number", "origin", "note", "reason", "digest", "epoch", "epochs", "width", "reused", "created", "ended")
    return Record(
        **{name: row[name] for name in same},
        state=State(row["state"]),
        parents=lines,
        decisions=from_text(row["decisions"]),
        value=None if row["score"] is None else objectives[0].score(row["score"]),
        values=values,
        seconds=row["seconds"] or 0.0,
        **more,
    )


def _seat(extra: Mapping[str, Any]) -> str:
    return f"{extra.get('host', '')}/{extra['worker']}" if "worker" in extra else ""


def _spared(row: sa.RowMapping, extra: Mapping[str, Any], taken: float) -> dict[str, Any]:
    """Return what of a trial's curve was not trained for it; ``taken``: the seconds of its epochs."""
    if row["reused"]:
        epochs = row["epoch"] - min(row["epoch"], int(extra.get(OWN, 0)))
        seconds = taken * row["width"] * epochs / row["epoch"] if row["epoch"] else 0.0
        return {"continued": "", "spared_epochs": epochs, "spared_seconds": seconds}
    epochs, seconds = int(extra.get(SPARED_EPOCHS, 0)), float(extra.get(SPARED_SECONDS, 0.0))
    return {"continued": str(extra.get(CONTINUED, "")), "spared_epochs": epochs, "spared_seconds": seconds}


def _seconds_until(connection: sa.Connection, search: int, epochs: Mapping[int, int]) -> dict[int, float]:
    """Return the seconds of each trial up to an epoch of its own."""
    taken = dict.fromkeys(epochs, 0.0)
    query = sa.select(reports.c.number, reports.c.epoch, reports.c.seconds).where(reports.c.search == search)
    for number, epoch, seconds in connection.execute(query) if epochs else ():
        if epoch <= epochs.get(number, 0):
            taken[number] += seconds or 0.0
    return taken


def identity(connection: sa.Connection, search: str) -> Identity:
    """Return what a search was of."""
    found = search_id(connection, search)
    query = (
        sa.select(searches, data_sets.c.description, recipes.c.settings.label("recipe_settings"))
        .join_from(searches, data_sets)
        .join(recipes, recipes.c.digest == searches.c.recipe)
        .where(searches.c.id == found)
    )
    row = connection.execute(query).mappings().one()
    return Identity(
        data=row["data"],
        described=from_text(row["description"] or "{}"),
        recipe=row["recipe"],
        recipe_settings=from_text(row["recipe_settings"]),
        config=row["config_digest"],
        epochs=row["epochs"],
    )


def kin(connection: sa.Connection, search: str, strategy: str) -> list[str]:
    """Return the searches by a strategy with the data, space, recipe, objective and epochs of one; itself included."""
    found = search_id(connection, search)
    same = ("data", "space", "recipe", "objective", "epochs")
    other = searches.alias()
    query = (
        sa.select(other.c.name)
        .join_from(searches, other, sa.and_(*(searches.c[name] == other.c[name] for name in same)))
        .where(searches.c.id == found, other.c.strategy == strategy)
        .order_by(other.c.id)
    )
    return list(connection.scalars(query))


def drawn(connection: sa.Connection, search: str, numbers: Sequence[int]) -> dict[int, Topology]:
    """Return the topologies of some trials, by number; equal ones are one object."""
    found = search_id(connection, search)
    made: dict[str, Topology] = {}
    result: dict[int, Topology] = {}
    for start in range(0, len(numbers), _CHUNK):
        query = (
            sa.select(trials.c.number, topologies.c.key, topologies.c.body)
            .join_from(trials, topologies)
            .where(trials.c.search == found, trials.c.number.in_(numbers[start : start + _CHUNK]))
        )
        for number, key, body in connection.execute(query):
            if key not in made:
                made[key] = codec.from_json(body)
            result[number] = made[key]
    return result
