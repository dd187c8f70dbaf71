"""What is known of a search, read once: its pictures and its page are made of this."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from detol.dashboards.web.axis import short
from detol.dashboards.web.figures import name_of
from detol.dashboards.web.words import duration
from detol.errors import UsageError
from detol.results.browse import LARGEST_PAGE
from detol.results.query import Identity, LineRow, Query, Record, SearchRow
from detol.search.records import Objective, State, parse_objective

Curves = Mapping[int, Sequence[tuple[int, float]]]

RANDOM = "random"
BREAK = 60.0
"""Seconds without an open trial beyond which the search counts as having been interrupted."""


@dataclass(frozen=True)
class Facts:
    """One search.

    Args:
        row: its totals.
        records: its trials by number.
        objectives: the primary one first.
        identity: what it was of.
        settings: it was started with.
        versions: it ran on.
        summary: what it said at its end; empty when it has not ended.
        workers: how many ranks could train at once; 0: not known.
        lineage: of the winner.
        curves: (epoch, value) of each trial, by its number.
        random: trials of random searches that are otherwise alike, by the name of the search.
        lost: of trials that went on with fewer ranks, which died and how many were left, by number.
    """

    row: SearchRow
    records: Sequence[Record]
    objectives: Sequence[Objective]
    identity: Identity
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    summary: Mapping[str, Any]
    workers: int
    lineage: Sequence[LineRow]
    curves: Curves
    random: Mapping[str, Sequence[Record]]
    lost: Mapping[int, str] = field(default_factory=dict)

    @property
    def first(self) -> Objective:
        """The primary objective."""
        return self.objectives[0]

    @property
    def winner(self) -> Record:
        """The trial that the search found."""
        number = int(self.row.best.rpartition("/")[2])
        return next(record for record in self.records if record.number == number)

    @cached_property
    def scored(self) -> list[Record]:
        """Trials with a finite value of the primary objective."""
        return [r for r in self.records if r.value is not None and math.isfinite(r.value) and r.state.scored]

    @cached_property
    def completed(self) -> list[Record]:
        """Those that trained to their end; all with a value, if none did."""
        return [record for record in self.scored if record.state is State.COMPLETED] or self.scored

    @cached_property
    def clock(self) -> Callable[[str], float]:
        """Seconds of the search at a moment, its breaks left out."""
        return searching(self.row.created, self.records)

    @cached_property
    def ended(self) -> list[Record]:
        """Trials in the order in which they ended; those that have not are left out."""
        done = [record for record in self.records if record.ended and record.state is not State.REFUSED]
        return sorted(done, key=lambda record: (record.ended, record.number))

    def say(self, record: Record, *more: str) -> str:
        """Return what a mark says of a trial: lines of plain text."""
        what = record.note if record.note and record.origin == "reference" else record.origin
        known = [name for name in (self.first.metric, *self._seconds) if name in record.values]
        values = [f"{name_of(name)} {exact(record.values[name])}" for name in known]
        state = f"{str(record.state).replace('_', ' ')} at epoch {record.epoch} of {record.epochs}"
        answered = [f"answered by {record.reused}"] if record.reused else []
        return "\n".join([f"trial {record.number} ({what})", *values, state, *answered, *more])

    @property
    def _seconds(self) -> list[str]:
        return list(dict.fromkeys([*(objective.metric for objective in self.objectives[1:]), "params"]))


def look_of(record: Record) -> str:
    """Return the look of a trial's point."""
    if record.reused:
        return "reused"
    if record.state in (State.COMPLETED, State.STOPPED, State.PAUSED, State.RUNNING):
        return str(record.state)
    return "failed"


def exact(value: float) -> str:
    """Return a value as it is told: a count with all its digits, a metric with four decimals."""
    if float(value).is_integer() and abs(value) >= 2:
        return f"{value:,.0f}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else short(value)


def read(query: Query, name: str) -> Facts:
    """Read a search.

    Raises:
        ResultsError: no such search.
        UsageError: no trial of it has a score yet, so that there is nothing to report.
    """
    row = query.status(name)
    if not row.best:
        raise UsageError(
            f"search {name!r} has no trial with a score yet ({row.trials} trials, {row.state}): "
            f"see detol status {name}, and report when one has ended"
        )
    records, stored = query.records(name), query.settings(name)
    settings = stored["settings"]
    listed = [parse_objective(text) for text in stored["objectives"]] or [Objective("score")]
    return Facts(
        row=row,
        records=records,
        objectives=listed,
        identity=query.identity(name),
        settings=settings.get("settings") or settings,
        versions=stored["versions"],
        summary=settings.get("summary") or {},
        workers=int(settings.get("workers") or 0),
        lineage=query.lineage(row.best),
        curves=query.curves(name, [record.number for record in records if record.epoch]),
        random={other: query.records(other) for other in query.kin(name, RANDOM)},
        lost=_lost(query, name, [record.number for record in records]),
    )


def _lost(query: Query, name: str, numbers: Sequence[int]) -> dict[int, str]:
    """Return what is said of the ranks that trials lost, by number."""
    found: dict[int, str] = {}
    for start in range(0, len(numbers), LARGEST_PAGE):
        for row in query.some(name, numbers[start : start + LARGEST_PAGE]):
            if row.ranks_lost:
                left = f" ({row.width_now} left at its end)" if row.width_now is not None else ""
                found[row.number] = row.ranks_lost + left
    return found


def seconds_between(start: str, end: str) -> float:
    """Return the seconds between two moments in ISO 8601."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def searching(created: str, records: Sequence[Record]) -> Callable[[str], float]:
    """Return the clock of a search: seconds since its start at a moment, without the breaks.

    A break is a time of more than ``BREAK`` seconds in which no trial was open: the search was interrupted, and resumed
    later.
    """
    spans = sorted(
        (seconds_between(created, r.created), seconds_between(created, r.ended or r.created)) for r in records
    )
    breaks: list[tuple[float, float]] = []
    reached = 0.0
    for start, end in spans:
        if start - reached > BREAK:
            breaks.append((reached, start))
        reached = max(reached, end)

    def clock(moment: str) -> float:
        at = seconds_between(created, moment)
        return max(0.0, at - sum(max(0.0, min(at, end) - start) for start, end in breaks if start < at))

    return clock


def lasted(seconds: float) -> str:
    """Return a duration for people."""
    return duration(float(seconds))
