"""What a search found, and its figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from detol.config import Settings
from detol.search.dominance import fronts
from detol.search.records import Objective, State, Trial
from detol.search.task import Outcome, Task

if TYPE_CHECKING:
    import pandas as pd

SIZES = ("params", "multiply_adds")
"""Facts of a trial that a front shows beside the objectives."""


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

    def frame(self) -> "pd.DataFrame":
        """Return the trials as a pandas DataFrame by number: state, origin, objectives, epochs, decisions."""
        from detol.notebook.frames import records

        return records(self.trials, self.objectives)

    def __repr__(self) -> str:
        """Return e.g. ``SearchResult('digits-1', 30 trials, best val_accuracy 0.9965 of trial 2)``."""
        objective = self.objectives[0]
        best = ""
        if self.best is not None:
            best = f", best {objective.metric} {objective.score(self.best.score):.4f} of trial {self.best.number}"
        return f"SearchResult({self.name!r}, {len(self.trials)} trials{best})"

    def _repr_html_(self) -> str:
        from detol.notebook.card import result_card

        return result_card(self)


def conclude(
    name: str, task: Task, outcome: Outcome, trials: Sequence[Trial], *, structural: bool = False
) -> SearchResult:
    """Return the result of a search that ended, its winner not tested yet.

    ``structural``: whether its strategy changed the size of one network: then the front is one of the primary score
    against parameters and multiply-adds, whatever the objectives.
    """
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
        "continued": tally.continued,
        "seconds": round(outcome.seconds, 3),
        "objective": str(objective),
        "best": found,
        "inherited": _inherited(inherited, objective),
        "reference": reference,
        "gain": best.score - tally.reference.score if best and tally.reference else None,
        "front": _front(trials, task.objectives, structural=structural),
        "test": None,
        "ended": outcome.ended,
    }
    return SearchResult(name, trials, best, task.objectives, outcome.ended, {}, summary)


def _front(trials: Sequence[Trial], objectives: Sequence[Objective], *, structural: bool) -> list[dict[str, Any]]:
    """Return the completed trials that none beats in all objectives at once, best in the first objective first.

    ``structural``: in the primary score, parameters and multiply-adds, where all of them have these. Otherwise empty
    with one objective.
    """
    done = [trial for trial in trials if trial.state is State.COMPLETED and trial.scores is not None]
    structural = structural and all(name in trial.extra for trial in done for name in SIZES)
    if not done or (len(objectives) < 2 and not structural):
        return []
    values = [(trial.score, *(-float(trial.extra[name]) for name in SIZES)) for trial in done] if structural else []
    compared = values or [trial.scores or () for trial in done]
    rank = fronts(np.array(compared, dtype=float))
    best: dict[tuple[float, ...], Trial] = {}
    for trial, value, place in zip(done, compared, rank, strict=True):
        if place == 0:
            best.setdefault(value, trial)  # one of those that are equal in everything
    rows = []
    for _, trial in sorted(best.items(), key=lambda item: item[0], reverse=True):
        shown = {o.metric: o.score(value) for o, value in zip(objectives, trial.scores or (), strict=True)}
        costs = {name: trial.extra[name] for name in SIZES if name in trial.extra}
        parent = {"inherited_from": int(trial.inherited)} if trial.inherited else {}
        rows.append({"trial": trial.number, "digest": trial.digest, **shown, **costs, **parent})
    return rows


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
