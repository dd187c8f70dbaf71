"""The in-memory double of a tracker, for tests and for people who write their own front end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detol.search.records import Event, Trial


class MemoryTracker:
    """Keeps everything it is told.

    Attributes:
        trials: the last state of each trial by its number.
        events: every call of ``record`` in order, as (trial, event).
        finished: what ``finish`` was told, as (best, summary, export); ``None`` before.
        report: the file of the report that it was told.
        closed: whether ``close`` was called; what is recorded after that is ignored.
    """

    def __init__(self) -> None:
        self.trials: dict[int, Trial] = {}
        self.events: list[tuple[Trial, Event | None]] = []
        self.finished: tuple[Trial | None, Mapping[str, Any], Path | None] | None = None
        self.report: Path | None = None
        self.closed = False

    def record(self, trial: Trial, event: Event | None) -> None:
        """Keep the trial's new state and the event that led to it."""
        if not self.closed:
            self.trials[trial.number] = trial
            self.events.append((trial, event))

    def finish(
        self, best: Trial | None, summary: Mapping[str, Any], export: Path | None = None, report: Path | None = None
    ) -> None:
        """Keep how the search ended."""
        if not self.closed:
            self.finished, self.report = (best, dict(summary), export), report

    def close(self) -> None:
        """Ignore everything from now on; idempotent."""
        self.closed = True
