"""From metrics to scores: inside, more is better; what is not finite never wins."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from detol.errors import UsageError, unknown
from detol.search.records import Ended, Objective, Report, State, Trial


def with_report(trial: Trial, report: Report, objectives: Sequence[Objective]) -> Trial:
    """Return the trial after one more epoch: the report added, curve and scores brought up to date.

    Raises:
        UsageError: an objective is neither among the report's metrics nor among the trial's costs (``extra``).
    """
    known = {**{k: v for k, v in trial.extra.items() if not isinstance(v, str)}, **report.metrics}
    scores = tuple(objective.score(_metric(known, objective)) for objective in objectives)
    primary = scores[0] if math.isfinite(scores[0]) else math.nan
    return replace(
        trial,
        reports=(*trial.reports, report),
        curve=(*trial.curve, primary),
        scores=scores if all(map(math.isfinite, scores)) else None,
        seconds=trial.seconds + report.seconds,
    )


def _metric(known: Mapping[str, float], objective: Objective) -> float:
    if objective.metric not in known:
        raise unknown("objective", objective.metric, known)
    return float(known[objective.metric])


def with_end(trial: Trial, ended: Ended) -> Trial:
    """Return the trial in its final state; a state that does not fit the curve is corrected, with the reason."""
    state, reason = ended.state, ended.reason
    if state is State.COMPLETED and not trial.reports:
        state, reason = State.FAILED, "it ended without a report"
    elif state is State.STOPPED and not trial.reports:
        reason = reason or "stopped before its first report"
    elif state.scored and trial.scores is None:
        state, reason = State.DIVERGED, reason or "a score is not finite"
    scores = trial.scores if state.scored else None
    return replace(trial, state=state, reason=reason, scores=scores, extra={**trial.extra, **ended.extra})


def check_objectives(objectives: Sequence[Objective], metrics: Sequence[str]) -> None:
    """Refuse objectives that no report will hold.

    Raises:
        UsageError: none given, one twice, or one that is not among ``metrics``.
    """
    names = [objective.metric for objective in objectives]
    if not names:
        raise UsageError("a search needs at least one objective, e.g. --objective val_accuracy")
    for name in names:
        if name not in metrics:
            raise unknown("objective", name, metrics)
        if names.count(name) > 1:
            raise UsageError(f"each objective is given once, got {name!r} {names.count(name)} times")


def better(first: Trial, second: Trial | None) -> bool:
    """Whether ``first`` beats ``second`` as the best of a search.

    A completed trial beats one that was stopped, whatever their scores: the winner is never chosen at low fidelity.
    Of equal scores the one with the lower validation log loss wins (``Trial.tie_break``), then one that was trained
    here, then the lower number, as in the results database.
    """
    if not first.state.scored or first.scores is None:
        return False
    if second is None:
        return True
    return _rank(first) > _rank(second)


def _rank(trial: Trial) -> tuple[bool, float, float, bool, int]:
    return trial.state is State.COMPLETED, trial.score, trial.tie_break, not trial.reused, -trial.number
