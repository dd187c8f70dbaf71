"""How many steps each epoch of a training has, and the learning rate of each."""

from collections.abc import Callable
from dataclasses import dataclass

from detol.search.recipe import Recipe
from detol.search.stages import stage, steps_of

Rate = Callable[[int, int], float]
"""From (step, steps) of the whole training, the step from 0, to the learning rate."""


@dataclass(frozen=True)
class Schedule:
    """The steps of a whole training.

    Args:
        steps: of each epoch.
        falls: what the learning rate of each epoch is multiplied with, in (0, 1].
    """

    steps: tuple[int, ...]
    falls: tuple[float, ...]

    @classmethod
    def of(cls, count: int, recipe: Recipe, width: int, epochs: int) -> "Schedule":
        """Return the schedule for ``count`` training samples on so many ranks."""
        stages = [stage(recipe, epoch, epochs, count) for epoch in range(1, epochs + 1)]
        return cls(tuple(steps_of(count, each.batch, width) for each in stages), tuple(each.fall for each in stages))

    @property
    def total(self) -> int:
        """Steps of all epochs."""
        return sum(self.steps)

    def before(self, epoch: int) -> int:
        """Return the steps of all epochs before one, from 1."""
        return sum(self.steps[: epoch - 1])

    def rates(self, epoch: int, rate: Rate) -> tuple[float, ...]:
        """Return the learning rate of each step of an epoch, from 1."""
        before, fall = self.before(epoch), self.falls[epoch - 1]
        return tuple(fall * rate(before + step, self.total) for step in range(self.steps[epoch - 1]))
