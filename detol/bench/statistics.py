"""What is said of a strategy's runs: means over seeds with bootstrap intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.bench.run import Protocol, Run
from detol.bench.table import BenchTable

AFTER = (10, 25, 50, 100, 200)
"""Trainings after which incumbents are reported."""
CURVE = 200
"""Points of a regret curve at most."""
RESAMPLED = 2_000

Doubles = NDArray[np.float64]


def summary(name: str, table: BenchTable, protocol: Protocol, runs: Sequence[Run], longest: int = 0) -> dict[str, Any]:
    """Return the figures of one strategy over its seeds, ready for JSON.

    ``mean_trainings_to_best`` counts a seed that did not find the table's best row (``--identity network``: a row of
    its network) as the whole budget: ``protocol.trials``, and where seconds bound a search no more than ``longest``.
    ``best``, ``test`` and ``regret`` are of the incumbent, which is chosen by the objective alone, in the table's
    units, after each number of ``AFTER`` within the budget; a search that ended earlier keeps its last one, and one of
    which no training ended in time (``untrained``: how many) counts as the table's worst row.
    ``found_by`` is the share of seeds that had found the best by so many trainings.

    Args:
        name: of the strategy.
        table: that answered.
        protocol: of the runs.
        runs: of the strategy, one or more.
        longest: trainings of the longest run of all strategies that are compared; 0: of these.
    """
    longest = max(1, longest, *(len(run.rows) for run in runs))
    budget = int(min(protocol.trials, longest if np.isfinite(protocol.seconds) else np.inf))
    marks = [after for after in AFTER if after <= budget]
    length = max(min(longest, budget), *marks, 1)  # not the budget, which may be any number
    needed, found = _to_best(table, protocol, runs, budget)
    incumbents = np.stack([_incumbents(table, run, length) for run in runs])
    scores = table.scores[incumbents]
    sign = table.objective.score(1.0)
    tests = {
        column: {
            **{str(k): _mean(values[incumbents[:, k - 1]]) for k in marks},
            "end": _mean(values[incumbents[:, -1]]),
        }
        for column, values in table.tests.items()
    }
    regret = (table.scores.max() - scores).mean(0)
    at = np.unique(np.linspace(1, length, min(CURVE, length)).astype(int))
    intervals: dict[str, Any] = {
        "mean_trainings_to_best": interval(needed),
        "best": {str(k): interval(sign * scores[:, k - 1]) for k in marks} | {"end": interval(sign * scores[:, -1])},
        "test": {column: interval(values[incumbents[:, -1]]) for column, values in table.tests.items()},
    }
    return {
        "strategy": name,
        "seeds": len(runs),
        "mean_trainings_to_best": _mean(needed),
        "median_trainings_to_best": float(np.median(needed)),
        "found": _mean(found),
        "found_by": {str(k): _mean((needed <= k) & (found > 0)) for k in marks},
        "best": {str(k): _mean(sign * scores[:, k - 1]) for k in marks} | {"end": _mean(sign * scores[:, -1])},
        "test": tests,
        "untrained": sum(not len(run.rows) for run in runs),
        "trainings": _mean([len(run.rows) for run in runs]),
        "duplicates": _mean([run.duplicates for run in runs]),
        "utilisation": _mean([run.utilisation for run in runs]),
        "ask_seconds": float(sum(run.ask_seconds for run in runs) / max(1, sum(len(run.rows) for run in runs))),
        "search_seconds": _mean([run.seconds for run in runs]),
        "simulated_seconds": _mean([run.ends[-1] if len(run.ends) else 0.0 for run in runs]),
        "regret": [{"trainings": int(k), "mean": float(regret[k - 1])} for k in at],
        "intervals": intervals,
    }


def interval(values: Sequence[float] | Doubles, share: float = 0.95) -> list[float]:
    """Return a bootstrap interval of the mean (percentile method, always the same draws): [low, high]."""
    data = np.asarray(values, np.float64)
    rng = np.random.default_rng(0)
    means = data[rng.integers(len(data), size=(RESAMPLED, len(data)))].mean(1)
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return [float(low) + 0.0, float(high) + 0.0]


def _to_best(table: BenchTable, protocol: Protocol, runs: Sequence[Run], budget: int) -> tuple[Doubles, Doubles]:
    # Rows that score as much as the best are as good an answer.
    best = set(np.flatnonzero(table.scores == table.scores[table.best]).tolist())
    needed, found = [], []
    for run in runs:
        wanted = best | (run.twins if protocol.identity == "network" else frozenset())
        place = next((n for n, row in enumerate(run.rows.tolist(), start=1) if row in wanted), None)
        needed.append(float(min(place or budget, budget)))
        found.append(float(place is not None and place <= budget))
    return np.asarray(needed), np.asarray(found)


def _incumbents(table: BenchTable, run: Run, length: int) -> NDArray[np.int64]:
    """Return the row that was best after each training; after the end of a shorter run its last one."""
    if not len(run.rows):
        return np.full(length, int(np.argmin(table.scores)), np.int64)
    scores = table.scores[run.rows]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(scores)[:-1]])
    leads = np.maximum.accumulate(np.where(scores > before, np.arange(len(scores)), 0))
    rows = run.rows[leads][:length]
    return np.concatenate([rows, np.full(length - len(rows), rows[-1], np.int64)])


def _mean(values: Any) -> float:
    return float(np.mean(np.asarray(values, np.float64))) + 0.0  # which makes 0 of -0
