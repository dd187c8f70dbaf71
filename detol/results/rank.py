"""Which trials are best: one row for each topology, recipe and data set, however often it was tried or answered.

Trials that started from another's weights have a row of their own: their scores are no scores of the topology alone.

As in a search (:func:`detol.search.scoring.better`), a trial that was stopped early never stands above a completed one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from detol.errors import ResultsError, unknown
from detol.results.places import COMPLETED, check_space, data_digest, search_id
from detol.results.reader import SCORED
from detol.results.rows import from_text
from detol.results.schema import costs, data_sets, reports, searches, trials
from detol.search.records import INHERITED, Objective, parse_objective

COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
_FACTS = (*COSTS, "seconds")
_FALLS = ("depth",)  # with what parse_objective says, all costs are minimised


@dataclass(frozen=True)
class TopRow:
    """The best trial of one topology under one recipe on one data set.

    Args:
        trial: ``SEARCH/NUMBER``.
        digest: of the topology.
        data: name of the data set.
        space: name of the space it came from.
        metric: what ``value`` and ``mean`` are.
        value: of this trial, in the metric's natural direction and unit.
        mean: over all trainings of it among the trials asked for that ended in the same state.
        n: how many trainings that is; answers from the database are not counted again.
        params: parameters; ``None`` where unknown, as the other costs.
        multiply_adds: for one sample forwards.
        activation_bytes: for one sample in training.
        depth: operations on the longest path.
        epochs: length of its schedule.
        epoch: epochs it was trained.
        seconds: its training took.
        state: completed or stopped.
        origin: how it came about.
        note: name of a reference.
        recipe: digest of its recipe.
        reused: where its result comes from, when it was not trained.
        inherited: number of the trial of its search whose weights it started from; empty for a training from scratch.
    """

    trial: str
    digest: str
    data: str
    space: str
    metric: str
    value: float
    mean: float
    n: int
    params: int | None
    multiply_adds: int | None
    activation_bytes: int | None
    depth: int | None
    epochs: int
    epoch: int
    seconds: float | None
    state: str
    origin: str
    note: str
    recipe: str
    reused: str
    inherited: str = ""


@dataclass(frozen=True)
class FrontRow:
    """A trial that no other beats in all objectives at once; ``values`` are natural, by objective.

    ``inherited``: as in :class:`TopRow`.
    """

    trial: str
    digest: str
    data: str
    space: str
    values: dict[str, float]
    n: int
    inherited: str = ""


@dataclass(frozen=True)
class Which:
    """Which trials are meant: on a data set (name or digest), of a space, of a search; ``None``: all."""

    data: str | None = None
    space: str | None = None
    search: str | None = None

    def condition(self, connection: sa.Connection) -> "sa.ColumnElement[bool]":
        """Return the condition on ``trials`` joined with ``searches``; ``ResultsError`` for an unknown name."""
        found: list[sa.ColumnElement[bool]] = [trials.c.state.in_(SCORED), trials.c.score.is_not(None)]
        if self.data is not None:
            found.append(trials.c.data == data_digest(connection, self.data))
        if self.space is not None:
            check_space(connection, self.space)
            found.append(searches.c.space == self.space)
        if self.search is not None:
            found.append(trials.c.search == search_id(connection, self.search))
        return sa.and_(*found)


_SELECT = (
    sa.select(
        trials,
        searches.c.name.label("search_name"),
        searches.c.space,
        searches.c.objective,
        data_sets.c.name.label("data_name"),
        costs.c.params,
        costs.c.multiply_adds,
        costs.c.activation_bytes,
        costs.c.depth,
        reports.c.metrics,
    )
    .join_from(trials, searches, searches.c.id == trials.c.search)
    .join(data_sets, data_sets.c.digest == trials.c.data)
    .outerjoin(costs, sa.and_(costs.c.topology == trials.c.topology, costs.c.data == trials.c.data))
    .outerjoin(
        reports,
        sa.and_(
            reports.c.search == trials.c.search, reports.c.number == trials.c.number, reports.c.epoch == trials.c.epoch
        ),
    )
)


@dataclass
class _Group:
    """What is known of one topology under one recipe on one data set; ``trainings``: those in the state of the best."""

    best: sa.RowMapping
    scores: tuple[float, ...]
    trainings: list[float]

    @property
    def completed(self) -> bool:
        return bool(self.best["state"] == COMPLETED)


def usual_objective(connection: sa.Connection, which: Which) -> Objective:
    """Return the primary objective of the newest search among those meant; scores of another are not comparable."""
    query = sa.select(searches.c.objective).join_from(trials, searches).where(which.condition(connection))
    text = connection.scalar(query.order_by(searches.c.id.desc()).limit(1))
    return parse_objective(text) if text else Objective("score")


def objective_of(text: str) -> Objective:
    """Read an objective of a query: as :func:`~detol.search.records.parse_objective`, and ``depth`` is minimised."""
    objective = parse_objective(text)
    return Objective(objective.metric, minimise=True) if text in _FALLS else objective


def top(connection: sa.Connection, which: Which, limit: int, metric: str | None) -> list[TopRow]:
    """Return the best ``limit`` rows by a metric, by default the primary one of the newest search.

    Completed trials first, then those that were stopped; each by value.
    """
    objective = _wanted(connection, which, "score" if metric is None else metric)
    groups = sorted(_groups(connection, which, [objective]), key=lambda group: (not group.completed, -group.scores[0]))
    return [_top_row(group, objective) for group in groups[:limit]]


def front(connection: sa.Connection, which: Which, objectives: Sequence[str]) -> list[FrontRow]:
    """Return the rows that none beats: not worse in each objective and better in one; best in the first one first.

    ``score`` stands for the primary metric of the newest search. Stopped trials count only where none is completed.
    """
    wanted = [_wanted(connection, which, text) for text in objectives]
    groups = sorted(_groups(connection, which, wanted), key=lambda group: group.scores, reverse=True)
    if any(group.completed for group in groups):
        groups = [group for group in groups if group.completed]
    kept: list[_Group] = []
    for group in groups:  # sorted by the first objective, then the next: only an earlier one can beat a later one
        if not any(_beats(other.scores, group.scores) for other in kept):
            kept.append(group)
    return [
        FrontRow(
            trial=f"{group.best['search_name']}/{group.best['number']}",
            digest=group.best["digest"],
            data=group.best["data_name"],
            space=group.best["space"],
            values={o.metric: o.score(score) for o, score in zip(wanted, group.scores, strict=True)},
            n=max(1, len(group.trainings)),
            inherited=_inherited(group.best),
        )
        for group in kept
    ]


def _wanted(connection: sa.Connection, which: Which, text: str) -> Objective:
    """Return the objective that a person names; ``ResultsError`` with near names when no trial meant has it."""
    if text == "score":
        return usual_objective(connection, which)
    objective = objective_of(text)
    if objective.metric in _FACTS:
        return objective
    query = _SELECT.with_only_columns(searches.c.objective, reports.c.metrics).where(which.condition(connection))
    known = set(_FACTS)
    rows = connection.execute(query).all()
    for own, metrics in rows:
        known |= {parse_objective(own).metric} if own else set()
        known |= set(from_text(metrics)) if metrics else set()
        if objective.metric in known:
            return objective
    if rows:
        raise unknown("metric", objective.metric, known, ResultsError)
    return objective  # nothing has a score yet, so nobody can tell


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _groups(connection: sa.Connection, which: Which, objectives: Sequence[Objective]) -> Iterable[_Group]:
    groups: dict[tuple[str, str, str, bool], _Group] = {}
    rows = connection.execute(_SELECT.where(which.condition(connection)).order_by(trials.c.search, trials.c.number))
    for row in rows.mappings():
        scores = tuple(_score(row, objective) for objective in objectives)
        if not all(map(math.isfinite, scores)):
            continue
        key = (row["digest"], row["recipe"], row["data"], bool(_inherited(row)))
        new = _Group(row, scores, [])
        group = groups.setdefault(key, new)
        if new.completed != group.completed:  # never a winner, nor a mean, of other fidelity
            if group.completed:
                continue
            group = groups[key] = new
        # The trained trial stands for its answers, which have the same scores.
        if scores > group.scores or (scores == group.scores and group.best["reused"] and not row["reused"]):
            group.best, group.scores = row, scores
        if not row["reused"]:
            group.trainings.append(scores[0])
    return groups.values()


def _inherited(row: sa.RowMapping) -> str:
    return str(from_text(row["extra"])[INHERITED]) if INHERITED in row["extra"] else ""


def _score(row: sa.RowMapping, objective: Objective) -> float:
    """Return a trial's value of an objective so that more is better; NaN when it has none."""
    own = parse_objective(row["objective"]) if row["objective"] else Objective("score")
    if own == objective:
        return float(row["score"])
    if objective.metric in _FACTS:
        value = row[objective.metric]
    elif own.metric == objective.metric:
        value = own.score(row["score"])
    else:
        value = from_text(row["metrics"]).get(objective.metric) if row["metrics"] else None
    return math.nan if value is None else objective.score(float(value))


def _top_row(group: _Group, objective: Objective) -> TopRow:
    best = group.best
    mean = sum(group.trainings) / len(group.trainings) if group.trainings else group.scores[0]
    same = ("digest", "space", *COSTS, "epochs", "epoch", "seconds", "state", "origin", "note", "recipe", "reused")
    return TopRow(
        trial=f"{best['search_name']}/{best['number']}",
        data=best["data_name"],
        metric=objective.metric,
        value=objective.score(group.scores[0]),
        mean=objective.score(mean),
        n=max(1, len(group.trainings)),
        inherited=_inherited(best),
        **{name: best[name] for name in same},
    )
