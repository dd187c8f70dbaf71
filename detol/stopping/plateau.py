"""The plateau rule: a trial that no longer improves is stopped, whatever the others do."""

import math
from collections.abc import Iterable

from detol.errors import UsageError
from detol.search.records import Trial, Verdict
from detol.stopping.curves import unfinished, whole


class Plateau:
    """Stops a trial whose best score has not risen by more than ``delta`` within ``patience`` epochs.

    Under a schedule that falls to zero (cosine) scores rise late: the patience should be a good part of all epochs,
    and is a third of them by default.

    Args:
        epochs: of a training to its end, >= 1.
        patience: epochs without a rise, >= 1.
        delta: least rise that counts, in units of the score, >= 0.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(self, *, epochs: int, patience: int | None = None, delta: float = 0.0) -> None:
        whole("epochs", epochs, 1)
        self.patience = max(2, math.ceil(epochs / 3)) if patience is None else patience
        whole("patience", self.patience, 1)
        if not 0 <= delta < math.inf:
            raise UsageError(f"delta must be a finite number of at least 0, got {delta}")
        self.delta = delta

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:  # noqa: ARG002  the seam gives both
        """Return STOP when the last rise is ``patience`` epochs ago; scores that are not finite are no rise."""
        if not unfinished(trial):
            return Verdict.CONTINUE
        best, since = -math.inf, 0
        for report, value in zip(trial.reports, trial.curve, strict=True):
            if math.isfinite(value) and value > best + (self.delta if best > -math.inf else 0):
                best, since = value, report.epoch
        return Verdict.STOP if trial.epoch - since >= self.patience else Verdict.CONTINUE
