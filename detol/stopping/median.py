"""The median rule: Golovin et al. 2017 (Google Vizier), section 3.2.2, as Optuna applies it."""

from collections.abc import Iterable, Sequence

from detol.search.records import Objective, State, Trial, Verdict
from detol.stopping.curves import unfinished, whole
from detol.stopping.ranking import Scores, ahead, finite, scores_at, scores_of


class MedianStop:
    """Stops a trial whose best score so far is below the median of what completed trials had after the same epoch.

    A curve without any finite score is stopped once the rule is in force. The decisions equal those of Optuna's
    ``MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)``, but that nothing is stopped after its last epoch.
    With several objectives, which Optuna refuses, the best so far is taken for each of them, and a trial is stopped
    when more than half of the completed ones rank before it, by fronts and then crowding.

    Args:
        startup: completed trials before the rule is in force, >= 1.
        warmup: epochs before a trial is judged, >= 0.
        epochs: of a training to its end; not needed by the rule.
        objectives: of the search; fewer than two: the curve of a trial counts.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(
        self, *, startup: int = 5, warmup: int = 1, epochs: int = 1, objectives: Sequence[Objective] = ()
    ) -> None:
        whole("startup", startup, 1)
        whole("warmup", warmup, 0)
        whole("epochs", epochs, 1)
        self.startup, self.warmup, self.objectives = startup, warmup, tuple(objectives)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP when the best score so far is below the median of completed peers at this epoch."""
        if not unfinished(trial) or trial.epoch < self.warmup:
            return Verdict.CONTINUE
        completed = [
            scores_at(peer, trial.epoch, self.objectives, exactly=True)
            for peer in peers
            if peer.state is State.COMPLETED
        ]
        if len(completed) < self.startup:
            return Verdict.CONTINUE
        own = [scores_of(trial, index, self.objectives) for index in range(len(trial.reports))]
        best = [scores for scores in own if finite(scores)]
        if not best:
            return Verdict.STOP
        known = [scores for scores in completed if finite(scores)]
        return (
            Verdict.STOP
            if known and _below_median(tuple(map(max, zip(*best, strict=True))), known)
            else Verdict.CONTINUE
        )


def _below_median(scores: Scores, known: Sequence[Scores]) -> bool:
    if len(scores) > 1:
        return 2 * ahead(scores, known) > len(known)
    values = sorted(other[0] for other in known)
    half = len(values) // 2
    return scores[0] < (values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2)
