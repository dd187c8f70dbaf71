"""Children whose edit broke what their parent had learnt: fitted to it again before their first step."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from detol.graph.build import build
from detol.graph.correspond import correspond
from detol.graph.grow import Deepening, neutral
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Transfer
from detol.spaces import catalogue
from detol.workers import reconstruct as module
from detol.workers.data.dataset import Split
from detol.workers.known import share_known
from detol.workers.parent import restored
from detol.workers.reconstruct import reconstruct
from detol.workers.start import begin
from detol.workers.step import Criterion
from detol.workers.tensors import load
from detol.workers.train import Training

RECIPE = Recipe(batch_size=64, learning_rate=0.1)
PARENT = chain(op("conv", channels=8), op("conv", channels=8, stride=2), op("conv", channels=8))


@pytest.fixture(scope="module")
def tensors(digits):
    return load(digits)


@pytest.fixture(scope="module")
def weights(tensors):
    return trained(PARENT, tensors)


def trained(topology, data, epochs=8):
    training = Training(topology, data, RECIPE, epochs=epochs, seed=1)
    list(training.reports())
    return training.weights()


def born(child, parent, weights, data):
    """Return a child as the rule leaves it, and what reconstructs it."""
    transfer = Transfer(0, nodes=correspond(parent, child), rule="morph")
    torch.manual_seed(2)
    model = build(child, data.shape, data.outputs)
    found = begin(model, child, (parent, weights, transfer), data)
    return model, lambda: reconstruct(
        model, child, restored(parent, weights, data), parent, found, transfer, data
    )  # fmt: skip


def accuracy(model, rows, data):
    """Of a copy of the network in evaluation, its norms' statistics as they are."""
    model.eval()
    with torch.no_grad():
        return (model(data.standardised(rows.x)).argmax(1) == rows.y).float().mean().item()


EDITS = {
    "another operation": chain(op("conv", channels=8), op("mbconv", channels=8, stride=2), op("conv", channels=8)),
    "a pooling in its place": chain(op("conv", channels=8), op("pool", mode="max", stride=2), op("conv", channels=8)),
    "a layer less": chain(op("conv", channels=8), op("conv", channels=8, stride=2)),
    "fewer channels": chain(op("conv", channels=8), op("conv", channels=6, stride=2), op("conv", channels=8)),
    "another resolution": chain(op("conv", channels=8, stride=2), op("conv", channels=8), op("conv", channels=8)),
    "another end": chain(op("conv", channels=8), op("conv", channels=8, stride=2), op("conv", channels=5)),
    "another activation": chain(
        op("conv", channels=8), op("conv", channels=8, stride=2, activation="tanh"), op("conv", channels=8)
    ),
}


@pytest.mark.parametrize("child", EDITS.values(), ids=EDITS.keys())
def test_an_edit_that_broke_what_was_learnt_is_mended_on_samples_that_were_not_looked_at(child, tensors, weights):
    model, mend = born(child, PARENT, weights, tensors)
    criterion = Criterion(tensors, RECIPE)
    before = share_known(model, PARENT, weights, tensors, RECIPE, criterion)
    unmended = accuracy(model, tensors.validation, tensors)
    assert mend() > 0
    after = share_known(model, PARENT, weights, tensors, RECIPE, criterion)
    assert after > max(0.6, before)
    assert accuracy(model, tensors.validation, tensors) > max(0.5, unmended - 0.02)


def test_the_edits_above_are_broken_indeed(tensors, weights):
    shares = []
    for child in EDITS.values():
        model, _ = born(child, PARENT, weights, tensors)
        shares.append(share_known(model, PARENT, weights, tensors, RECIPE, Criterion(tensors, RECIPE)))
    assert sum(share < 0.5 for share in shares) >= 4, shares


@pytest.mark.parametrize("child", ["itself", "grown"])
def test_what_computes_the_same_is_not_touched(child, tensors, weights):
    growth = neutral(PARENT, Deepening("", 2, True, op("norm")), (1, 8, 8))
    topology = PARENT if child == "itself" else growth.topology
    model, mend = born(topology, PARENT, weights, tensors)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [part.training for part in model.modules()]
    assert mend() == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert [part.training for part in model.modules()] == modes


def test_it_draws_nothing_and_is_the_same_each_time(tensors, weights):
    child = EDITS["another operation"]
    states = []
    for _ in range(2):
        model, mend = born(child, PARENT, weights, tensors)
        momenta = [part.momentum for part in model.modules() if hasattr(part, "momentum")]
        draws = torch.get_rng_state()
        mend()
        assert torch.equal(torch.get_rng_state(), draws)
        assert [part.momentum for part in model.modules() if hasattr(part, "momentum")] == momenta
        states.append(model.state_dict())
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


def test_a_handful_of_samples_is_too_few(tensors, weights, monkeypatch):
    few = replace(tensors, train=Split(tensors.train.x[:40], tensors.train.y[:40]))
    model, mend = born(EDITS["another operation"], PARENT, weights, few)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert mend() == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_large_samples_are_fewer(tensors, weights, monkeypatch):
    """Of 64 numbers each, VALUES / 64 samples are looked at."""
    seen = []
    monkeypatch.setattr(module, "VALUES", 64 * 100)
    model, mend = born(EDITS["another operation"], PARENT, weights, tensors)
    model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    mend()
    assert seen == [2, 100]


@pytest.mark.parametrize("space", ["image_cell", "image_dag", "tabular", "signal", "tiny"])
def test_mutations_of_all_spaces_know_no_less_after_it(space, tensors):
    shape = {"tabular": (64,), "signal": (1, 64)}.get(space, (1, 8, 8))
    train, validation = (
        Split(split.x[:300].reshape(-1, *shape), split.y[:300]) for split in (tensors.train, tensors.validation)
    )
    flat = [statistic.reshape([1] * len(shape)) for statistic in (tensors.shift, tensors.scale)]
    data = replace(tensors, shape=shape, train=train, validation=validation, shift=flat[0], scale=flat[1])
    found, rng = catalogue.load(space), np.random.default_rng(4)
    decisions = next(iter(found.references.values()))
    parent = found.decode(decisions)
    weights, criterion = trained(parent, data, epochs=2), Criterion(data, RECIPE)
    shares = []
    for _ in range(4):
        model, mend = born(found.decode(found.mutate(decisions, rng)), parent, weights, data)
        before = share_known(model, parent, weights, data, RECIPE, criterion)
        mend()
        shares.append((before, share_known(model, parent, weights, data, RECIPE, criterion)))
    assert all(after > min(before, 1) - 0.05 for before, after in shares), shares
