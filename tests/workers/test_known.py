"""How much of its parent's knowledge a child starts with, and the schedule that follows from it."""

import math
from dataclasses import replace

import pytest
import torch

from detol.graph.correspond import correspond
from detol.graph.grow import Deepening, neutral
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Transfer
from detol.workers.checkpoint import facts
from detol.workers.data.dataset import Split
from detol.workers.known import SAMPLES, share_known
from detol.workers.optim import learning_rate
from detol.workers.start import inherited_rate
from detol.workers.step import Criterion
from detol.workers.train import Training

RECIPE = Recipe(batch_size=64, learning_rate=0.02)
PARENT = chain(op("conv", channels=8), op("conv", channels=8, stride=2), op("conv", channels=8))
BROKEN = chain(op("conv", channels=8), op("mbconv", stride=2), op("conv", channels=8))
"""Other layers in the middle: nothing that follows them fits any more."""


@pytest.fixture(scope="module")
def weights(tensors):
    training = Training(PARENT, tensors, RECIPE, epochs=4, seed=1)
    list(training.reports())
    return training.weights()


def vector(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def born(topology, weights, tensors, nodes=None, rule="morph", recipe=RECIPE, **options):
    transfer = Transfer(0, nodes=nodes or correspond(PARENT, topology), rule=rule)
    return Training(topology, tensors, recipe, epochs=5, seed=2, parent=(PARENT, weights, transfer), **options)


def known(model, weights, tensors, recipe=RECIPE):
    return share_known(model, PARENT, weights, tensors, recipe, Criterion(tensors, recipe))


def test_the_parent_itself_knows_all_and_fresh_weights_next_to_nothing(tensors, weights):
    own = Training(PARENT, tensors, RECIPE, epochs=1, seed=5)
    assert known(own.model, weights, tensors) < 0.1
    own.model.load_state_dict(born(PARENT, weights, tensors).model.state_dict())
    assert known(own.model, weights, tensors) == pytest.approx(1)


def test_it_is_the_share_of_the_way_from_a_guess_to_the_parent(tensors, weights):
    """A network of constant outputs, the logarithms of the classes' shares with one more of each, is the guess."""
    own = Training(PARENT, tensors, RECIPE, epochs=1, seed=5).model
    counts = torch.bincount(tensors.some(SAMPLES).y, minlength=10) + 1.0
    with torch.no_grad():
        *_, (_, last) = [pair for pair in own.named_modules() if isinstance(pair[1], torch.nn.Linear)]
        last.weight.zero_()
        last.bias.copy_((counts / counts.sum()).log())
    assert known(own, weights, tensors) == pytest.approx(0, abs=1e-5)


def test_a_parent_that_knows_nothing_leaves_nothing_to_know(tensors, weights):
    fresh = Training(PARENT, tensors, RECIPE, epochs=1, seed=5)
    assert known(fresh.model, fresh.weights(), tensors) == -math.inf
    with torch.no_grad():
        next(fresh.model.parameters()).fill_(math.nan)
    assert known(fresh.model, weights, tensors) == -math.inf


def test_measuring_leaves_no_trace(tensors, weights):
    own = born(BROKEN, weights, tensors)
    before = {name: tensor.clone() for name, tensor in own.model.state_dict().items()}
    modes, draws = [module.training for module in own.model.modules()], torch.get_rng_state()
    known(own.model, weights, tensors)
    assert all(torch.equal(tensor, before[name]) for name, tensor in own.model.state_dict().items())
    assert [module.training for module in own.model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), draws)


def test_the_guess_of_a_regression_is_the_mean(tensors, weights):
    """The squared error of the mean is the variance: a network of zeros knows nothing, whatever the unit."""
    draws = torch.Generator().manual_seed(3)
    x = tensors.train.x[:300]
    y = 40 + 7 * x.float().flatten(1).mean(1) + torch.randn(300, generator=draws)
    task = {"task": "regression", "outputs": 1, "target_mean": float(y.mean()), "target_std": float(y.std())}
    data = replace(tensors, train=Split(x, y), validation=Split(x, y), **task)
    parent = Training(PARENT, data, RECIPE, epochs=3, seed=1)
    list(parent.reports())
    zeros = Training(PARENT, data, RECIPE, epochs=1, seed=5).model
    with torch.no_grad():
        *_, last = [module for module in zeros.modules() if isinstance(module, torch.nn.Linear)]
        last.weight.zero_()
        last.bias.zero_()
    assert known(zeros, parent.weights(), data) == pytest.approx(0, abs=1e-5)
    assert known(parent.model, parent.weights(), data) == pytest.approx(1)


def test_who_knows_much_settles_and_who_knows_little_learns_as_from_scratch(tensors, weights):
    growth = neutral(PARENT, Deepening("", 2, False, op("conv")), (1, 8, 8))
    grown = born(growth.topology, weights, tensors, growth.nodes)
    broken = born(BROKEN, weights, tensors, rule="match")
    assert (grown.settles, broken.settles) == (True, False)
    assert broken.inherited > 0.3
    steps = 50
    assert [grown._rate(n, steps) for n in range(steps)] == [inherited_rate(RECIPE, n, steps, 5) for n in range(steps)]
    assert [broken._rate(n, steps) for n in range(steps)] == [learning_rate(RECIPE, n, steps) for n in range(steps)]
    assert not Training(PARENT, tensors, RECIPE, epochs=1, seed=1).settles


@pytest.mark.parametrize("rule", ["morph", "match"], ids=["settles", "does not"])
def test_who_settles_is_measured_by_weights_that_remember_the_parents(tensors, weights, rule):
    """After 18 steps at a decay of 0.999 the later weights have 1 - 0.999^18 < 0.02 of the average between them."""
    child = born(BROKEN, weights, tensors, rule=rule, recipe=replace(RECIPE, averaging=0.999), until=1)
    before = vector(child.model.parameters())
    list(child.reports())
    moved = (vector(child.model.parameters()) - before).norm()
    kept = (vector(child._average.tensors().values()) - before).norm()
    assert kept < 0.02 * moved if rule == "morph" else kept > 0.5 * moved


@pytest.mark.parametrize("rule", ["morph", "match"], ids=["settles", "does not"])
def test_the_schedule_survives_a_pause(tensors, weights, rule):
    child = BROKEN
    whole = [report.metrics for report in born(child, weights, tensors, rule=rule).reports()]
    first = born(child, weights, tensors, rule=rule, until=2)
    list(first.reports())
    checkpoint = first.checkpoint()
    assert facts(checkpoint)["settles"] == str(first.settles) == str(rule == "morph")
    on = Training(child, tensors, RECIPE, epochs=5, seed=2, checkpoint=checkpoint)
    list(on.reports())
    assert [report.metrics for report in on.curve] == whole
