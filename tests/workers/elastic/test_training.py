"""A training goes on when ranks die: the same curve as without the death, up to rounding. Real processes, SIGKILL."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Report
from detol.workers.elastic.local import LocalRanks
from detol.workers.train import train

ENTRY = f"{Path(__file__).with_name('entries.py')}:trains"
PLAIN = chain(op("conv", channels=4, norm=False), op("conv", channels=8, stride=2, norm=False))
NORMED = chain(op("conv", channels=4), op("conv", channels=8, stride=2))
RECIPE = Recipe(batch_size=200, augment="crop", learning_rate=1.0)
EPOCHS = 3


def run(data, topology, recipe, deaths, width=3, device="cpu", way="auto"):
    """Train on ranks that die; return the curve and the last words of each survivor."""
    backend = "nccl" if device == "cuda" else "gloo"
    ranks = LocalRanks(width, ENTRY, data, topology, recipe, EPOCHS, deaths, device, way, backend=backend)
    curves, last = {rank: [] for rank in range(width)}, {}
    try:
        for word in ranks:
            if isinstance(word.item, Report):
                curves[word.rank].append(word.item)
            elif word.item:
                last[word.rank] = word.item
            assert not word.failure
    finally:
        ranks.close()
    assert ranks.kills == []
    return {rank: curves[rank] for rank in last}, last


def same(curve, other):
    """A step more or less would move the losses by 5e-3."""
    assert [report.epoch for report in curve] == list(range(1, EPOCHS + 1))
    for one, two in zip(curve, other, strict=True):
        for name, value in two.metrics.items():
            assert one.metrics[name] == pytest.approx(value, abs=1e-4 if name.endswith("loss") else 0.01), name


def steps(data):
    return -(-len(data.train) // RECIPE.batch_size)


@pytest.fixture(scope="module")
def alone(digits):
    return list(train(PLAIN, digits, RECIPE, epochs=EPOCHS, seed=3))


@pytest.mark.parametrize(
    ("deaths", "left", "words"),
    [
        pytest.param([(2, "backward", 2, 3)], (0, 1), ["2 at step {2:3}"], id="in the backward pass"),
        pytest.param([(0, "before", 1, 0)], (1, 2), ["0 at step {1:0}"], id="the first rank, before the first step"),
        pytest.param([(1, "start", 0, 0)], (0, 2), ["1 at step {1:0}"], id="before the training begins"),
        pytest.param([(1, "validation", 2, -1)], (0, 2), ["1 at step {3:0}"], id="in validation"),
        pytest.param(
            [(0, "backward", 1, 4), (1, "before", 3, 1)], (2,), ["0 at step {1:4}", "1 at step {3:1}"], id="one by one"
        ),
    ],
)
def test_the_curve_is_that_of_a_training_that_nobody_left(digits, alone, deaths, left, words):
    whole = steps(digits)
    deaths = [(rank, where, epoch, step % whole if step >= 0 else whole) for rank, where, epoch, step in deaths]
    curves, last = run(digits, PLAIN, RECIPE, deaths)
    assert set(curves) == set(left)
    for place, rank in enumerate(left):
        same(curves[rank], alone)
        assert (last[rank]["rank"], last[rank]["width"]) == (place, len(left))
        for said, (epoch, step) in zip(last[rank]["lost"], map(place_of, words), strict=True):
            # A rank may have completed the step whose exchange failed for another.
            assert said in {text(word, whole, more) for word in words for more in (0, 1)}, (epoch, step)
        np.testing.assert_array_equal(last[rank]["state"], last[left[0]]["state"])
        assert all(last[rank]["freed"])


def place_of(word):
    epoch, _, step = word.partition("{")[2].rstrip("}").partition(":")
    return int(epoch), int(step)


def text(word, whole, more):
    epoch, step = place_of(word)
    return word.partition("{")[0] + str((epoch - 1) * whole + step + more)


def test_synchronised_norms_go_on_over_the_survivors(digits):
    recipe = Recipe(batch_size=200, sync_norm=True, learning_rate=0.02)
    whole = list(train(NORMED, digits, recipe, epochs=EPOCHS, seed=3))
    curves, last = run(digits, NORMED, recipe, [(1, "backward", 2, 2)])
    for rank in (0, 2):
        for one, two in zip(curves[rank], whole, strict=True):
            assert one.metrics["train_loss"] == pytest.approx(two.metrics["train_loss"], abs=1e-3)
            assert one.metrics["val_loss"] == pytest.approx(two.metrics["val_loss"], abs=1e-2)
    np.testing.assert_array_equal(last[0]["state"], last[2]["state"])


@pytest.mark.parametrize("communication", ["topk:0.2", "powersgd:2", "local_sgd:2"])
def test_ways_that_remember_something_go_on(digits, communication):
    recipe = Recipe(batch_size=100, communication=communication, warmup=0.2)
    disturbed, last = run(digits, NORMED, recipe, [(0, "backward", 2, 3)])
    quiet, _ = run(digits, NORMED, recipe, [])
    for rank in (1, 2):
        assert [report.epoch for report in disturbed[rank]] == [1, 2, 3]
        for one, two in zip(disturbed[rank], quiet[rank], strict=True):
            assert one.metrics["val_loss"] == pytest.approx(two.metrics["val_loss"], abs=0.03)
    assert quiet[0][-1].metrics["val_loss"] < quiet[0][0].metrics["val_loss"] - 0.03
    np.testing.assert_array_equal(last[1]["state"], last[2]["state"])


def test_a_group_that_stays_open_holds_nothing_of_a_training_that_is_over(digits):
    entry = ENTRY.replace(":trains", ":forgets")
    ranks = LocalRanks(2, entry, digits, NORMED, Recipe(sync_norm=True))
    try:
        said = [word.item for word in ranks if not word.done]
    finally:
        ranks.close()
    assert said == [([1], True)] * 4


def test_what_is_recorded_with_a_group_is_let_go_of_before_it_is_closed():
    """NCCL waits for ever for the graphs that hold its calls, also where they are aborted."""
    ranks = LocalRanks(3, ENTRY.replace(":trains", ":records"), 2)
    try:
        said = [word.item for word in ranks if not word.done and word.rank == 0]
    finally:
        ranks.close()
    assert said == [["let go"], ["let go", "aborted", "closed"], ["let go", "closed"]]


gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")


@gpus
def test_on_gpus_a_group_ends_whose_recorded_training_is_still_held(digits):
    whole = list(train(PLAIN, digits, RECIPE, epochs=EPOCHS, seed=3, device="cuda"))
    curves, last = run(digits, PLAIN, RECIPE, [], width=2, device="cuda", way="graph")
    assert set(last) == {0, 1}
    for one, two in zip(curves[0], whole, strict=True):
        assert one.metrics["val_loss"] == pytest.approx(two.metrics["val_loss"], abs=1e-3)


@gpus
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize(("way", "where", "averaging"), [("eager", "backward", 0.9), ("graph", "before", 0.0)])
def test_on_gpus_one_goes_on_without_the_other(digits, victim, step, way, where, averaging):
    recipe = replace(RECIPE, averaging=averaging)
    whole = list(train(PLAIN, digits, recipe, epochs=EPOCHS, seed=3, device="cuda"))
    curves, last = run(digits, PLAIN, recipe, [(victim, where, 2, step)], width=2, device="cuda", way=way)
    (rank,) = last
    assert last[rank]["width"] == 1
    assert [report.epoch for report in curves[rank]] == [1, 2, 3]
    for one, two in zip(curves[rank], whole, strict=True):
        assert one.metrics["val_loss"] == pytest.approx(two.metrics["val_loss"], abs=1e-3)
