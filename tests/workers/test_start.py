"""Trainings that start from a parent's weights: its score from the start, exact resume, fakes refused."""

from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch

from detol.errors import CheckpointError
from detol.graph.correspond import correspond
from detol.graph.flat import flat
from detol.graph.grow import Deepening, neutral
from detol.graph.ops import op
from detol.graph.resize import resized
from detol.graph.topology import Topology, chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Job, Origin, Report, Transfer
from detol.spaces.decisions import Decisions
from detol.workers.checkpoint import unpack, unpack_optimiser
from detol.workers.evaluate import evaluate
from detol.workers.group import Group
from detol.workers.train import Training
from detol.workers.training_job import run

RECIPE = Recipe(batch_size=64, learning_rate=0.01)
PARENT = chain(op("conv", channels=8), op("conv", channels=8, stride=2), op("conv", channels=8))


@pytest.fixture(scope="module")
def weights(tensors) -> bytes:
    training = Training(PARENT, tensors, RECIPE, epochs=4, seed=1)
    list(training.reports())
    return training.weights(optimiser=True)


def started(child: Topology, parent: Topology, weights: bytes, tensors, transfer=None, **options):
    transfer = transfer or Transfer(0, nodes=correspond(parent, child))
    return Training(child, tensors, RECIPE, epochs=3, seed=2, parent=(parent, weights, transfer), **options)


def test_a_child_is_as_good_as_its_parent_before_its_first_step(tensors, weights) -> None:
    growth = neutral(PARENT, Deepening("", 2, False, op("conv")), (1, 8, 8))
    assert growth is not None
    training = started(growth.topology, PARENT, weights, tensors, Transfer(0, nodes=growth.nodes))
    assert 0.5 < training.inherited < 1
    now = evaluate(growth.topology, training.weights(), tensors, "validation")
    assert now == pytest.approx(evaluate(PARENT, weights, tensors, "validation"), abs=1e-4)
    fresh = Training(growth.topology, tensors, RECIPE, epochs=3, seed=2)
    assert fresh.inherited is None
    first = next(training.reports()).metrics["val_accuracy"]
    assert first > next(fresh.reports()).metrics["val_accuracy"] + 0.1


def test_a_pause_is_unbroken_also_where_weights_were_inherited(tensors, weights) -> None:
    child = chain(op("conv", channels=8), op("conv", channels=12, stride=2), op("conv", channels=8))
    whole = [r.metrics for r in started(child, PARENT, weights, tensors).reports()]
    first = started(child, PARENT, weights, tensors, until=1)
    list(first.reports())
    on = started(child, PARENT, weights, tensors, checkpoint=first.checkpoint())
    list(on.reports())
    assert [r.metrics for r in on.curve] == whole


def test_the_optimisers_memory_is_cut_with_the_weights(tensors, weights) -> None:
    """Peer fault: what is pruned keeps an optimiser of the old size."""
    kept = (0, 2, 3, 5, 7)
    child = resized(PARENT, (1, 8, 8), {"1": 5})
    same = {path: path for path in flat(PARENT, (1, 8, 8))}
    transfer = Transfer(0, same, {"1": kept}, optimiser=True)
    training = started(child, PARENT, weights, tensors, transfer)
    old, new = unpack_optimiser(weights), unpack_optimiser(training.weights(optimiser=True))
    assert new.keys() == old.keys()
    for key, value in new["nodes.2.conv.weight"].items():
        there = old["nodes.2.conv.weight"][key]
        assert torch.equal(value, there[:, list(kept)] if there.ndim else there)
    assert not unpack_optimiser(training.weights())
    assert unpack(training.weights(optimiser=True), child).keys() == training.model.state_dict().keys()
    list(training.reports())
    without = started(child, PARENT, weights, tensors, replace(transfer, optimiser=False))
    assert not unpack_optimiser(without.weights(optimiser=True))


def test_weights_of_another_network_and_what_is_no_safetensors_are_refused(tensors, weights) -> None:
    """Peer fault (automl/NASLib#153): the graph goes with the weights, and its digest is verified."""
    child = chain(op("conv", channels=8), op("conv", channels=8))
    with pytest.raises(CheckpointError, match="not of"):
        started(child, child, weights, tensors)
    for fake in (b"", weights[:200], b"\x80\x04cos\nsystem\n"):
        with pytest.raises(CheckpointError):
            started(child, PARENT, fake, tensors)


def test_a_job_says_what_it_inherited(tensors, weights) -> None:
    child = chain(op("conv", channels=8), op("conv", channels=8, stride=2), op("conv", channels=10))
    transfer = Transfer(7, nodes=correspond(PARENT, child))
    candidate = Candidate(Decisions(), child, Origin.MUTATE, (7,), transfer=transfer)
    job = Job(8, candidate, RECIPE, 2, 3, parent=(PARENT, weights))
    items = list(run(job, tensors, group=Group(), stop=lambda: False))
    assert items[0]["inherited"] == pytest.approx(started(child, PARENT, weights, tensors).inherited)
    assert [item.epoch for item in items if isinstance(item, Report)] == [1, 2]
    alone = list(run(replace(job, parent=None), tensors, group=Group(), stop=lambda: False))
    assert isinstance(alone[0], Report)
    # The same job again gives the same curve: where a retry starts is where the first attempt did.
    again = list(run(job, tensors, group=Group(), stop=lambda: False))
    assert [i.metrics for i in again if isinstance(i, Report)] == [i.metrics for i in items if isinstance(i, Report)]
    assert np.isfinite(items[1].metrics["val_loss"])
    assert safetensors.torch.load(items[-1]).keys() == safetensors.torch.load(alone[-1]).keys()
