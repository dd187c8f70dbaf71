import dataclasses
import math

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import CheckpointError
from detol.execution.inline import InlineExecutor
from detol.graph.correspond import correspond
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Job, Origin, State, Transfer
from detol.spaces.decisions import Decisions
from detol.workers.checkpoint import facts, pack, unpack
from detol.workers.data.dataset import Split
from detol.workers.tensors import load
from detol.workers.train import Training

EPOCHS = 4
NORMED = chain(op("conv", channels=4), op("dropout", rate=0.3), op("conv", channels=6, stride=2))
PLAIN = chain(op("conv", channels=4, norm=False), op("flatten"), op("linear", features=8))
RECIPES = {
    "sgd": Recipe(augment="flip,crop", batch_size=32),
    "plain sgd": Recipe(momentum=0.0, nesterov=False, schedule="constant"),
    "adamw": Recipe(optimiser="adamw", learning_rate=3e-3, label_smoothing=0.1, schedule="one_cycle"),
    "bfloat16": Recipe(precision="bfloat16"),
    "averaged": Recipe(averaging=0.9, batch_size=32),
}


@pytest.fixture(scope="module")
def few(digits):
    """Returns digits cut to 200 samples, as tensors."""
    return load(dataclasses.replace(digits, train=Split(digits.train.x[:200], digits.train.y[:200])))


def training(topology, data, recipe, **options):
    return Training(topology, data, recipe, **{"epochs": EPOCHS, "seed": 3, **options})


def numbers(reports):
    return [(report.epoch, dict(report.metrics)) for report in reports]


def tensors(training):
    """Return what remains of the training: every parameter and buffer, and all that the optimiser remembers."""
    return {**training.model.state_dict(), **training._optimiser.tensors()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(tensor, second[name]) for name, tensor in first.items())


_WHOLE = {}


def undisturbed(topology, few, name):
    if (topology, name) not in _WHOLE:
        whole = training(topology, few, RECIPES[name])
        _WHOLE[topology, name] = numbers(whole.reports()), whole.weights(), tensors(whole)
    return _WHOLE[topology, name]


@settings(max_examples=25, deadline=None)
@given(
    pauses=st.sets(st.integers(1, EPOCHS - 1), min_size=1),
    name=st.sampled_from(list(RECIPES)),
    topology=st.sampled_from([NORMED, PLAIN]),
)
def test_pausing_at_any_epochs_changes_nothing_to_the_bit(few, pauses, name, topology):
    curve, weights, state = undisturbed(topology, few, name)
    found, checkpoint = [], None
    for until in [*sorted(pauses), 0]:
        torch.rand(5)  # another position of the global generators, as on another worker
        part = training(topology, few, RECIPES[name], checkpoint=checkpoint, until=until)
        found += numbers(part.reports())
        assert part.paused == bool(until)
        checkpoint = part.checkpoint()
    assert found == curve
    assert same(unpack(part.weights(), topology), unpack(weights, topology))
    assert same(tensors(part), state)


def test_a_checkpoint_holds_the_curve_so_far(few):
    part = training(NORMED, few, Recipe(), until=3)
    reports = list(part.reports())
    again = training(NORMED, few, Recipe(), checkpoint=part.checkpoint())
    assert again.curve == reports
    assert again.epoch == 3
    assert not again.paused
    assert [report.epoch for report in again.reports()] == [4]
    assert [report.epoch for report in again.curve] == [1, 2, 3, 4]


def test_what_was_inherited_is_in_the_checkpoint(few):
    before = training(NORMED, few, Recipe(), epochs=1)
    list(before.reports())
    parent = (NORMED, before.weights(), Transfer(0, correspond(NORMED, NORMED)))
    whole = training(NORMED, few, Recipe(), parent=parent)
    curve = numbers(whole.reports())
    assert curve != undisturbed(NORMED, few, "sgd")[0]
    part = training(NORMED, few, Recipe(), parent=parent, until=2)
    found = numbers(part.reports())
    again = training(NORMED, few, Recipe(), checkpoint=part.checkpoint())  # the parent is not needed any more
    assert found + numbers(again.reports()) == curve
    assert same(tensors(again), tensors(whole))


