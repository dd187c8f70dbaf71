"""A training goes on when ranks die: the same curve as without the death, up to rounding. Real processes, SIGKILL."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Job, Origin, Report, Transfer
from detol.spaces.decisions import Decisions
from detol.workers.elastic.local import LocalRanks
from detol.workers.entry import Paused
from detol.workers.train import Training, train

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


def words(width, name, *arguments):
    """Run an entry on so many ranks; return what each said, without how it ended."""
    ranks = LocalRanks(width, ENTRY.replace(":trains", f":{name}"), *arguments)
    said = {rank: [] for rank in range(width)}
    try:
        for word in ranks:
            assert not word.failure
            if not word.done:
                said[word.rank].append(word.item)
    finally:
        ranks.close()
    return said


def handed(item):
    """Return the network's tensors in what a job ends with."""
    tensors = safetensors.torch.load(item.checkpoint if isinstance(item, Paused) else item)
    mine = {name: tensor for name, tensor in tensors.items() if not name.startswith(("optimiser.", "communication."))}
    return {name.removeprefix("model."): tensor for name, tensor in mine.items()}


@pytest.mark.parametrize(
    ("until", "communication", "victim"), [(0, "plain", 0), (1, "plain", 0), (1, "topk:0.2", 0), (1, "topk:0.2", 2)]
)
def test_what_a_job_ends_with_is_handed_over_by_a_survivor(digits, until, communication, victim):
    recipe = Recipe(batch_size=200, communication=communication)
    job = Job(0, Candidate(Decisions(), PLAIN, Origin.SAMPLE), recipe, 2, seed=3, width=3, until=until)
    quiet, disturbed = words(3, "hands_over", digits, job, -1), words(3, "hands_over", digits, job, victim)
    first = min({0, 1, 2} - {victim})
    found, wanted = handed(disturbed[first][-2]), handed(quiet[0][-2])
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=0.0, atol=0.0, msg=name)
    last = until or 2
    for rank in {0, 1, 2} - {victim}:
        assert disturbed[rank][-1] == (f"{victim} at step {last * steps(digits)}",)
        assert [item.epoch for item in disturbed[rank] if isinstance(item, Report)] == list(range(1, last + 1))
    assert not [item for item in disturbed[3 - first - victim] if isinstance(item, bytes)]


def test_a_survivor_behind_the_last_report_waits_for_one_before_it(digits):
    """They are at different calls: one hands over, the other has lost the last message of its last epoch."""
    job = Job(0, Candidate(Decisions(), PLAIN, Origin.SAMPLE), Recipe(batch_size=200), 2, seed=3, width=3)
    said = words(3, "comes_late", digits, job)
    for rank in (0, 2):
        assert said[rank][-1] == (f"1 at step {2 * steps(digits)}",)
        assert [item.epoch for item in said[rank] if isinstance(item, Report)] == [1, 2]
    assert handed(said[0][-2])
    assert not [item for item in said[2] if isinstance(item, bytes)]


def test_of_survivors_one_of_whom_has_had_an_average_already_both_average(digits):
    """Else one would wait in a call that the other does not make."""
    said = words(3, "averages", digits, PLAIN, Recipe(batch_size=200, communication="local_sgd:2", warmup=0.1))
    for rank in (0, 1):
        assert len(said[rank][-1]) == 1
        assert said[rank][-1][0].startswith("2 at step ")
    np.testing.assert_array_equal(said[0][-2], said[1][-2])


def test_a_child_goes_on_when_a_rank_dies_before_its_first_step(digits):
    recipe = Recipe(batch_size=200)
    parent = Training(PLAIN, digits, recipe, epochs=1, seed=1)
    assert len(list(parent.reports())) == 1
    rule = (PLAIN, parent.weights(), Transfer(0, rule="match"))
    alone = list(Training(PLAIN, digits, recipe, epochs=2, seed=3, parent=rule).reports())
    said = words(3, "inherits", digits, PLAIN, recipe, rule, 2)
    for rank in (0, 1):
        *curve, lost = said[rank]
        assert lost == ("2 at step 0",)
        for one, two in zip(curve, alone, strict=True):
            assert one.metrics["val_loss"] == pytest.approx(two.metrics["val_loss"], abs=1e-4)


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
