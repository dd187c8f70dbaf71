"""What a search found, and its figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detol.config import Settings
from detol.search.records import Objective, Trial
from detol.search.task import Outcome, Task


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Args:
        name: of the search.
        trials: all of them, in order of number.
        best: the winner; ``None`` when no trial has a score.
        objectives: in the order of a trial's scores.
        ended: why it ended, one line.
        test: metrics of the winner on the test split, which nothing else has read; empty when there is no winner.
        summary: counts and figures, as ``detol search --json`` prints them.
        settings: of the search, where it had any.
    """

    name: str
    trials: Sequence[Trial]
    best: Trial | None
    objectives: Sequence[Objective]
    ended: str = ""
    test: Mapping[str, float] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)


def conclude(name: str, task: Task, outcome: Outcome, trials: Sequence[Trial]) -> SearchResult:
    """Return the result of a search that ended, its winner not tested yet."""
    tally, objective = outcome.tally, task.objectives[0]
    best, inherited = tally.best, tally.best if tally.best and tally.best.inherited else None
    if inherited and tally.scratch:
        best = tally.scratch  # what a training from scratch reaches is what is reported
    found, reference = _row(best, objective), _row(tally.reference, objective)
    summary: dict[str, Any] = {
        "name": name,
        "trials": tally.trials,
        "trained": tally.trained,
        "reused": tally.reused,
        "stopped": tally.stopped,
        "failed": tally.failed,
        "refused": tally.refused,
        "paused": tally.paused,
        "epochs": tally.epochs,
        "epochs_spared": tally.spared,
        "epochs_reused": tally.answered,
        "seconds": round(outcome.seconds, 3),
        "objective": str(objective),
        "best": found,
        "inherited": _inherited(inherited, objective),
        "reference": reference,
        "gain": best.score - tally.reference.score if best and tally.reference else None,
        "test": None,
        "ended": outcome.ended,
    }
    return SearchResult(name, trials, best, task.objectives, outcome.ended, {}, summary)


def _inherited(trial: Trial | None, objective: Objective) -> dict[str, Any] | None:
    """Return the trial with the best score of all, where that was reached from another's weights."""
    row = _row(trial, objective)
    if trial is None or row is None:
        return None
    share = trial.extra.get("inherited")
    return {**row, "from": int(trial.inherited), "rule": trial.extra.get("inherit"), "share": share}


def _row(trial: Trial | None, objective: Objective) -> dict[str, Any] | None:
    if trial is None or not math.isfinite(trial.score):
        return None
    return {"trial": trial.number, "digest": trial.digest, "score": objective.score(trial.score)}
