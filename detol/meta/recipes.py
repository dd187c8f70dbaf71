"""Recipe defaults from what worked: of the recipes that were tried on the nearest data set, the one that did best."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from detol.search.warm import Experience

SHARED = 3
"""Topologies that two recipes must have trained both, for one to be called better than the other."""
CARRIED = ("optimiser", "learning_rate", "momentum", "weight_decay", "schedule", "warmup", "label_smoothing", "clip")
"""Settings that carry over: batch size and augmentation belong to the size and the shape of the data."""


def better_recipe(experiences: Sequence[Experience], data: str, usual: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings in which the best recipe of a data set differs from the usual one there; empty: none is better.

    Recipes are compared on the topologies that were trained under both, by the median of the differences, under the
    same objective and as many epochs: other topologies, or longer trainings, would say nothing of the recipe.

    Args:
        experiences: of any data sets.
        data: digest of the one that counts.
        usual: settings of the recipe that a search has by default.
    """
    of = [experience for experience in experiences if experience.data == data and experience.trials]
    best: tuple[float, Mapping[str, Any]] = (0.0, {})
    for base in of:
        if any(base.settings.get(name) != usual.get(name) for name in CARRIED):
            continue
        for other in of:
            if (other.objective, other.epochs) != (base.objective, base.epochs) or other.recipe == base.recipe:
                continue
            gain = _gain(base, other)
            if gain > best[0]:
                best = gain, other.settings
    settings = best[1]
    return {name: settings[name] for name in CARRIED if name in settings and settings[name] != usual.get(name)}


def _gain(base: Experience, other: Experience) -> float:
    before, after = _means(base), _means(other)
    shared = before.keys() & after.keys()
    if len(shared) < SHARED:
        return 0.0
    return statistics.median(after[digest] - before[digest] for digest in shared)


def _means(experience: Experience) -> dict[str, float]:
    each: dict[str, list[float]] = {}
    for trial in experience.trials:
        each.setdefault(trial.digest, []).append(trial.score)
    return {digest: statistics.fmean(scores) for digest, scores in each.items()}
