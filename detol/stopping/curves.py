"""What stopping rules read from learning curves, and how they check their options."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from detol.errors import UsageError
from detol.search.records import Trial


def unfinished(trial: Trial) -> bool:
    """Return whether a stop would save anything: the trial has reported, and has epochs left."""
    return bool(trial.reports) and trial.epoch < trial.epochs


def index_at(trial: Trial, epoch: int) -> int:
    """Return the position of the first report at or after ``epoch``, -1 when there is none.

    Takes logarithmic time at worst, and constant time when there is a report after each epoch.
    """
    reports = trial.reports
    if len(reports) >= epoch and reports[epoch - 1].epoch == epoch:
        return epoch - 1
    index = bisect_left(reports, epoch, key=lambda report: report.epoch)
    return index if index < len(reports) else -1


def at(trial: Trial, epoch: int) -> float:
    """Return the primary score at the first report at or after ``epoch``; NaN for none, or one that is not finite."""
    index = index_at(trial, epoch)
    return trial.curve[index] if index >= 0 else math.nan


def reached(trial: Trial, rungs: Sequence[int]) -> list[int]:
    """Return the rungs (epochs, ascending) that the last report of a trial reached, and the one before did not."""
    before = trial.reports[-2].epoch if len(trial.reports) > 1 else 0
    return list(rungs[bisect_right(rungs, before) : bisect_right(rungs, trial.epoch)])


def standing(trial: Trial, rungs: Sequence[int]) -> int:
    """Return the position of the highest rung (epochs, ascending) that a trial has reached, -1 for none."""
    return bisect_right(rungs, trial.epoch) - 1


def ladder(grace: int, eta: int, end: int) -> tuple[int, ...]:
    """Return the rungs ``grace * eta**k`` below ``end``, in epochs counted from the start of a trial."""
    rungs = []
    while grace < end:
        rungs.append(grace)
        grace *= eta
    return tuple(rungs)


def whole(name: str, value: int, low: int) -> None:
    """Check an option.

    Raises:
        UsageError: ``value`` is no whole number or below ``low``.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise UsageError(f"{name} must be a whole number of at least {low}, got {value!r}")
