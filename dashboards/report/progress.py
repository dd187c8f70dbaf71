"""Best so far against trials, epochs and time, beside what random search reaches with as much.

The band is the bootstrap of a recorded random search: its trials are drawn with replacement, in sequences, and after
each budget the best so far is noted (the estimate of Dodge et al. 2019, "Show Your Work", EMNLP, equation 6, with its
distribution rather than its mean alone). After k trials the share q of the sequences lies below the value at which the
share ``q**(1/k)`` of the random trials does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.dashboards.report.facts import Facts, look_of
from detol.dashboards.report.picture import Axis, Band, Dots, Line, Mark, Picture
from detol.dashboards.web.figures import better_way
from detol.results.query import Record
from detol.search.records import Objective, State

Array = NDArray[np.float64]
LEAST = 10
"""Random trials with a value below which there is no band."""
SEQUENCES, GRID, DRAWS = 1000, 80, 2_000_000
"""Sequences, budgets at which they are looked at, and draws at most: of long searches fewer sequences are drawn."""
QUANTILES = (0.05, 0.5, 0.95)
WAYS = ("trials", "epochs", "time")


@dataclass(frozen=True)
class Chance:
    """What random search reaches: at each budget of ``x`` the quantiles ``low``, ``middle``, ``high`` of its best."""

    x: Array
    low: Array
    middle: Array
    high: Array


def pictures(facts: Facts) -> list[Picture]:
    """Return the three pictures of the best so far."""
    pool = [record for records in facts.random.values() for record in records if _counts(record)]
    return [_picture(facts, way, pool) for way in WAYS]


def _counts(record: Record) -> bool:
    return record.state.final and record.state is not State.REFUSED and not record.inherited


def spent(facts: Facts, way: str) -> list[float]:
    """Return what was spent when each trial of ``facts.ended`` had ended: trials, epochs trained, or seconds."""
    if way == "time":
        return [facts.clock(record.ended) for record in facts.ended]
    each = [1.0 if way == "trials" else float(record.epoch - record.spared_epochs) for record in facts.ended]
    return [float(total) for total in np.cumsum(each)]


def chance(scores: Array, costs: Array, *, seed: int = 0, sequences: int = SEQUENCES) -> Chance:
    """Return the best so far of random search against its budget.

    Args:
        scores: of its trials, more is better; minus infinity for those without one.
        costs: of each, > 0, in the unit of the budget.
        seed: of the drawing.
        sequences: how many are drawn, each as long as there are trials.
    """
    count = len(scores)
    sequences = min(sequences, max(100, DRAWS // count))
    drawn = np.random.default_rng(seed).integers(count, size=(sequences, count))
    best = np.maximum.accumulate(scores[drawn], axis=1)
    until = np.cumsum(costs[drawn], axis=1)
    grid = np.linspace(costs.mean(), costs.sum(), min(GRID, count))
    done = np.array([(until <= budget + 1e-9).sum(axis=1) for budget in grid])
    at = np.where(done > 0, best[np.arange(sequences), np.maximum(done - 1, 0)], -np.inf)
    low, middle, high = np.quantile(at, QUANTILES, axis=1, method="lower")
    return Chance(grid, low, middle, high)


def band(pool: Sequence[Record], objective: Objective, way: str, speed: float) -> Chance | None:
    """Return the band of random trials, or ``None`` when there are too few.

    Args:
        pool: random trials.
        objective: the primary one.
        way: trials, epochs or time.
        speed: device seconds that pass in one second of the search.
    """
    done = [r for r in pool if r.state is State.COMPLETED and r.value is not None]
    if len(done) < LEAST:
        return None
    scores = np.array([_score(record, objective) for record in pool])
    if way == "trials":
        costs = np.ones(len(pool))
    elif way == "epochs":
        costs = np.array([float(record.epoch) for record in pool])
    else:
        costs = np.array([_device_seconds(record) for record in pool])
        costs = costs / max(speed, 1e-9)
    if costs.sum() <= 0:
        return None
    return chance(scores, costs)


def _device_seconds(record: Record) -> float:
    """Return what a training took, wherever it was done."""
    return record.seconds * record.width + record.spared_seconds


def _score(record: Record, objective: Objective) -> float:
    """Return the score of a trial that trained to its end; others cost, and find nothing."""
    if record.state is not State.COMPLETED or record.value is None:
        return -np.inf
    return objective.score(record.value)


def _picture(facts: Facts, way: str, pool: Sequence[Record]) -> Picture:
    spending = spent(facts, way)
    at = {record.number: place for record, place in zip(facts.ended, spending, strict=True)}
    axis, divide = _axis(way, spending)
    marks: list[Mark] = []
    found = band(pool, facts.first, way, _speed(facts))
    if found is not None:
        marks += _band(found, facts.first, divide, max(spending, default=0.0))
    dots: dict[str, list[Record]] = {}
    for record in facts.completed:
        if record.number in at:
            dots.setdefault(look_of(record), []).append(record)
    for look, records in dots.items():
        marks.append(
            Dots(
                [at[r.number] / divide for r in records],
                [_value(r) for r in records],
                look,
                look,
                [facts.say(r) for r in records],
                [r.number for r in records],
            )
        )
    marks.append(_best(facts, at, divide, max(spending, default=0.0)))
    return Picture(
        key=f"best-by-{way}",
        title=f"best so far against {way}",
        x=axis,
        y=_values(facts, marks),
        marks=marks,
        note=_note(facts, found is not None) if way == "trials" else "",
    )


def _values(facts: Facts, marks: Sequence[Mark]) -> Axis:
    """Return the axis of values, close around the lines: a few bad trials would press them against an edge."""
    lines = [float(value) for mark in marks if isinstance(mark, Line) for value in mark.y if value is not None]
    lines += [float(value) for mark in marks if isinstance(mark, Band) for value in (*mark.low, *mark.high)]
    done = [_value(record) for record in facts.completed]
    lines += np.quantile(done, (0.25, 0.75)).tolist() if done else []
    low, high = min(lines, default=0.0), max(lines, default=1.0)
    room = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
    return Axis(better_way(facts.first), low=low - room, high=high + room)


def _axis(way: str, spending: Sequence[float]) -> tuple[Axis, float]:
    """Return the axis of a budget, and what its values are divided by."""
    if way == "trials":
        return Axis("trials that ended", low=0, whole=True), 1.0
    if way == "epochs":
        return Axis("epochs trained", low=0, whole=True), 1.0
    longest = max(spending, default=0.0)
    for unit, name, least in ((3600.0, "hours", 7200), (60.0, "minutes", 300), (1.0, "seconds", 0)):
        if longest >= least:
            return Axis(f"{name} of searching", low=0), unit
    raise AssertionError


def _best(facts: Facts, at: dict[int, float], divide: float, last: float) -> Line:
    """Return the line of the best so far, of the trials that trained to their end."""
    done = {record.number for record in facts.completed}
    rises: list[Record] = []
    for record in facts.ended:
        if record.number in done and (not rises or _better(facts.first, record, rises[-1])):
            rises.append(record)
    x = [at[record.number] / divide for record in rises]
    y = [_value(record) for record in rises]
    say = [facts.say(record, "the best so far") for record in rises]
    numbers = [record.number for record in rises]
    if rises:
        x, y, say = [*x, last / divide], [*y, y[-1]], [*say, say[-1]]
        numbers.append(numbers[-1])
    return Line(x, y, "best", "best so far", say, numbers, steps=True)


def _better(objective: Objective, record: Record, other: Record) -> bool:
    return objective.score(_value(record)) > objective.score(_value(other))


def _value(record: Record) -> float:
    assert record.value is not None
    return record.value


def _speed(facts: Facts) -> float:
    """Return the device seconds of the search that pass in one of its seconds, reused trials left out."""
    used = sum(record.seconds * record.width for record in facts.records)
    passed = max((facts.clock(record.ended) for record in facts.ended), default=0.0)
    return used / passed if used and passed else float(max(1, facts.workers))


def _band(found: Chance, objective: Objective, divide: float, last: float) -> list[Mark]:
    """Return the marks of a band, as far as the search itself came and where it has a value."""
    seen = np.isfinite(found.low) & (found.x <= max(last, found.x[0]) * 1.02)
    x: Any = (found.x[seen] / divide).tolist()
    low, middle, high = ([objective.score(v) for v in part[seen]] for part in (found.low, found.middle, found.high))
    if objective.minimise:
        low, high = high, low
    if not x:
        return []
    return [
        Band(x, low, high, "random", "random search, 5 to 95 %"),
        Line(x, middle, "random", "its median"),
    ]


def _note(facts: Facts, banded: bool) -> str:
    line = "The line is the best of the trials that trained to their end, in the order in which they ended."
    if banded:
        names, own = list(facts.random), facts.row.name in facts.random
        where = ", ".join(names[:4]) + (" and others" if len(names) > 4 else "")
        whose = "this search itself, its trials drawn anew" if own and len(names) == 1 else where
        return f"{line} Band: 5 to 95 % of {SEQUENCES:,} sequences of random trials of {whose}, drawn with replacement."
    return (
        f"{line} There is no band of random search: the database holds no random search of at least {LEAST} completed "
        "trials with the same data, space, recipe and epochs."
    )
