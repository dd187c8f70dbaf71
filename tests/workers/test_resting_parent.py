"""A parent that has not come to its end: its checkpoint is worth what the weights are that it was measured by."""

from dataclasses import replace

import pytest
import safetensors.torch
import torch

from detol.errors import CheckpointError
from detol.graph.correspond import correspond
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Transfer
from detol.workers.checkpoint import facts, unpack, unpack_optimiser
from detol.workers.evaluate import evaluate
from detol.workers.start import measured
from detol.workers.state import read_any
from detol.workers.train import Training

PARENT = chain(op("conv", channels=4), op("conv", channels=6, stride=2))
CHILD = chain(op("conv", channels=4), op("conv", channels=8, stride=2))
TRANSFER = Transfer(0, correspond(PARENT, CHILD))
RECIPES = {
    "averaged": Recipe(batch_size=64, averaging=0.9),
    "averaged, bfloat16": Recipe(batch_size=64, averaging=0.9, precision="bfloat16"),
    "raw": Recipe(batch_size=64, averaging=0.0),
}


def rested(tensors, recipe, topology=PARENT):
    """Returns a training that rests after the first of three epochs."""
    training = Training(topology, tensors, recipe, epochs=3, seed=1, until=1)
    list(training.reports())
    return training


@pytest.mark.parametrize("name", RECIPES)
def test_a_checkpoint_is_worth_the_weights_that_were_measured(tensors, name) -> None:
    """The oracle: what the training itself packs, and the score that it reported."""
    training = rested(tensors, RECIPES[name])
    topology, found, transfer = measured((PARENT, training.checkpoint(), TRANSFER), tensors, RECIPES[name])
    assert (topology, transfer) == (PARENT, TRANSFER)
    assert facts(found)["gone"] == facts(training.weights())["gone"] == repr(1 / 3)
    wanted = unpack(training.weights(), PARENT)
    got = unpack(found, PARENT)
    assert got.keys() == wanted.keys()
    assert all(torch.equal(got[key], wanted[key]) for key in wanted)
    if name == "averaged":
        raw = read_any(training.checkpoint(), PARENT).model
        assert not torch.equal(got["nodes.2.conv.weight"], raw["nodes.2.conv.weight"])
        reported = training.curve[-1].metrics["val_accuracy"]
        assert evaluate(PARENT, found, tensors, "validation")["val_accuracy"] == pytest.approx(reported)


def test_the_optimisers_memory_comes_along_where_it_is_wanted(tensors) -> None:
    training = rested(tensors, RECIPES["averaged"])
    wanted = unpack_optimiser(training.weights(optimiser=True))
    parent = (PARENT, training.checkpoint(), replace(TRANSFER, optimiser=True))
    found = unpack_optimiser(measured(parent, tensors, RECIPES["averaged"])[1])
    assert wanted
    assert found.keys() == wanted.keys()
    for name, memory in wanted.items():
        assert all(torch.equal(found[name][key], value) for key, value in memory.items())
    assert not unpack_optimiser(measured((*parent[:2], TRANSFER), tensors, RECIPES["averaged"])[1])


@pytest.mark.parametrize("rule", ["match", "morph"])
def test_a_child_starts_alike_from_a_checkpoint_and_from_weights(tensors, rule) -> None:
    training = rested(tensors, RECIPES["averaged"])
    transfer = replace(TRANSFER, rule=rule)
    one, other = (
        Training(CHILD, tensors, RECIPES["averaged"], epochs=2, seed=2, parent=(PARENT, state, transfer))
        for state in (training.checkpoint(), training.weights())
    )
    assert one.inherited == other.inherited
    assert 0 < one.inherited < 1
    assert [report.metrics for report in one.reports()] == [report.metrics for report in other.reports()]


@pytest.mark.parametrize(("epochs", "settles"), [(3, True), (4, False)])
def test_there_is_nothing_to_settle_into_where_the_parent_had_hardly_begun(tensors, epochs, settles) -> None:
    """The same network again knows all that its parent does, of whom a third or a quarter of the schedule had gone."""
    recipe = Recipe(batch_size=64, averaging=0.9, learning_rate=0.05)
    before = Training(PARENT, tensors, recipe, epochs=epochs, seed=1, until=1)
    list(before.reports())
    same = Transfer(0, correspond(PARENT, PARENT))
    for state in (before.checkpoint(), before.weights()):
        child = Training(PARENT, tensors, recipe, epochs=2, seed=2, parent=(PARENT, state, same))
        assert child.settles == settles


def test_weights_are_left_as_they_are(tensors) -> None:
    parent = (PARENT, rested(tensors, RECIPES["averaged"]).weights(), TRANSFER)
    assert measured(parent, tensors, RECIPES["averaged"]) is parent


def test_what_is_no_checkpoint_of_the_parent_is_refused_and_nothing_is_unpickled(tensors) -> None:
    recipe = RECIPES["averaged"]
    checkpoint = rested(tensors, recipe).checkpoint()
    found = safetensors.torch.load(checkpoint)
    about = facts(checkpoint)
    without = safetensors.torch.save({k: v for k, v in found.items() if k != "model.nodes.2.conv.weight"}, about)
    fewer = safetensors.torch.save({k: v for k, v in found.items() if k != "average.0"}, about)
    nameless = safetensors.torch.save(found, {k: v for k, v in about.items() if k != "seed"})
    for bad, line in [
        (b"\x80\x04cos\nsystem\n", "not weights"),
        (checkpoint[:-9], "cannot be read"),
        (without, "does not fit the parent"),
        (fewer, "does not fit the parent"),
        (nameless, "does not say whose"),
        (rested(tensors, recipe, CHILD).checkpoint(), "of another training: its digest"),
    ]:
        with pytest.raises(CheckpointError, match=line) as caught:
            Training(CHILD, tensors, recipe, epochs=2, seed=2, parent=(PARENT, bad, TRANSFER))
        assert "\n" not in str(caught.value)
