"""Optimisers against torch's own and against the update rules; schedules against their closed forms."""

import math

import pytest
import torch
from torch import nn

from detol.search.recipe import Recipe
from detol.workers.optim import Optimiser, learning_rate


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 3)).double()


def gradients(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


@pytest.mark.parametrize("nesterov", [True, False])
def test_sgd_is_the_published_update(nesterov):
    # Sutskever et al. 2013 as torch states it: v <- m v + g;  w <- w - rate (g + m v), or w - rate v.
    recipe = Recipe(nesterov=nesterov, weight_decay=0.01, clip=0)
    model, expected = network(), network()
    optimiser = Optimiser(model, recipe)
    values = [p.detach().clone() for p in expected.parameters()]
    momenta = [torch.zeros_like(v) for v in values]
    for step, rate in enumerate((0.1, 0.05, 0.2)):
        gradients(model, step)
        given = [p.grad.clone() for p in model.parameters()]
        for value, momentum, gradient in zip(values, momenta, given, strict=True):
            gradient = gradient + (0.01 * value if value.ndim > 1 else 0)  # norms and biases are not decayed
            momentum.mul_(0.9).add_(gradient)
            value -= rate * (gradient + 0.9 * momentum if nesterov else momentum)
        optimiser.step(rate)
    for value, parameter in zip(values, model.parameters(), strict=True):
        torch.testing.assert_close(parameter.detach(), value)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_equals_torch_called_in_the_usual_way(name):
    recipe = Recipe(optimiser=name, learning_rate=0.01, weight_decay=0.02, clip=0)
    model, other = network(), network()
    ours = Optimiser(model, recipe)
    decayed = [p for p in other.parameters() if p.ndim > 1]
    groups = [
        {"params": decayed, "weight_decay": 0.02},
        {"params": [p for p in other.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    theirs = (
        torch.optim.AdamW(groups, lr=0.01)
        if name == "adamw"
        else torch.optim.SGD(groups, lr=0.01, momentum=0.9, nesterov=True)
    )
    for step in range(4):
        gradients(model, step)
        gradients(other, step)
        ours.step(0.01)
        theirs.step()
    for mine, reference in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, reference)


def test_gradients_are_clipped_and_cleared():
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    optimiser = Optimiser(model, Recipe(momentum=0.0, weight_decay=0.0, clip=2.0))
    gradients(model, 0)
    optimiser.step(1.0)
    moved = torch.cat([(p.detach() - b).flatten() for p, b in zip(model.parameters(), before, strict=True)])
    assert moved.norm().item() == pytest.approx(2.0, rel=1e-4)
    assert all(p.grad is None for p in model.parameters())


def rates(steps, **settings):
    return [learning_rate(Recipe(**settings), step, steps) for step in range(steps)]


def test_cosine_is_torch_s_cosine():
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=50)
    expected = []
    for _ in range(50):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert rates(50, schedule="cosine", warmup=0.0, learning_rate=0.3) == pytest.approx(expected)


def test_cosine_with_warm_up_rises_linearly_and_falls_by_the_formula():
    found = rates(100, schedule="cosine", warmup=0.2, learning_rate=1.0)
    assert found[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    assert found[20:] == pytest.approx([(1 + math.cos(math.pi * step / 80)) / 2 for step in range(80)])


def test_one_cycle_is_two_linear_legs():
    found = rates(10, schedule="one_cycle", warmup=0.4, learning_rate=2.0)
    assert found == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0, 5 / 3, 4 / 3, 1.0, 2 / 3, 1 / 3])


def test_constant_stays():
    assert rates(5, schedule="constant", warmup=0.0, learning_rate=0.1) == [0.1] * 5
    assert rates(4, schedule="constant", warmup=0.5, learning_rate=1.0) == [0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("schedule", ["cosine", "one_cycle", "constant"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_no_step_is_wasted(schedule, steps):
    assert all(0 < rate <= 0.1 for rate in rates(steps, schedule=schedule, warmup=0.9))
