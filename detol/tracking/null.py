"""No mirror: what ``--tracking off`` uses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detol.search.records import Event, Trial


class NullTracker:
    """A tracker that shows nothing."""

    def record(self, trial: Trial, event: Event | None) -> None:
        """Do nothing."""

    def finish(
        self, best: Trial | None, summary: Mapping[str, Any], export: Path | None = None, report: Path | None = None
    ) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
