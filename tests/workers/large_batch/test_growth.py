"""Linear scaling with warm-up, rates that fall in steps, and batches that grow instead."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.stages import Stage, largest_part, stage
from detol.workers.data.dataset import Split
from detol.workers.optim import learning_rate
from detol.workers.stepping.schedule import Schedule
from detol.workers.train import Training

CIFAR = 50_000


def stages(recipe: Recipe, epochs: int, count: int = CIFAR) -> list[Stage]:
    return [stage(recipe, epoch, epochs, count) for epoch in range(1, epochs + 1)]


def test_the_stages_of_the_paper() -> None:
    """Smith et al. 2018, section 5.1: 200 epochs, batch 128, factor 5: 128, 640, 3200, and then the batch is full."""
    grown = stages(Recipe(schedule="grow_batch", batch_size=128), 200)
    assert [grown[epoch].batch for epoch in (0, 59, 60, 119, 120, 159, 160, 199)] == [
        *(128, 128, 640, 640, 3200, 3200, 5000, 5000)
    ]
    assert {each.fall for each in grown[:160]} == {1.0}
    # Beyond a tenth of the samples the rate falls by what is left of the factor: their "hybrid" curve does so too.
    assert grown[-1].fall == pytest.approx(5000 / 16_000)
    fallen = stages(Recipe(schedule="step", batch_size=128), 200)
    assert {each.batch for each in fallen} == {128}
    assert [fallen[epoch].fall for epoch in (59, 60, 120, 160)] == pytest.approx([1, 1 / 5, 1 / 25, 1 / 125])


@given(
    st.integers(1, 60),
    st.integers(1, 300),
    st.floats(1.1, 20),
    st.integers(10, 100_000),
    st.sampled_from([0, 64, 10_000]),
)
def test_growing_lowers_the_noise_as_falling_does(
    epochs: int, batch: int, factor: float, count: int, largest: int
) -> None:
    """The noise is about rate / batch (eq. 3 for small batches): alike after every epoch, to a rounded batch."""
    settings = {"batch_size": batch, "step_factor": factor, "max_batch": largest}
    grown = stages(Recipe(schedule="grow_batch", **settings), epochs, count)
    fallen = stages(Recipe(schedule="step", **settings), epochs, count)
    for one, other in zip(grown, fallen, strict=True):
        assert one.fall / one.batch == pytest.approx(other.fall / other.batch, rel=0.5 / one.batch + 1e-9)
        assert one.batch <= max(batch, largest or count // 10)
        assert 0 < one.fall <= 1


def test_other_schedules_have_one_stage() -> None:
    assert set(stages(Recipe(batch_size=32), 10)) == {Stage(32, 1.0)}


def test_milestones_are_epochs_even_where_shares_are_rounded() -> None:
    found = stages(Recipe(schedule="step", step_factor=2.0), 10)
    assert [each.fall for each in found] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]


def test_memory_is_for_the_largest_batch_and_the_smallest_parts() -> None:
    grown = Recipe(schedule="grow_batch", batch_size=10, step_factor=2.0, max_batch=40)
    assert [largest_part(grown, epochs, 400, 2) for epochs in (10, 1)] == [20, 5]
    assert largest_part(Recipe(batch_size=64, accumulate=4), 5, 1000, 2) == 8
    assert largest_part(Recipe(batch_size=64, accumulate=100), 5, 1000, 2) == 1
    assert largest_part(Recipe(batch_size=640), 5, 100, 1) == 100


def test_the_schedule_has_fewer_steps_as_batches_grow() -> None:
    recipe = Recipe(schedule="grow_batch", batch_size=10, step_factor=2.0, max_batch=40, warmup=0.0, learning_rate=1.0)
    schedule = Schedule.of(400, recipe, 1, 10)
    assert schedule.steps == (40, 40, 40, 20, 20, 20, 10, 10, 10, 10)
    assert schedule.before(4) == 120
    assert schedule.total == 220
    rates = [schedule.rates(epoch, lambda step, steps: learning_rate(recipe, step, steps)) for epoch in range(1, 11)]
    assert [len(each) for each in rates] == list(schedule.steps)
    assert {rate for each in rates[:8] for rate in each} == {1.0}
    assert set(rates[8]) == {0.5}  # the batch is at its largest: the last factor is the rate's


def test_linear_scaling_warms_up_from_the_rate_of_the_base_batch() -> None:
    """Goyal et al. 2017, section 2.2: from 0.1 by constant amounts to k times 0.1, here k = 8."""
    recipe = Recipe(schedule="constant", learning_rate=0.1, base_batch=256, batch_size=2048, warmup=0.25)
    found = [learning_rate(recipe, step, 16) for step in range(16)]
    assert found[:4] == pytest.approx([0.275, 0.45, 0.625, 0.8])
    assert found[4:] == pytest.approx([0.8] * 12)


def test_a_batch_like_the_base_changes_nothing_but_the_warm_up() -> None:
    plain, based = Recipe(batch_size=64), Recipe(batch_size=64, base_batch=64)
    assert [learning_rate(based, step, 50) for step in range(5, 50)] == [
        learning_rate(plain, step, 50) for step in range(5, 50)
    ]
    assert {learning_rate(based, step, 50) for step in range(5)} == {0.1}


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "grow_batch", "batch_size": 16, "max_batch": 64},
        {"schedule": "step", "batch_size": 32},
        {"optimiser": "lars", "learning_rate": 10.0, "batch_size": 64},
        {"optimiser": "lamb", "learning_rate": 0.03, "batch_size": 128},
        {"batch_size": 128, "base_batch": 32, "learning_rate": 0.1, "accumulate": 4},
    ],
)
def test_digits_are_learnt_and_pausing_changes_nothing(digits, settings) -> None:  # type: ignore[no-untyped-def]
    few = dataclasses.replace(digits, train=Split(digits.train.x[:600], digits.train.y[:600]))
    topology, recipe = chain(op("conv", channels=8), op("flatten")), Recipe(warmup=0.2, **settings)
    whole = [dict(each.metrics) for each in Training(topology, few, recipe, epochs=5, seed=1).reports()]
    assert whole[-1]["val_accuracy"] > 0.8
    first = Training(topology, few, recipe, epochs=5, seed=1, until=3)
    found = [dict(each.metrics) for each in first.reports()]
    rest = Training(topology, few, recipe, epochs=5, seed=1, checkpoint=first.checkpoint())
    assert found + [dict(each.metrics) for each in rest.reports()] == whole
