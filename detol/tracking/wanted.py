"""What the mirror should show of one trial: the last state known, every report with the moment it came."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from detol.graph.ops import Value
from detol.search.records import Report, Trial

LONGEST = 500
"""Characters of a fact that is shown; longer ones stay in the results database."""


@dataclass(frozen=True, slots=True)
class Point:
    """One report on the learning curve: its primary score (more is better) and its moment (seconds since 1970)."""

    report: Report
    score: float
    at: float


@dataclass(slots=True)
class Wanted:
    """A trial as it should be shown.

    Args:
        trial: its last state.
        started: when it began, seconds since 1970.
        at: when it was last seen.
        points: the curve by epoch; a moment once taken stays, so that writing a point twice is one point.
    """

    trial: Trial
    started: float
    at: float
    points: dict[int, Point] = field(default_factory=dict)

    @classmethod
    def seen(cls, trial: Trial, at: float, before: "Wanted | None" = None) -> "Wanted":
        """Return what to show after a trial was seen whole; the moments already known are kept.

        Points that nobody saw arrive (a reused result, a synchronised search) get moments from the epochs' seconds,
        counted back from ``at``.
        """
        started = before.started if before else at - max(trial.seconds, sum(r.seconds for r in trial.reports))
        wanted = cls(trial, started, at)
        later = 0.0
        found: list[Point] = []
        for index in reversed(range(len(trial.reports))):
            report = trial.reports[index]
            known = before.points.get(report.epoch) if before else None
            score = trial.curve[index] if index < len(trial.curve) else float("nan")
            found.append(known or Point(report, score, at - later))
            later += report.seconds
        wanted.points = {point.report.epoch: point for point in reversed(found)}
        return wanted

    def add(self, point: Point) -> None:
        """Add one report; one of an epoch that is known is ignored."""
        self.points.setdefault(point.report.epoch, point)
        self.at = max(self.at, point.at)

    def facts(self) -> Iterator[tuple[str, Value]]:
        """Yield what is known of the trial as (name, value), for tags."""
        trial = self.trial
        yield "trial", trial.number
        yield "digest", trial.digest
        yield "origin", trial.candidate.origin.value
        yield "state", trial.state.value
        yield "reused", trial.reused
        yield "parents", ",".join(map(str, trial.candidate.parents))
        yield "note", trial.candidate.note
        yield "reason", trial.reason
        yield "attempt", trial.attempt
        yield "width", trial.width
        yield "seed", trial.seed
        yield "epochs", trial.epochs
        yield "epoch", trial.epoch
        yield "seconds", round(trial.seconds, 3)
        for name, value in trial.extra.items():
            if not isinstance(value, str) or len(value) <= LONGEST:  # what was measured for a strategy is no tag
                yield f"extra.{name}", value
