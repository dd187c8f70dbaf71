"""Whole trainings on two ranks: one network, one curve, what was sent, pauses, other widths, micro-batches."""

import dataclasses

import pytest
import torch

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.communication import memory_of
from detol.workers.data.dataset import Split
from detol.workers.train import Training


def test_every_way_ends_with_one_network_and_one_curve(two):
    for way, found in two[0]["learn"].items():
        other = two[1]["learn"][way]
        assert found["model"] == other["model"], way
        assert found["curve"] == other["curve"], way
        assert len(found["curve"]) == 3


def test_ways_that_lose_little_learn_alike(two):
    found = {way: answer["curve"][-1]["train_loss"] for way, answer in two[0]["learn"].items()}
    for way, loss in found.items():
        assert loss == pytest.approx(found["plain"], rel=0.01 if way in ("fp16", "bf16") else 0.1), way
    assert len(set(found.values())) == len(found)


def test_what_is_sent_is_recorded(two):
    learn = two[0]["learn"]
    size, steps = learn["plain"]["size"], learn["plain"]["sent"]["steps_exchanged"]
    assert steps == 3 * 7
    assert learn["plain"]["sent"] == {"bytes_sent": 4 * size * steps, "bytes_per_step": 4 * size, "steps_exchanged": 21}
    assert learn["fp16"]["sent"]["bytes_per_step"] == 2 * size
    sent = {way: answer["sent"]["bytes_sent"] for way, answer in learn.items()}
    assert sent["topk:0.05"] < sent["local_sgd:3"] < sent["plain"]
    assert sent["powersgd:2"] < sent["plain"]
    for item in (two[0]["job"], two[1]["job"]):
        assert item["facts"]["bytes_sent"] > 0
        assert item["facts"]["bytes_per_step"] == round(item["facts"]["bytes_sent"] / item["facts"]["steps_exchanged"])
    assert [item["job"]["checkpoint"] for item in two] == [True, False]


def test_pausing_at_any_epoch_changes_nothing_to_the_bit(two):
    for name, found in two[0]["pauses"].items():
        assert found["same"], name
        assert found["sent"], name
        assert two[1]["pauses"][name]["same"], name


def test_at_another_width_momentum_is_the_mean_and_the_curve_goes_on(two):
    for rank in two:
        found = rank["widths"]
        assert found["kept"]
        assert found["taken"]
        assert found["momentum left"] == 0
        assert len(found["curve"]) == 3
        first, alone, again = found["sent"]
        assert alone == first  # one rank alone sends nothing
        assert again["bytes_sent"] > first["bytes_sent"]
    assert two[0]["widths"]["curve"] == two[1]["widths"]["curve"]


def test_ranks_of_another_number_share_the_mean():
    rows = {"0.residual": torch.tensor([[1.0, 2.0], [3.0, -2.0]]), "0.factor": torch.tensor([[0.1], [0.1]])}
    assert torch.equal(memory_of(rows, 1, 2)["0.residual"], torch.tensor([3.0, -2.0]))
    for rank in range(3):
        found = memory_of(rows, rank, 3)
        assert torch.equal(found["0.residual"], torch.tensor([2.0, 0.0]))
        assert torch.equal(found["0.factor"], torch.tensor([0.1]))


def test_micro_batches_exchange_once_and_learn_the_same(two):
    whole, parts = (two[0]["accumulation"][name] for name in ("1", "3"))
    assert whole["sent"] == parts["sent"]
    assert whole["curve"] != parts["curve"]
    for one, other in zip(whole["curve"], parts["curve"], strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_micro_batches_are_the_batch_but_for_norms(digits):
    few = dataclasses.replace(digits, train=Split(digits.train.x[:150], digits.train.y[:150]))
    recipe = Recipe(batch_size=40, augment="crop")

    def losses(topology, parts):
        recipe_ = dataclasses.replace(recipe, accumulate=parts)
        training = Training(topology, few, recipe_, epochs=2, seed=2)
        return [report.metrics["train_loss"] for report in training.reports()]

    plain, normed = (chain(op("conv", channels=4, norm=norm), op("flatten")) for norm in (False, True))
    for parts in (2, 7, 1000):  # so many that two samples are left for each: as many as norms need
        assert losses(plain, parts) == pytest.approx(losses(plain, 1), rel=1e-5)
    assert losses(normed, 4) != pytest.approx(losses(normed, 1), rel=1e-3)


def test_ranks_measure_by_one_average_and_the_first_alone_packs_it(two):
    first, second = (answers["averaged"] for answers in two)
    assert first["average"] == second["average"]
    assert first["curve"] == second["curve"]
    assert first["val_accuracy"] == first["curve"][-1]["val_accuracy"]
    assert first["val_log_loss"] == pytest.approx(first["curve"][-1]["val_log_loss"], rel=1e-5)
