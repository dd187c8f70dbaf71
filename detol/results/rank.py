"""Which trials are best: one row for each topology, recipe and data set, however often it was tried or answered.

A topology that was trained with several seeds stands by the mean of its trainings: the best of several is an estimate
that is too high, the more so the more there are. The row names the best of them and shows mean, n and spread.

Trials that started from another's weights have a row of their own: their scores are no scores of the topology alone.

As in a search (:func:`detol.search.scoring.better`), a trial that was stopped early never stands above a completed one,
and of equal ones that with the lower validation log loss is first.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import sqlalchemy as sa

from detol.results.schema import reports, trials
from detol.results.scope import COSTS, FACTS, RANKED, Place, Scope, Which
from detol.results.standing import COLUMNS, Key, Standing, key_of, standing
from detol.results.walk import RESTING, Walk
from detol.results.winner import COMPLETED, LAST_REPORT, log_losses
from detol.search.records import Objective

__all__ = ["COSTS", "FrontRow", "TopRow", "Which", "front", "top"]


@dataclass(frozen=True)
class TopRow:
    """The best trial of one topology under one recipe on one data set; rows stand in the order of ``mean``.

    Args:
        trial: ``SEARCH/NUMBER``.
        digest: of the topology.
        data: name of the data set.
        space: name of the space it came from.
        metric: what ``value``, ``mean`` and ``spread`` are.
        value: of this trial, in the metric's natural direction and unit.
        mean: over all trainings of it among the trials asked for that went as far.
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
        spread: standard deviation over the ``n`` trainings; ``None`` for one.
        source: who it was imported from; empty for our own.
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
    spread: float | None = None
    source: str = ""


@dataclass(frozen=True)
class FrontRow:
    """A trial that no other beats in all objectives at once; ``values`` are natural, by objective.

    The first value is the mean over ``n`` trainings, ``spread`` its standard deviation; the others are of the trial.
    ``inherited`` and ``source``: as in :class:`TopRow`.
    """

    trial: str
    digest: str
    data: str
    space: str
    values: dict[str, float]
    n: int
    inherited: str = ""
    spread: float | None = None
    source: str = ""


def top(connection: sa.Connection, which: Which, limit: int, metric: str | None) -> list[TopRow]:
    """Return the best ``limit`` rows by a metric, by default the primary one of the newest search.

    Completed trials first, then those that were stopped; each by mean.
    """
    scope = Scope(connection, which)
    objective = scope.wanted("score" if metric is None else metric)
    if scope.uniform(objective):
        walk = Walk(connection, scope, [objective])
        listed: Iterator[Standing] = chain(walk.standings([COMPLETED]), walk.standings(RESTING))
    else:
        listed = iter(sorted(_standings(connection, scope, [objective]), key=lambda each: each.place))
    found = _decided(connection, listed, limit)
    texts = _texts(connection, found)
    return [_top_row(each, scope.places[each.best["search"]], objective, texts) for each in found]


def _decided(connection: sa.Connection, listed: Iterator[Standing], limit: int) -> list[Standing]:
    """Return the first ``limit`` of a list in order, equal ones in the order of their log losses."""
    decided: list[Standing] = []
    for _, equal in groupby(listed, key=lambda each: each.place[:-2]):
        group = list(equal)
        if len(group) > 1:
            losses = log_losses(connection, [_place(each) for each in group])
            group.sort(key=lambda each: losses[_place(each)])
        decided += group
        if len(decided) >= limit:
            break
    return decided[:limit]


def _place(found: Standing) -> tuple[int, int]:
    return found.best["search"], found.best["number"]


def front(connection: sa.Connection, which: Which, objectives: Sequence[str]) -> list[FrontRow]:
    """Return the rows that none beats: not worse in each objective and better in one; best in the first one first.

    ``score`` stands for the primary metric of the newest search. Stopped trials count only where none is completed.
    """
    scope = Scope(connection, which)
    wanted = [scope.wanted(text) for text in objectives]
    quick = len(wanted) == 2 and wanted[1].metric in COSTS and wanted[1].minimise and scope.uniform(wanted[0])
    if quick:
        kept = _walked_front(connection, scope, wanted, [COMPLETED]) or _walked_front(
            connection, scope, wanted, RESTING
        )
    else:
        listed = sorted(_standings(connection, scope, wanted), key=lambda each: each.place)
        if any(each.completed for each in listed):
            listed = [each for each in listed if each.completed]
        kept = []
        for each in listed:  # sorted by the first objective, then the next: only an earlier one can beat a later one
            if not any(_beats(other.scores, each.scores) for other in kept):
                kept.append(each)
    return [_front_row(each, scope.places[each.best["search"]], wanted) for each in kept]


def _walked_front(
    connection: sa.Connection, scope: Scope, wanted: Sequence[Objective], states: Sequence[str]
) -> list[Standing]:
    walk = Walk(connection, scope, wanted)
    kept: list[Standing] = []
    for each in walk.standings(states):
        if not any(_beats(other.scores, each.scores) for other in kept[-1:]):
            kept.append(each)
            walk.least = int(each.best[wanted[1].metric])  # not a float: that would keep PostgreSQL from its index
    return kept


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _standings(connection: sa.Connection, scope: Scope, objectives: Sequence[Objective]) -> Iterator[Standing]:
    """Yield the standings of all topologies: every trial is read."""
    groups: dict[Key, list[sa.RowMapping]] = defaultdict(list)
    query = sa.select(*COLUMNS).where(RANKED, scope.condition())
    own = {place.objective.metric for place in scope.places.values()}
    if any(objective.metric not in FACTS and own != {objective.metric} for objective in objectives):
        query = query.add_columns(reports.c.metrics).select_from(trials.outerjoin(reports, LAST_REPORT))
    for row in connection.execute(query.order_by(trials.c.search, trials.c.number)).mappings():
        groups[key_of(row)].append(row)
    for rows in groups.values():
        found = standing(rows, scope, objectives)
        if found is not None:
            yield found


def _texts(connection: sa.Connection, found: Sequence[Standing]) -> dict[tuple[int, int], tuple[str, str]]:
    """Return origin and note of the best trials, by search and number: no index holds them."""
    texts = {}
    for each in found:
        place = _place(each)
        mine = (trials.c.search == place[0], trials.c.number == place[1])
        origin, note = connection.execute(sa.select(trials.c.origin, trials.c.note).where(*mine)).one()
        texts[place] = origin, note
    return texts


def _top_row(
    found: Standing, place: Place, objective: Objective, texts: dict[tuple[int, int], tuple[str, str]]
) -> TopRow:
    best = found.best
    origin, note = texts[best["search"], best["number"]]
    same = ("digest", *COSTS, "epochs", "epoch", "seconds", "state", "recipe", "reused", "inherited")
    return TopRow(
        trial=f"{place.name}/{best['number']}",
        data=place.data,
        space=place.space,
        source=place.source,
        metric=objective.metric,
        value=objective.score(found.value),
        mean=objective.score(found.scores[0]),
        n=max(1, len(found.trainings)),
        spread=found.spread,
        origin=origin,
        note=note,
        **{name: best[name] for name in same},
    )


def _front_row(found: Standing, place: Place, wanted: Sequence[Objective]) -> FrontRow:
    return FrontRow(
        trial=f"{place.name}/{found.best['number']}",
        digest=found.best["digest"],
        data=place.data,
        space=place.space,
        values={o.metric: o.score(score) for o, score in zip(wanted, found.scores, strict=True)},
        n=max(1, len(found.trainings)),
        inherited=found.best["inherited"],
        spread=found.spread,
        source=place.source,
    )
