"""What stopping rules read from learning curves, and how they check their options."""

import math
from bisect import bisect_left

from detol.errors import UsageError
from detol.search.records import Trial


def unfinished(trial: Trial) -> bool:
    """Return whether a stop would save anything: the trial has reported, and has epochs left."""
    return bool(trial.reports) and trial.epoch < trial.epochs


def at(trial: Trial, epoch: int) -> float:
    """Return the score at the first report at or after ``epoch``; NaN when there is none (or it is not finite).

    Takes logarithmic time at worst, and constant time when there is a report after each epoch.
    """
    reports = trial.reports
    if len(reports) >= epoch and reports[epoch - 1].epoch == epoch:
        return trial.curve[epoch - 1]
    index = bisect_left(reports, epoch, key=lambda report: report.epoch)
    return trial.curve[index] if index < len(reports) else math.nan


def exactly_at(trial: Trial, epoch: int) -> float:
    """Return the score of the report after ``epoch``; NaN when there is none (or it is not finite)."""
    reports = trial.reports
    if len(reports) >= epoch and reports[epoch - 1].epoch == epoch:
        return trial.curve[epoch - 1]
    index = bisect_left(reports, epoch, key=lambda report: report.epoch)
    return trial.curve[index] if index < len(reports) and reports[index].epoch == epoch else math.nan


def whole(name: str, value: int, low: int) -> None:
    """Check an option.

    Raises:
        UsageError: ``value`` is no whole number or below ``low``.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise UsageError(f"{name} must be a whole number of at least {low}, got {value!r}")
