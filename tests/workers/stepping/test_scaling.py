import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.data.dataset import Split
from detol.workers.optim import Optimiser
from detol.workers.stepping import scaling
from detol.workers.stepping.pace import Pace
from detol.workers.stepping.scaling import FIRST, LossScale
from detol.workers.tensors import load
from detol.workers.train import Training

CPU = torch.device("cpu")


def step(model, optimiser, scale, x):
    """Take a step on the mean output."""
    scale(model(x).mean()).backward()
    overflow = scale.unscale(optimiser.gradients)
    optimiser.step(0.1, skip=overflow)
    scale.update(overflow)
    return bool(overflow)


@pytest.fixture
def short(monkeypatch):
    """Lets the scale grow after three steps."""
    monkeypatch.setattr(scaling, "INTERVAL", 3)


@settings(max_examples=20, deadline=None)
@given(finite=st.lists(st.booleans(), min_size=1, max_size=15))
def test_the_scale_moves_as_torchs_own_scaler_does(finite):
    ours, oracle = LossScale(CPU), torch.amp.GradScaler("cpu", init_scale=FIRST, growth_interval=scaling.INTERVAL)
    weight = nn.Parameter(torch.zeros(2))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    for good in finite:
        x = torch.tensor([1.0, 2.0 if good else torch.inf])
        oracle.scale((weight * x).sum()).backward()
        oracle.unscale_(optimiser)
        expected = weight.grad.clone()
        oracle.step(optimiser)
        oracle.update()
        gradient = x * float(ours(torch.ones(())))
        overflow = ours.unscale([gradient])
        ours.update(overflow)
        assert bool(overflow) is not good
        torch.testing.assert_close(gradient, expected, equal_nan=True)
        optimiser.zero_grad()
        assert ours(torch.ones(())).item() == oracle.get_scale()


@pytest.mark.usefixtures("short")
def test_the_scale_grows_after_steps_without_overflow():
    scale = LossScale(CPU)
    for _ in range(3):
        scale.update(torch.zeros(()))
    assert float(scale(torch.ones(()))) == 2 * FIRST
    scale.update(torch.ones(()))
    assert float(scale(torch.ones(()))) == FIRST


@pytest.mark.parametrize("name", ["sgd", "adamw", "lars", "lamb"])
def test_a_step_that_overflows_changes_nothing_but_the_scale(name):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimiser, scale = Optimiser(model, Recipe(optimiser=name, precision="float16", clip=1.0)), LossScale(CPU)
    bad = torch.full((4, 3), torch.inf)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert step(model, optimiser, scale, bad)  # the first one, when nothing is remembered yet
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(not tensor.any() for tensor in optimiser.tensors().values())
    assert not step(model, optimiser, scale, torch.randn(4, 3))
    moved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    kept = {name: tensor.clone() for name, tensor in optimiser.tensors().items()}
    assert not torch.equal(moved["weight"], before["weight"])
    assert step(model, optimiser, scale, bad)
    assert all(torch.equal(tensor, moved[name]) for name, tensor in model.state_dict().items())
    assert all(torch.equal(tensor, kept[name]) for name, tensor in optimiser.tensors().items())
    assert float(scale(torch.ones(()))) == FIRST / 4


def test_a_scaled_step_is_the_plain_one():
    torch.manual_seed(0)
    plain, scaled = nn.Linear(3, 2), nn.Linear(3, 2)
    scaled.load_state_dict(plain.state_dict())
    x = torch.randn(8, 3)
    ordinary, other = Optimiser(plain, Recipe()), Optimiser(scaled, Recipe(precision="float16"))
    scale = LossScale(CPU)
    for _ in range(3):
        plain(x).mean().backward()
        ordinary.step(0.1)
        assert not step(scaled, other, scale, x)
    torch.testing.assert_close(scaled.weight, plain.weight)


def test_its_state_is_told_and_taken_over():
    first, second = LossScale(CPU), LossScale(CPU)
    for overflow in (1.0, 0.0, 0.0):
        first.update(torch.tensor(overflow))
    second.restore(first.facts())
    assert second.facts() == first.facts() == {"loss_scale": repr(FIRST / 2), "loss_scale_steps": "2"}
    second.restore({})  # weights of another precision: it begins anew
    assert second.facts() == first.facts()


def test_float16_learns_as_float32_does(digits):
    few = load(dataclasses.replace(digits, train=Split(digits.train.x[:300], digits.train.y[:300])))
    network = chain(op("conv", channels=4), op("conv", channels=8, stride=2))
    curves = []
    for precision in ("float32", "float16"):
        training = Training(network, few, Recipe(precision=precision, batch_size=50), epochs=3, seed=1)
        curves.append([report.metrics["train_loss"] for report in training.reports()])
    assert curves[1] == pytest.approx(curves[0], rel=0.03)
    assert curves[1] != curves[0]


def test_a_host_has_nothing_to_wait_for():
    pace = Pace(CPU)
    for _ in range(100):
        pace.step()
    assert not pace._marks
