"""How many steps each epoch of a training has, and the learning rate of each."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from detol.search.recipe import Recipe
from detol.workers.tensors import steps_of

Rate = Callable[[int, int], float]
"""From (step, steps) of the whole training, the step from 0, to the learning rate."""


def batch_size(recipe: Recipe, epoch: int, epochs: int) -> int:  # noqa: ARG001  one size for all epochs, as yet
    """Return the global batch of an epoch (from 1) of so many."""
    return recipe.batch_size


@dataclass(frozen=True)
class Schedule:
    """The steps of a whole training.

    Args:
        steps: of each epoch.
    """

    steps: tuple[int, ...]

    @classmethod
    def of(cls, count: int, recipe: Recipe, width: int, epochs: int) -> "Schedule":
        """Return the schedule for ``count`` training samples on so many ranks."""
        sizes = [batch_size(recipe, epoch, epochs) for epoch in range(1, epochs + 1)]
        return cls(tuple(steps_of(count, size, width) for size in sizes))

    @property
    def total(self) -> int:
        """Steps of all epochs."""
        return sum(self.steps)

    def rates(self, epoch: int, rate: Rate) -> tuple[float, ...]:
        """Return the learning rate of each step of an epoch, from 1."""
        before = [0, *accumulate(self.steps)][epoch - 1]
        return tuple(rate(before + step, self.total) for step in range(self.steps[epoch - 1]))
