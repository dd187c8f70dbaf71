"""What the trainings of one topology amount to: the best of them, their mean, their spread."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa

from detol.results.rows import from_text
from detol.results.schema import trials
from detol.results.scope import FACTS, Scope
from detol.results.winner import COMPLETED
from detol.search.records import Objective

Key: TypeAlias = tuple[str, str, str, bool]
"""Digest, recipe, data, and whether it began with another's weights: such scores are not of the topology alone."""

COLUMNS = tuple(
    trials.c[name]
    for name in (
        *("search", "number", "digest", "recipe", "data", "state", "epochs", "epoch", "seed", "score", "seconds"),
        *("reused", "inherited", "params", "multiply_adds", "activation_bytes", "depth"),
    )
)


@dataclass(frozen=True)
class Standing:
    """One topology under one recipe on one data set.

    Args:
        best: row of the best trial: a completed one if there is one; of equal ones one that was trained.
        scores: of each objective, more is better; the first is the mean over the trainings.
        value: score of the best trial by the first objective.
        trainings: score of each training, by the first objective, that went as far as the best: observations of
            several seeds. Answers from the database are not counted again, nor the same seed with the same score.
    """

    best: sa.RowMapping
    scores: tuple[float, ...]
    value: float
    trainings: tuple[float, ...]

    @property
    def completed(self) -> bool:
        """Whether the best was trained to its end."""
        return bool(self.best["state"] == COMPLETED)

    @property
    def spread(self) -> float | None:
        """Standard deviation of the trainings (of a sample, divided by n - 1); ``None`` for fewer than two."""
        return statistics.stdev(self.trainings) if len(self.trainings) > 1 else None

    @property
    def place(self) -> tuple[Any, ...]:
        """What standings are sorted by: completed first, then by the scores, then by age."""
        falling = tuple(-score for score in self.scores)
        return (not self.completed, *falling, self.best["search"], self.best["number"])


def key_of(row: sa.RowMapping) -> Key:
    """Return what a trial is counted under."""
    return row["digest"], row["recipe"], row["data"], bool(row["inherited"])


def standing(rows: Sequence[sa.RowMapping], scope: Scope, objectives: Sequence[Objective]) -> Standing | None:
    """Return what the trials of one key amount to, ``None`` if none has a value of each objective.

    Completed trials stand before those that were stopped or rest: never a winner, nor a mean, of other fidelity. The
    mean is over the trainings with as many epochs as the best trial has.
    """
    scored = [(tuple(score_of(row, scope, objective) for objective in objectives), row) for row in rows]
    scored = [(scores, row) for scores, row in scored if all(map(math.isfinite, scores))]
    if any(row["state"] == COMPLETED for _, row in scored):
        scored = [(scores, row) for scores, row in scored if row["state"] == COMPLETED]
    if not scored:
        return None
    trained = [pair for pair in scored if not pair[1]["reused"]]
    # The trained trial stands for its answers, which have the same score and took no time.
    value = max(scores[0] for scores, _ in scored)
    leaders = [pair for pair in scored if pair[0][0] == value]
    leaders = [pair for pair in leaders if not pair[1]["reused"]] or leaders
    scores, best = min(leaders, key=lambda pair: (tuple(-s for s in pair[0]), pair[1]["search"], pair[1]["number"]))
    as_far = [(s[0], row["seed"]) for s, row in trained if _fidelity(row) == _fidelity(best)]
    trainings = tuple(score for score, _ in dict.fromkeys(as_far))
    mean = statistics.fmean(trainings) if trainings else value
    return Standing(best, (mean, *scores[1:]), value, trainings)


def _fidelity(row: sa.RowMapping) -> int:
    return int(row["epochs"] if row["state"] == COMPLETED else row["epoch"])


def score_of(row: sa.RowMapping, scope: Scope, objective: Objective) -> float:
    """Return a trial's value of an objective so that more is better; NaN when it has none."""
    own = scope.places[row["search"]].objective
    if own == objective:
        return float(row["score"])
    if objective.metric in FACTS:
        value = row[objective.metric]
    elif own.metric == objective.metric:
        value = own.score(row["score"])
    else:
        value = from_text(row["metrics"]).get(objective.metric) if row.get("metrics") else None
    return math.nan if value is None else objective.score(float(value))
