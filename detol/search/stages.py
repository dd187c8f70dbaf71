"""The stages of a training whose rate falls in steps, or whose batch grows instead."""

from dataclasses import dataclass

from detol.search.recipe import Recipe

MILESTONES = (0.3, 0.6, 0.8)
"""Shares of the epochs after which a step comes: 60, 120 and 160 of 200 (Smith et al. 2018, section 5.1)."""
LARGEST = 10
"""The training samples over this are the largest batch where the recipe names none: the noise of the gradient is as
assumed for batches far below the size of the set (Smith et al. 2018, section 2)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What an epoch is trained with.

    Args:
        batch: global batch, >= 1.
        fall: what the schedule's learning rate is multiplied with, in (0, 1].
    """

    batch: int
    fall: float


def stage(recipe: Recipe, epoch: int, epochs: int, count: int) -> Stage:
    """Return the stage of an epoch, from 1, of so many; ``count``: training samples.

    ``step``: after each milestone the rate falls by the recipe's ``step_factor``. ``grow_batch``: the batch grows by it
    instead, which lowers the noise of the gradient, about rate * count / batch, alike (Smith et al. 2018, arXiv
    1711.00489, section 4) in fewer steps; what the largest batch leaves of the factor, the rate falls by. Stages change
    between epochs, at the first boundary at or behind a milestone.
    """
    if recipe.schedule not in ("step", "grow_batch"):
        return Stage(recipe.batch_size, 1.0)
    # Rounded, since 0.3 * 10 is a little above 3.
    passed = sum(epoch - 1 >= round(milestone * epochs, 9) for milestone in MILESTONES)
    factor = recipe.step_factor**passed
    if recipe.schedule == "step":
        return Stage(recipe.batch_size, 1 / factor)
    largest = max(recipe.batch_size, recipe.max_batch or count // LARGEST)
    batch = min(round(recipe.batch_size * factor), largest)
    return Stage(batch, min(1.0, batch / (recipe.batch_size * factor)))


def largest_part(recipe: Recipe, epochs: int, count: int, width: int) -> int:
    """Return the most samples that a rank ever has in memory at once: a part of the largest batch, >= 1."""
    batch = max(stage(recipe, epoch, epochs, count).batch for epoch in range(1, epochs + 1))
    return max(1, min(batch, count) // (width * recipe.accumulate))


def steps_of(count: int, batch_size: int, width: int) -> int:
    """Return how many global batches an epoch of ``count`` samples has on ``width`` ranks, >= 1.

    No batch is larger than ``batch_size``, unless a rank would have fewer than the 2 samples that batch norm needs.
    """
    return max(1, min(-(-count // batch_size), count // (2 * width)))