def test_until_the_end_is_no_pause(few):
    whole = training(NORMED, few, Recipe(), until=EPOCHS)
    assert len(list(whole.reports())) == EPOCHS
    assert not whole.paused


def test_a_checkpoint_says_whose_it_is_and_holds_no_pickles(few):
    part = training(NORMED, few, Recipe(), until=1)
    list(part.reports())
    checkpoint = part.checkpoint()
    found = facts(checkpoint)
    assert (found["kind"], found["epoch"], found["epochs"], found["seed"]) == ("training", "1", "4", "3")
    assert found["recipe"] == Recipe().digest
    assert all(isinstance(tensor, torch.Tensor) for tensor in safetensors.torch.load(checkpoint).values())


@pytest.fixture(scope="module")
def checkpoint(few):
    part = training(NORMED, few, Recipe(), until=2)
    list(part.reports())
    return part.checkpoint()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"topology": PLAIN}, "its digest is d1:"),
        ({"recipe": Recipe(batch_size=32)}, "its recipe is"),
        ({"seed": 4}, "its seed is 3, not 4"),
        ({"epochs": 9}, "its epochs is 4, not 9"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(few, checkpoint, change, line):
    given = {"topology": NORMED, "recipe": Recipe(), **change}
    with pytest.raises(CheckpointError, match=line) as caught:
        training(given.pop("topology"), few, given.pop("recipe"), checkpoint=checkpoint, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.1, 0.5, 0.99])
def test_a_checkpoint_that_is_cut_short_is_refused(few, checkpoint, kept):
    with pytest.raises(CheckpointError) as caught:
        training(NORMED, few, Recipe(), checkpoint=checkpoint[: int(kept * len(checkpoint))])
    assert "\n" not in str(caught.value)


def test_foreign_bytes_are_refused(few, checkpoint):
    weights = training(NORMED, few, Recipe()).weights()
    foreign = safetensors.torch.save({"model.x": torch.zeros(2)}, facts(checkpoint))
    twisted = safetensors.torch.save(safetensors.torch.load(checkpoint), {**facts(checkpoint), "curve": "[]"})
    for foreign_bytes, line in [
        (b"\x80\x04}\x94.", "not weights"),
        (weights, "not a checkpoint of a training"),
        (foreign, "does not fit the network"),
        (twisted, "curve cannot be read"),
    ]:
        with pytest.raises(CheckpointError, match=line) as caught:
            training(NORMED, few, Recipe(), checkpoint=foreign_bytes)
        assert "\n" not in str(caught.value)


def test_a_curve_that_is_not_finite_survives(few):
    part = training(NORMED, few, Recipe(), until=1)
    (report,) = part.reports()
    part.curve[0] = dataclasses.replace(report, metrics={**report.metrics, "val_r2": -math.inf})
    again = training(NORMED, few, Recipe(), checkpoint=part.checkpoint())
    assert again.curve == part.curve


def test_weights_alone_are_no_checkpoint_and_the_other_way_round(few, checkpoint):
    model = training(NORMED, few, Recipe()).model
    assert unpack(pack(model, NORMED), NORMED).keys() == model.state_dict().keys()
    assert all(name.startswith(("model.", "optimiser.")) for name in safetensors.torch.load(checkpoint))


def test_a_job_that_cannot_go_on_fails_alone(digits, checkpoint):
    executor = InlineExecutor(digits)
    candidate = Candidate(Decisions(), PLAIN, Origin.SAMPLE)
    executor.submit(Job(0, candidate, Recipe(), EPOCHS, seed=3, checkpoint=checkpoint))
    (end,) = executor.poll(0)
    assert isinstance(end, Ended)
    assert end.state is State.FAILED
    assert "the checkpoint is of another training" in end.reason
    executor.submit(Job(1, candidate, Recipe(), EPOCHS, seed=3, until=1))
    events = [*executor.poll(0), *executor.poll(0)]
    assert events[-1].state is State.PAUSED
    assert facts(events[-1].weights)["epoch"] == "1"
