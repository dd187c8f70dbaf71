"""How trials rank after the same epoch: by one score, or with several objectives by fronts and then crowding.

Li et al. 2018 and 2020 rank by one score. With several, the order is that of NSGA-II (Deb et al. 2002): a trial of an
earlier front is ahead, and within a front the one that stands more apart. What is not finite ranks last.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from detol.search.dominance import crowding, fronts
from detol.search.records import Objective, Trial
from detol.stopping.curves import index_at

Scores: TypeAlias = tuple[float, ...]
"""All objectives of a trial after some epoch, more is better; NaN where there are none."""


def scores_at(trial: Trial, epoch: int, objectives: Sequence[Objective] = (), *, exactly: bool = False) -> Scores:
    """Return the scores of the first report at or after ``epoch`` (``exactly``: of that epoch alone), NaN for none.

    With at most one objective it is the curve of the trial that counts. Further objectives are read from the report's
    metrics, and from the facts of the trial (``params`` ...), which do not change with the epochs.
    """
    index = index_at(trial, epoch)
    if index < 0 or (exactly and trial.reports[index].epoch != epoch):
        return (math.nan,) * max(1, len(objectives))
    return scores_of(trial, index, objectives)


def scores_of(trial: Trial, index: int, objectives: Sequence[Objective] = ()) -> Scores:
    """Return the scores of the report at ``index``."""
    if len(objectives) < 2:
        return (trial.curve[index],)
    metrics = trial.reports[index].metrics
    return (trial.curve[index], *(_score(trial, metrics.get(each.metric), each) for each in objectives[1:]))


def _score(trial: Trial, value: float | None, objective: Objective) -> float:
    known = trial.extra.get(objective.metric, math.nan) if value is None else value
    return objective.score(float(known)) if not isinstance(known, str) else math.nan


def finite(scores: Scores) -> bool:
    """Return whether all of them are finite."""
    return all(map(math.isfinite, scores))


def ahead(scores: Scores, others: Sequence[Scores]) -> int:
    """Return how many of ``others`` rank before ``scores``; equal ones do not. All have to be finite."""
    if len(scores) == 1:
        return sum(other[0] > scores[0] for other in others)
    keys = _keys([scores, *others])
    return sum(key < keys[0] for key in keys[1:])


def order(scores: Sequence[Scores]) -> list[int]:
    """Return the positions of ``scores`` from the best to the worst; of equals the first comes first, NaN last."""
    good = [index for index, each in enumerate(scores) if finite(each)]
    keys = dict(zip(good, _keys([scores[index] for index in good]), strict=True))
    last = (math.inf, math.inf)
    return sorted(range(len(scores)), key=lambda index: (keys.get(index, last), index))


def _keys(scores: Sequence[Scores]) -> list[tuple[float, float]]:
    """Return what sorts finite scores, the best first."""
    if not scores or len(scores[0]) == 1:
        return [(-each[0], 0.0) for each in scores]
    points = np.array(scores, dtype=float)
    front = fronts(points)
    apart = np.zeros(len(points))
    for number in range(front.max() + 1):
        apart[front == number] = crowding(points[front == number])
    return [(float(number), -float(distance)) for number, distance in zip(front, apart, strict=True)]
