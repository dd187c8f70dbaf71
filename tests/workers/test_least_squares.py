"""Layers fitted to outputs that are wanted of them, against torch's own least squares and layers that have them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from detol.workers import least_squares
from detol.workers.least_squares import Places, can_fit, fit

LAYERS = {
    "linear": (lambda: nn.Linear(5, 4), (5,)),
    "signal": (lambda: nn.Conv1d(3, 4, 5, stride=2, padding=2), (3, 12)),
    "image": (lambda: nn.Conv2d(3, 6, 3, padding=1, bias=False), (3, 6, 7)),
    "dilated": (lambda: nn.Conv2d(3, 4, 3, padding=2, dilation=2), (3, 7, 6)),
    "groups": (lambda: nn.Conv2d(4, 6, (3, 1), padding=(1, 0), groups=2), (4, 6, 5)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4, bias=False), (4, 8, 8)),
    "volume": (lambda: nn.Conv3d(2, 3, 2), (2, 4, 4, 4)),
}


@pytest.fixture(params=LAYERS)
def case(request):
    """Return a layer, another of the same form, an input, all places of the output."""
    torch.manual_seed(3)
    make, shape = LAYERS[request.param]
    layer, other, x = make(), make(), torch.randn(64, *shape)
    size = layer(x).shape[2:]
    return layer, other, x, Places.drawn(len(x), size, 10**9, x.device)


def fitted(layer, x, places, wanted, rows=None):
    rows = torch.ones(wanted.shape[1], dtype=torch.bool) if rows is None else rows
    with torch.no_grad():
        return fit(layer, x, places, wanted, rows)


def test_a_layer_that_can_give_what_is_wanted_gives_it(case, monkeypatch):
    layer, other, x, places = case
    monkeypatch.setattr(least_squares, "RIDGE", 1e-12)
    assert fitted(layer, x, places, places.of(other(x)).detach())
    torch.testing.assert_close(layer.weight, other.weight, atol=1e-4, rtol=1e-4)
    if layer.bias is not None:
        torch.testing.assert_close(layer.bias, other.bias, atol=1e-4, rtol=1e-4)


def test_a_layer_that_cannot_comes_as_near_as_least_squares(monkeypatch):
    """The oracle is torch.linalg.lstsq on what torch's unfold lays out, with a column of ones for the bias."""
    torch.manual_seed(4)
    layer, x = nn.Conv2d(3, 5, 3, padding=1), torch.randn(30, 3, 6, 6)
    wanted = torch.randn(30, 5, 6, 6)
    monkeypatch.setattr(least_squares, "RIDGE", 1e-12)
    places = Places.drawn(30, (6, 6), 10**9, x.device)
    assert fitted(layer, x, places, places.of(wanted))
    columns = F.unfold(x, 3, padding=1).transpose(1, 2).reshape(-1, 27)
    columns = torch.cat([columns, torch.ones(len(columns), 1)], 1).double()
    best = torch.linalg.lstsq(columns, wanted.flatten(2).transpose(1, 2).reshape(-1, 5).double()).solution
    torch.testing.assert_close(layer.weight.flatten(1).T.double(), best[:27], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(layer.bias.double(), best[27], atol=1e-5, rtol=1e-4)


def test_without_a_bias_the_mean_is_left_to_a_norm(monkeypatch):
    torch.manual_seed(4)
    layer, other, x = nn.Linear(6, 3, bias=False), nn.Linear(6, 3), torch.randn(50, 6) + 2
    monkeypatch.setattr(least_squares, "RIDGE", 1e-12)
    assert fitted(layer, x, Places.drawn(50, (), 10**9, x.device), other(x).detach())
    torch.testing.assert_close(layer.weight, other.weight, atol=1e-4, rtol=1e-4)


def test_the_ridge_draws_to_the_weights_that_are_there(monkeypatch):
    """Closed form for one input: (x'y + r w) / (x'x + r), of what is about its mean, r a multiple of x'x."""
    x = torch.tensor([[-1.0], [0.0], [1.0]])
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(4.0)
    monkeypatch.setattr(least_squares, "RIDGE", 0.5)
    assert fitted(layer, x, Places.drawn(3, (), 9, x.device), torch.tensor([[-1.0], [0.0], [1.0]]))
    assert layer.weight.item() == pytest.approx((2 + 0.5 * 2 * 4) / (2 + 0.5 * 2))


def test_what_is_given_already_and_rows_without_an_aim_stay_bit_for_bit(case):
    layer, other, x, places = case
    before = layer.weight.detach().clone()
    assert not fitted(layer, x, places, places.of(layer(x)).detach())
    assert torch.equal(layer.weight, before)
    rows = torch.arange(len(before)) % 2 == 0
    assert fitted(layer, x, places, places.of(other(x)).detach(), rows)
    assert torch.equal(layer.weight[~rows], before[~rows])
    assert not torch.equal(layer.weight[rows], before[rows])


def test_an_output_that_is_off_by_a_constant_is_mended_in_the_bias():
    torch.manual_seed(5)
    layer, x = nn.Linear(4, 3), torch.randn(40, 4) + 1
    wanted = (layer(x) + torch.tensor([0.0, 5.0, 0.0])).detach()
    assert fitted(layer, x, Places.drawn(40, (), 99, x.device), wanted)
    torch.testing.assert_close(layer(x), wanted, atol=1e-4, rtol=0)


def test_one_faint_output_that_is_wrong_is_enough(monkeypatch):
    """It has a millionth of the variance of the others, which are right: a norm behind makes it as large as those."""
    monkeypatch.setattr(least_squares, "RIDGE", 1e-12)
    torch.manual_seed(6)
    layer, x = nn.Linear(4, 3, bias=False), torch.randn(80, 4)
    wanted = layer(x).detach()
    wanted[:, 1] = 1e-3 * x[:, 0]
    assert fitted(layer, x, Places.drawn(80, (), 99, x.device), wanted)
    torch.testing.assert_close(layer(x)[:, 1], wanted[:, 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_changes_nothing(bad):
    layer, x = nn.Linear(3, 2), torch.randn(9, 3)
    before, wanted = layer.weight.detach().clone(), torch.full((9, 2), bad)
    assert not fitted(layer, x, Places.drawn(9, (), 99, x.device), wanted)
    assert not fitted(layer, x * bad, Places.drawn(9, (), 99, x.device), torch.randn(9, 2))
    assert torch.equal(layer.weight, before)


def test_fewer_unknowns_than_rows_are_settled_by_the_ridge():
    """Four samples for 50 inputs: no unique solution, the nearest to the weights that are there is taken."""
    torch.manual_seed(1)
    layer, x, wanted = nn.Linear(50, 2), torch.randn(4, 50), torch.randn(4, 2)
    assert fitted(layer, x, Places.drawn(4, (), 9, x.device), wanted)
    torch.testing.assert_close(layer(x), wanted, atol=0.02, rtol=0)


def test_places_are_drawn_without_repetition_and_always_the_same():
    device = torch.device("cpu")
    some, again = (Places.drawn(10, (4, 5), 60, device) for _ in range(2))
    found = {tuple(map(int, place)) for place in zip(some.samples, *some.axes, strict=True)}
    assert len(some) == len(found) == 60
    assert all(torch.equal(a, b) for a, b in zip((some.samples, *some.axes), (again.samples, *again.axes), strict=True))
    values = torch.arange(10 * 3 * 20).reshape(10, 3, 4, 5)
    sample, row, column = next(iter(zip(some.samples, *some.axes, strict=True)))
    assert torch.equal(some.of(values)[0], values[sample, :, row, column])


def test_layers_of_other_making_are_left_alone():
    assert can_fit(nn.Conv2d(3, 4, 3))
    assert not can_fit(nn.Conv2d(3, 4, 3, padding_mode="reflect", padding=1))
    assert not can_fit(nn.Conv2d(3, 4, 3, padding="same"))
    assert not can_fit(nn.ConvTranspose2d(3, 4, 3))
    assert not can_fit(nn.Conv2d(1024, 4, 3))
    assert not can_fit(nn.BatchNorm2d(3))
