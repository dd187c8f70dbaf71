"""Children whose edit broke what their parent had learnt: fitted to it again before their first step."""

import math
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
from detol.workers import known
from detol.workers import reconstruct as module
from detol.workers.data.dataset import Split
from detol.workers.known import share_known
from detol.workers.neutral import calibrate
from detol.workers.parent import restored
from detol.workers.reconstruct import reconstruct
from detol.workers.start import begin
from detol.workers.step import Criterion
from detol.workers.train import Training

RECIPE = Recipe(batch_size=64, learning_rate=0.1)
PARENT = chain(op("conv", channels=8), op("conv", channels=8, stride=2), op("conv", channels=8))


@pytest.fixture(scope="module")
def weights(tensors):
    return trained(PARENT, tensors)


def trained(topology, data, epochs=8, rate=0.1):
    training = Training(topology, data, replace(RECIPE, learning_rate=rate), epochs=epochs, seed=1)
    list(training.reports())
    return training.weights()


def born(child, parent, weights, data, nodes=None):
    """Return a child as the rule leaves it, and what reconstructs it."""
    transfer = Transfer(0, nodes=nodes or correspond(parent, child), rule="morph")
    torch.manual_seed(2)
    model = build(child, data.shape, data.outputs)
    found = begin(model, child, (parent, weights, transfer), data)
    calibrate(model, found.identities, data.standardised(data.some(256).x))
    taught = restored(parent, weights, data)
    return model, lambda: reconstruct(model, child, taught, parent, found, transfer, data)


def share(model, parent, weights, data):
    return share_known(model, parent, weights, data, RECIPE, Criterion(data, RECIPE))


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
    before = share(model, PARENT, weights, tensors)
    unmended = accuracy(model, tensors.validation, tensors)
    assert mend() > 0
    assert share(model, PARENT, weights, tensors) > max(0.55, before)
    assert accuracy(model, tensors.validation, tensors) > max(0.5, unmended - 0.02)


def test_the_edits_above_are_broken_indeed(tensors, weights):
    shares = []
    for child in EDITS.values():
        model, _ = born(child, PARENT, weights, tensors)
        shares.append(share(model, PARENT, weights, tensors))
    assert sum(share < 0.5 for share in shares) >= 4, shares


SERIES = [(edge, new) for edge in (1, 2) for new in (op("conv", channels=8), op("norm"), op("sepconv", channels=8))]


