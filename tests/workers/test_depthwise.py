"""Depthwise convolutions under bfloat16 on a CPU: which multiply in float32, and that nothing else changes."""

import copy

import pytest
import torch
from torch import nn

from detol.search.recipe import Recipe
from detol.workers.depthwise import exact

CPU = torch.device("cpu")
HALF = Recipe(precision="bfloat16")
LAYERS = {
    "5x5": (nn.Conv2d(8, 8, 5, padding=2, groups=8), True),
    "stride": (nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8), True),
    "dilation": (nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8), True),
    "signal, dilation": (nn.Conv1d(8, 8, 3, padding=4, dilation=4, groups=8), True),
    "multiplier": (nn.Conv2d(8, 16, 5, padding=2, groups=8), True),
    "3x3": (nn.Conv2d(8, 8, 3, padding=1, groups=8), False),
    "signal": (nn.Conv1d(8, 8, 9, padding=4, groups=8), False),
    "dense": (nn.Conv2d(8, 8, 5, padding=2), False),
    "groups": (nn.Conv2d(8, 8, 5, padding=2, groups=4), False),
    "one channel": (nn.Conv2d(1, 8, 5, padding=2), False),
}


@pytest.mark.parametrize("name", LAYERS)
def test_slow_ones_multiply_in_float32_and_round_what_comes_out(name):
    layer, slow = LAYERS[name]
    layer = copy.deepcopy(layer)
    x = torch.randn(4, layer.in_channels, *[11] * (layer.weight.ndim - 2), generator=torch.Generator().manual_seed(1))
    full = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = layer(x)
        found = exact(nn.Sequential(layer), HALF, CPU)(x)
    assert rounded.dtype == found.dtype == torch.bfloat16
    assert torch.equal(found, full.to(torch.bfloat16) if slow else rounded)


def test_gradients_are_those_of_float32():
    layer = nn.Conv2d(8, 8, 5, padding=2, groups=8)
    x = torch.randn(4, 8, 11, 11)
    layer(x).sum().backward()
    expected, layer.weight.grad = layer.weight.grad, None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        exact(layer, HALF, CPU)(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, expected)


@pytest.mark.parametrize(("recipe", "device"), [(Recipe(), CPU), (HALF, torch.device("cuda"))])
def test_elsewhere_nothing_changes(recipe, device):
    model = nn.Sequential(copy.deepcopy(LAYERS["5x5"][0]))
    assert type(exact(model, recipe, device)[0]) is nn.Conv2d


def test_outside_of_autocast_and_in_copies_the_layer_is_what_it_was():
    model = nn.Sequential(copy.deepcopy(LAYERS["5x5"][0]))
    x = torch.randn(2, 8, 11, 11)
    before, names = model(x), list(model.state_dict())
    changed = copy.deepcopy(exact(model, HALF, CPU))
    assert torch.equal(changed(x), before)
    assert list(changed.state_dict()) == names
    assert isinstance(changed[0], nn.Conv2d)
