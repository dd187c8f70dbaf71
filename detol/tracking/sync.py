"""Catching up: what ``detol track sync NAME`` does after MLflow was away, or with another MLflow than the search's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detol.graph.ops import Value
from detol.search.records import Trial
from detol.tracking.tracker import MlflowTracker


@dataclass(frozen=True, slots=True)
class Synced:
    """What a synchronisation did.

    Args:
        added: runs that were missing and were made.
        complete: trials that were complete already.
        behind: trials that could not be written; 0 when all went well.
        warning: why not, one line; empty when all went well.
    """

    added: int
    complete: int
    behind: int
    warning: str = ""


def sync(
    trials: Iterable[Trial],
    uri: str,
    search: str,
    settings: Mapping[str, Value] | None = None,
    *,
    best: Trial | None = None,
    summary: Mapping[str, Any] | None = None,
    export: Path | None = None,
    report: Path | None = None,
    **options: Any,
) -> Synced:
    """Write to MLflow what is missing there of a search's trials; doing it twice adds nothing.

    Args:
        trials: of the search, as its store has them.
        uri: of MLflow.
        search: its name.
        settings: of the search.
        best: the winner of a search that is over.
        summary: of a search that is over; ``None`` leaves the parent run's summary as it is.
        export: directory of the winner's export, logged with its model; ``None`` leaves what is there.
        report: file of the search's report, for a search that has none there.
        options: further arguments of :class:`~detol.tracking.tracker.MlflowTracker` (use the same ``identity`` and
            ``experiment`` as the search did).

    Raises:
        UsageError: an address that MLflow cannot use.
    """
    warnings: list[str] = []
    tracker = MlflowTracker(uri, search, settings, **{"warn": warnings.append, **options})
    for trial in trials:
        tracker.record(trial, None)
    if summary is not None:
        tracker.finish(best, summary, export, report, keep=True)
    tracker.close()
    return Synced(tracker.added, tracker.complete, tracker.behind, warnings[0] if warnings else "")