@pytest.mark.parametrize("grown", [None, (2, "beside"), *SERIES], ids=str)
def test_what_computes_the_same_is_not_touched(grown, tensors, weights):
    topology, nodes = PARENT, None
    if grown is not None:
        edge, new = grown
        place = Deepening("", edge, new == "beside", op("norm") if new == "beside" else new)
        growth = neutral(PARENT, place, (1, 8, 8))
        topology, nodes = growth.topology, growth.nodes
    model, mend = born(topology, PARENT, weights, tensors, nodes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [part.training for part in model.modules()]
    assert mend() == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert [part.training for part in model.modules()] == modes


def test_a_norm_that_was_put_into_its_layer_stays_there(tensors, weights):
    """Norms are scale and shift in evaluation: without them the child computes the same."""
    child = chain(*(op("conv", channels=8, stride=stride, norm=False) for stride in (1, 2, 1)))
    model, mend = born(child, PARENT, weights, tensors)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert mend() == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_norm_that_is_new_passes_on_what_was_there(tensors, monkeypatch):
    """The parent has none: what its layers gave is put back by the norm's scale and shift.

    What it knows is told by as many samples as it is fitted by: of fewer, norms have other statistics.
    """
    monkeypatch.setattr(known, "SAMPLES", module.SAMPLES)
    parent = chain(*(op("conv", channels=8, stride=stride, norm=False) for stride in (1, 2, 1)))
    weights = trained(parent, tensors, epochs=8, rate=0.02)
    model, mend = born(PARENT, parent, weights, tensors)
    assert share(model, parent, weights, tensors) < 0.5
    assert mend() > 0
    assert share(model, parent, weights, tensors) > 0.999
    first, theirs = (next(iter(one.nodes.values())) for one in (model, restored(parent, weights, tensors)))
    with torch.no_grad():
        gave = theirs.conv(tensors.standardised(tensors.train.x)).transpose(0, 1).flatten(1)
    torch.testing.assert_close(first.norm.weight, gave.std(1), rtol=0.1, atol=0.01)
    torch.testing.assert_close(first.norm.bias, gave.mean(1), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("child", ["another operation", "fewer channels"])
def test_rows_in_the_order_of_their_classes_do_no_harm(child, tensors, weights, monkeypatch):
    """Folders of images are read class by class: the first rows are all of one class."""
    order = torch.argsort(tensors.train.y, stable=True)
    ordered = replace(tensors, train=Split(tensors.train.x[order], tensors.train.y[order]))
    monkeypatch.setattr(module, "SAMPLES", 128)
    assert len(torch.unique(ordered.train.y[:128])) <= 2
    model, mend = born(EDITS[child], PARENT, weights, ordered)
    before = accuracy(model, tensors.validation, tensors)
    assert mend() > 0
    assert share(model, PARENT, weights, tensors) > 0.5
    assert accuracy(model, tensors.validation, tensors) > max(0.45, before - 0.05)


def test_a_regression_is_mended_too(tensors):
    """Its outputs are one value each; the oracle is the parent's."""
    target = tensors.train.x.float().flatten(1)[:, ::7].mean(1)
    mean, std = float(target.mean()), float(target.std())
    data = replace(
        tensors, task="regression", outputs=1, train=Split(tensors.train.x, target),
        validation=Split(tensors.train.x[:200], target[:200]), target_mean=mean, target_std=std,
    )  # fmt: skip
    weights = trained(PARENT, data, rate=0.02)
    model, mend = born(EDITS["another operation"], PARENT, weights, data)
    before = share(model, PARENT, weights, data)
    assert mend() > 0
    assert share(model, PARENT, weights, data) > max(0.5, before + 0.3)


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


def test_a_handful_of_samples_is_too_few(tensors, weights):
    few = replace(tensors, train=Split(tensors.train.x[:40], tensors.train.y[:40]))
    model, mend = born(EDITS["another operation"], PARENT, weights, few)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert mend() == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_parent_that_is_not_finite_changes_nothing(tensors, weights):
    model, _ = born(EDITS["another operation"], PARENT, weights, tensors)
    taught = restored(PARENT, weights, tensors)
    with torch.no_grad():
        next(taught.parameters()).fill_(math.nan)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    transfer = Transfer(0, nodes=correspond(PARENT, EDITS["another operation"]), rule="morph")
    found = begin(model, EDITS["another operation"], (PARENT, weights, transfer), tensors)
    assert reconstruct(model, EDITS["another operation"], taught, PARENT, found, transfer, tensors) == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_large_samples_are_fewer(tensors, weights, monkeypatch):
    """The largest activation of both networks has 8 channels of 8x8: VALUES / 512 samples are looked at."""
    seen = set()
    monkeypatch.setattr(module, "VALUES", 512 * 100)
    model, mend = born(EDITS["fewer channels"], PARENT, weights, tensors)
    model.register_forward_pre_hook(lambda _, inputs: seen.add(len(inputs[0])))
    mend()
    assert seen == {2, 100}


@pytest.mark.parametrize("space", ["image_cell", "image_dag", "tabular", "signal", "tiny"])
def test_mutations_of_all_spaces_know_more_after_it(space, tensors):
    shape = {"tabular": (64,), "signal": (1, 64)}.get(space, (1, 8, 8))
    train, validation = (
        Split(split.x[:300].reshape(-1, *shape), split.y[:300]) for split in (tensors.train, tensors.validation)
    )
    flat = [statistic.reshape([1] * len(shape)) for statistic in (tensors.shift, tensors.scale)]
    data = replace(tensors, shape=shape, train=train, validation=validation, shift=flat[0], scale=flat[1])
    found, rng = catalogue.load(space), np.random.default_rng(4)
    decisions = next(iter(found.references.values()))
    parent = found.decode(decisions)
    weights = trained(parent, data, epochs=2)
    shares = []
    for _ in range(8):
        model, mend = born(found.decode(found.mutate(decisions, rng)), parent, weights, data)
        before = share(model, parent, weights, data)
        mend()
        shares.append((before, share(model, parent, weights, data)))
    broken = [pair for pair in shares if pair[0] < 0.9]
    assert broken, shares
    assert all(1 - after < (1 - before) / 2 for before, after in broken), shares
    assert all(after > min(before, 1) - 0.05 for before, after in shares), shares
