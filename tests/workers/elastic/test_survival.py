"""What ranks agree on at a step boundary."""

import pytest
import torch
from torch import nn

from detol.search.recipe import Recipe
from detol.workers.communication import communicate
from detol.workers.elastic.survival import Survival
from detol.workers.optim import Optimiser
from detol.workers.stepping.epoch import Position


class Two:
    """A group of two ranks that keeps what it was asked."""

    width, rank = 2, 0

    def __init__(self):
        self.asked = []

    def agree(self, flags):
        self.asked.append("flags")
        return tuple(flags)

    def meet(self, flags, values):
        self.asked.append(tuple(values))
        return tuple(flags), tuple(values)


@pytest.mark.parametrize(
    ("device", "first", "later"),
    [
        ("cpu", (0.0, 0), (2.5, 7)),
        # A loss that was agreed on there would be on the host, and that of the next step is on the device.
        ("meta", "flags", "flags"),
    ],
)
def test_the_loss_travels_where_the_host_has_it_and_nowhere_else(device, first, later):
    model = nn.Linear(2, 2).to(device)
    group = Two()
    recipe = Recipe()
    survival = Survival(group, model, Optimiser(model, recipe), communicate(model, recipe, 2))
    position = Position(1)
    assert survival.agree((False,), position) == (False,)
    position.advance(torch.tensor(2.5, device=device), 7)
    survival.agree((False,), position)
    assert group.asked == [first, later]
