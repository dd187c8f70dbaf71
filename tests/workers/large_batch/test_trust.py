"""LARS and LAMB against timm 1.0.31 (its numbers stand here), against their formulas, and at their edges."""

import math

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from detol.search.recipe import Recipe
from detol.workers.large_batch import Lamb, Lars
from detol.workers.large_batch.trust import trust_ratios
from detol.workers.optim import Optimiser

# timm 1.0.31: Lars(lr=2, momentum=0.9, trust_coeff=0.01, eps=0), Lamb(lr=0.1, max_grad_norm=None), four steps.
TIMM = {
    "lars": (
        [[2.8642577338, -0.9982731520, 0.5364399252], [0.0537257046, 2.0151979787, -3.8532050485]],
        [3.4381, -6.8762],
    ),
    "lamb": (
        [[2.3178476779, -1.0385396588, 0.6189918236], [0.0103299715, 1.8776369373, -3.5558254005]],
        [1.2202798382, -2.2202801399],
    ),
}


def make(name: str, groups: list[dict[str, object]]) -> Optimizer:
    return Lars(groups, 2.0, trust=0.01) if name == "lars" else Lamb(groups, 0.1)


@pytest.mark.parametrize("name", TIMM)
def test_four_steps_are_those_of_timm(name: str) -> None:
    weight = nn.Parameter(torch.tensor([[3.0, -1.0, 0.5], [0.25, 2.0, -4.0]]).double())
    bias = nn.Parameter(torch.tensor([1.0, -2.0]).double())
    decayed: dict[str, object] = {"params": [weight], "weight_decay": 0.1}
    optimiser = make(name, [decayed, {"params": [bias], "weight_decay": 0.0, "adapted": False}])
    for step in range(4):
        gradient = torch.tensor([[0.1, 0.2, -0.3], [1.0, -0.5, 0.05]]).double()
        weight.grad = gradient * (step + 1) * (-1) ** (step // 2)
        bias.grad = torch.tensor([0.3, -0.6]).double() * (step - 1.5)
        optimiser.step()
    for found, expected in zip((weight, bias), TIMM[name], strict=True):
        # Their gradients were written in double precision, ours in single.
        torch.testing.assert_close(found.detach(), torch.tensor(expected).double(), rtol=1e-6, atol=1e-7)


def test_the_first_step_of_lars_is_by_the_formula() -> None:
    weight = nn.Parameter(torch.tensor([[3.0, 4.0]]))  # |w| = 5
    weight.grad = torch.tensor([[0.0, 2.0]])  # |g| = 2
    Lars([weight], 0.5, weight_decay=0.1, trust=0.01).step()
    ratio = 0.01 * 5 / (2 + 0.1 * 5)
    expected = torch.tensor([[3.0 - 0.5 * ratio * 0.3, 4.0 - 0.5 * ratio * 2.4]])
    torch.testing.assert_close(weight.detach(), expected)


def test_the_first_step_of_lamb_goes_a_share_of_the_weights() -> None:
    """Moments of one gradient make its sign: the step has the norm of the weights times the rate, whatever else."""
    for scale in (1e-3, 1.0, 1e3):
        weight = nn.Parameter(torch.tensor([[3.0, 4.0, 0.0, 0.0]]))
        before = weight.detach().clone()
        weight.grad = torch.tensor([[1.0, -1.0, 1.0, 1.0]]) * scale
        Lamb([weight], 0.01).step()
        moved = before - weight.detach()
        assert moved.norm().item() == pytest.approx(0.01 * 5, rel=1e-3)
        torch.testing.assert_close(moved / moved.norm(), torch.tensor([[0.5, -0.5, 0.5, 0.5]]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", TIMM)
def test_weights_and_gradients_of_zero_do_no_harm(name: str) -> None:
    fresh, dead = nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.ones(2, 3))
    optimiser = make(name, [{"params": [fresh, dead], "weight_decay": 0.0}])
    for _ in range(3):
        fresh.grad, dead.grad = torch.ones(2, 3), torch.zeros(2, 3)
        optimiser.step()
    assert torch.isfinite(fresh).all()
    assert (fresh < 0).all()
    assert torch.equal(dead.detach(), torch.ones(2, 3))


def test_ratios_are_scalars_of_one_factor() -> None:
    found = trust_ratios([torch.full((3, 3), 2.0), torch.zeros(4)], [torch.full((3, 3), 0.5), torch.ones(4)], 0.1)
    assert [ratio.item() for ratio in found] == pytest.approx([0.4, 1.0])


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_norms_and_biases_have_no_ratio_and_no_decay(name: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimiser = Optimiser(model, Recipe(optimiser=name, weight_decay=0.3))
    groups = {len(group["params"]): group for group in optimiser.inner.param_groups}
    assert (groups[1]["weight_decay"], groups[1]["adapted"]) == (0.3, True)
    assert (groups[3]["weight_decay"], groups[3]["adapted"]) == (0.0, False)


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_what_is_remembered_can_be_given_back(name: str) -> None:
    recipe = Recipe(optimiser=name, learning_rate=0.1)

    def trained(first: int, last: int, state: dict[str, torch.Tensor] | None = None) -> tuple[nn.Module, Optimiser]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 2)).to(memory_format=torch.channels_last)
        optimiser = Optimiser(model, recipe)
        if state is not None:
            model.load_state_dict({name: tensor for name, tensor in state.items() if not name[0].isupper()})
            optimiser.restore({name[1:]: tensor for name, tensor in state.items() if name[0].isupper()})
        for step in range(first, last):
            model(torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(step))).square().sum().backward()
            optimiser.step(0.1)
        return model, optimiser

    whole, _ = trained(0, 6)
    model, optimiser = trained(0, 3)
    state = {**model.state_dict(), **{f"O{name}": tensor for name, tensor in optimiser.tensors().items()}}
    rest, _ = trained(3, 6, state)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), rest.parameters(), strict=True))


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_a_closure_gives_its_loss(name: str) -> None:
    weight = nn.Parameter(torch.ones(2, 2))
    optimiser = make(name, [{"params": [weight]}])

    def closure() -> float:
        optimiser.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.item()

    assert optimiser.step(closure) == 4.0
    assert math.isfinite(weight.sum().item())
    assert weight.sum().item() < 4
