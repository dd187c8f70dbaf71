"""The median rule: Golovin et al. 2017 (Google Vizier), section 3.2.2, as Optuna applies it."""

import math
from collections.abc import Iterable

import numpy as np

from detol.search.records import State, Trial, Verdict
from detol.stopping.curves import exactly_at, unfinished, whole


class MedianStop:
    """Stops a trial whose best score so far is below the median of what completed trials had after the same epoch.

    A curve without any finite score is stopped once the rule is in force. The decisions equal those of Optuna's
    ``MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)``, but that nothing is stopped after its last epoch.

    Args:
        startup: completed trials before the rule is in force, >= 1.
        warmup: epochs before a trial is judged, >= 0.
        epochs: of a training to its end; not needed by the rule.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(self, *, startup: int = 5, warmup: int = 1, epochs: int = 1) -> None:
        whole("startup", startup, 1)
        whole("warmup", warmup, 0)
        whole("epochs", epochs, 1)
        self.startup, self.warmup = startup, warmup

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP when the best score so far is below the median of completed peers at this epoch."""
        if not unfinished(trial) or trial.epoch < self.warmup:
            return Verdict.CONTINUE
        completed = [exactly_at(peer, trial.epoch) for peer in peers if peer.state is State.COMPLETED]
        if len(completed) < self.startup:
            return Verdict.CONTINUE
        finite = [value for value in trial.curve if math.isfinite(value)]
        if not finite:
            return Verdict.STOP
        known = np.array(completed)
        known = known[np.isfinite(known)]
        return Verdict.STOP if known.size and max(finite) < np.median(known) else Verdict.CONTINUE
