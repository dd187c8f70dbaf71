"""Which decision matters: the share of the scores' variance that hangs on each, with bootstrap intervals.

A random forest learns the score from the decisions of a bootstrap sample of the trials. On the trials that the sample
left out, one decision at a time is shuffled among them, and the squared error rises (permutation importance: Breiman
2001, "Random Forests", section 10). Half of the rise over the variance of the scores is the total-effect Sobol index of
the decision where the forest is right (Jansen 1999, "Analysis of variance designs for model output", equation 20): the
share of the variance that would stay if all other decisions were known. The spread over the bootstrap samples gives the
interval; a decision that does not matter has one around zero.

What random forests over past trials say of a search was first shown by Hutter, Hoos and Leyton-Brown 2014, "An
efficient approach for assessing hyperparameter importance" (ICML).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST = 20
"""Different scored trials below which nothing is said."""
MOST = 1000
"""Different trials that forests learn from; of more, as many are drawn."""
RESAMPLES, TREES, SHUFFLES = 50, 20, 3


@dataclass(frozen=True)
class Option:
    """One option of a decision: how many trials had it, their mean value, and its 95 % bootstrap interval."""

    label: str
    count: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Importance:
    """How much one decision matters: mean share of the variance, and its 95 % interval."""

    name: str
    share: float
    low: float
    high: float
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the trials say.

    Args:
        decisions: the most important one first.
        explained: share of the variance that the forest explains of trials it has not seen (R squared), with interval.
        trials: different ones it learned from.
    """

    decisions: tuple[Importance, ...]
    explained: tuple[float, float, float]
    trials: int


def importance(
    decisions: Sequence[Mapping[str, Any]],
    values: Sequence[float],
    *,
    resamples: int = RESAMPLES,
    trees: int = TREES,
    seed: int = 0,
) -> Answer | None:
    """Return which decision matters, or ``None`` when there are too few trials, or nothing differs.

    Args:
        decisions: of each trial, by name; one that is absent counts as an option of its own.
        values: of each trial, finite, all after as many epochs. Those beyond Tukey's fences (1.5 times the distance of
            the quartiles outside of them) count as the fence: a few disasters would otherwise be all that there is to
            explain.
        resamples: bootstrap samples, each with a forest of ``trees``.
        trees: of a forest.
        seed: of the drawing.
    """
    columns = _columns(decisions)
    fenced = fence(np.array(values, dtype=float))
    if not columns or not len(fenced) or fenced.std() <= 1e-12:
        return None
    names = list(columns)
    table, where = np.unique(np.column_stack(list(columns.values())), axis=0, return_inverse=True)
    where = where.reshape(-1)
    scores = np.bincount(where, fenced) / np.bincount(where)  # trials of equal decisions would stand on both sides
    if len(scores) < LEAST or scores.std() <= 1e-12:
        return None
    rng = np.random.default_rng(seed)
    if len(scores) > MOST:
        kept = rng.choice(len(scores), MOST, replace=False)
        table, scores = table[kept], scores[kept]
    shares, explained = _shares(table, scores, resamples, trees, rng)
    found = []
    for place, name in enumerate(names):
        options = _options([each.get(name) for each in decisions], np.array(values, dtype=float))
        found.append(Importance(name, *_spread(shares[:, place]), options))
    found.sort(key=lambda each: each.share, reverse=True)
    return Answer(tuple(found), _spread(explained), len(scores))


def _spread(values: Array) -> tuple[float, float, float]:
    """Return the mean of bootstrap results, and their 95 % interval."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def fence(values: Array) -> Array:
    """Return values with those beyond Tukey's fences put onto them."""
    if not len(values):
        return values
    first, third = np.quantile(values, (0.25, 0.75))
    room = 1.5 * (third - first) or np.inf
    return np.clip(values, first - room, third + room)


def _columns(decisions: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Return a column of numbers for each decision that differs between trials."""
    columns: dict[str, Array] = {}
    for name in dict.fromkeys(key for each in decisions for key in each):
        column = _column([each.get(name) for each in decisions])
        if len(np.unique(column)) > 1:
            columns[name] = column
    return columns


def _column(options: Sequence[Any]) -> Array:
    """Return options as numbers: numbers as they are, others by their place in order; absent ones below all."""
    known = [option for option in options if option is not None]
    if all(isinstance(option, int | float) and not isinstance(option, bool) for option in known):
        below = min(known, default=0) - 1
        return np.array([below if option is None else option for option in options], dtype=float)
    order = {text: place for place, text in enumerate(sorted({str(option) for option in known}))}
    return np.array([-1 if option is None else order[str(option)] for option in options], dtype=float)


def _shares(table: Array, scores: Array, resamples: int, trees: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the importance of each column in each bootstrap sample, and what the forest explained there."""
    from sklearn.ensemble import RandomForestRegressor

    count, width = table.shape
    variance = scores.var()
    shares: list[Array] = []
    explained: list[float] = []
    while len(shares) < resamples:
        sample = rng.integers(count, size=count)
        out = np.setdiff1d(np.arange(count), sample)
        if len(out) < 5:
            continue
        forest = RandomForestRegressor(trees, max_features=0.5, random_state=int(rng.integers(2**31)), n_jobs=1)
        forest.fit(table[sample], scores[sample])
        shuffled = np.tile(table[out], (width * SHUFFLES, 1, 1))
        for column in range(width):
            for turn in range(SHUFFLES):
                place = column * SHUFFLES + turn
                shuffled[place, :, column] = shuffled[place, rng.permutation(len(out)), column]
        predicted = forest.predict(np.vstack([table[out], shuffled.reshape(-1, width)])).reshape(-1, len(out))
        errors = ((predicted - scores[out]) ** 2).mean(axis=1)
        rises = errors[1:].reshape(width, SHUFFLES).mean(axis=1) - errors[0]
        shares.append(rises / (2 * variance))
        explained.append(float(1 - errors[0] / variance))
    return np.array(shares), np.array(explained)


def _options(options: Sequence[Any], values: Array, most: int = 8) -> tuple[Option, ...]:
    """Return the most frequent options with the mean value of their trials."""
    rng = np.random.default_rng(0)
    groups: dict[str, list[float]] = {}
    first: dict[str, Any] = {}
    for option, value in zip(options, values, strict=True):
        label = "absent" if option is None else str(option)
        groups.setdefault(label, []).append(float(value))
        first.setdefault(label, option)
    chosen = sorted(groups, key=lambda label: -len(groups[label]))[:most]
    numbers = all(isinstance(first[label], int | float) for label in chosen)
    chosen.sort(key=lambda label: (first[label], "") if numbers else (0, label))
    found = []
    for label in chosen:
        group = np.array(groups[label])
        means = group[rng.integers(len(group), size=(500, len(group)))].mean(axis=1)
        low, high = np.quantile(means, (0.025, 0.975))
        found.append(Option(label, len(group), float(group.mean()), float(low), float(high)))
    return tuple(found)
