import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.augment import Augmenter
from detol.workers.data.dataset import Split
from detol.workers.stepping import Eager, Epoch, Schedule
from detol.workers.tensors import batches, load
from detol.workers.train import Training

NETWORK = chain(op("conv", channels=4, norm=False), op("flatten"), op("linear", features=8, norm=False))


@pytest.fixture(scope="module")
def few(digits):
    """Returns digits cut to 101 samples, as tensors."""
    return load(dataclasses.replace(digits, train=Split(digits.train.x[:101], digits.train.y[:101])))


def epoch(count, steps, seed=0):
    augment = Augmenter("flip", "image")
    return Epoch.drawn(1, count, tuple(range(steps)), augment, torch.Generator().manual_seed(seed))


@given(count=st.integers(2, 300), size=st.integers(1, 100))
def test_batches_are_cut_as_global_batches_are(count, size):
    steps = Schedule.of(count, Recipe(batch_size=size), 1, 3).steps[0]
    made = epoch(count, steps)
    expected = list(batches(count, size, 1, made.order))
    found = list(made.batches())
    assert len(found) == len(expected) == len(made)
    for number, (batch, samples) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(batch.samples, samples)
        assert (batch.number, batch.rate) == (number, number)
        assert batch.draws.shape == (len(samples), 3)


def test_a_step_can_be_had_without_those_before_it():
    whole = list(epoch(50, 7).batches())
    rest = list(epoch(50, 7).batches(4))
    for batch, again in zip(whole[4:], rest, strict=True):
        assert torch.equal(batch.samples, again.samples)
        assert torch.equal(batch.draws, again.draws)


def test_rates_go_on_from_epoch_to_epoch():
    schedule = Schedule((3, 2, 4), (1.0, 1.0, 1.0))
    assert schedule.total == 9
    rates = [schedule.rates(number, lambda step, steps: step / steps) for number in (1, 2, 3)]
    assert [len(part) for part in rates] == [3, 2, 4]
    assert [rate for part in rates for rate in part] == [step / 9 for step in range(9)]


class Faulty:
    """A step that fails once, before its network is touched."""

    def __init__(self, inner, at):
        self.inner, self.at, self.kind, self.why = inner, at, inner.kind, inner.why

    def begin(self, epoch):
        self.inner.begin(epoch)

    def __call__(self, batch):
        if batch.number == self.at:
            self.at = None
            raise ConnectionError("a rank died")
        return self.inner(batch)


def test_a_training_whose_step_failed_goes_on_behind_the_last_completed_one(few):
    recipe = Recipe(batch_size=16, augment="flip,crop")
    undisturbed = Training(NETWORK, few, recipe, epochs=3, seed=1)
    expected = [dict(report.metrics) for report in undisturbed.reports()]
    training = Training(NETWORK, few, recipe, epochs=3, seed=1)
    training._step = Faulty(training._step, 5)
    with pytest.raises(ConnectionError):
        list(training.reports())
    assert (training.position.epoch, training.position.step) == (1, 5)
    assert training.position.samples == 15 * 3 + 14 * 2  # 101 samples in 7 batches: three of 15, four of 14
    found = [dict(report.metrics) for report in training.reports()]
    assert found == expected
    for name, tensor in undisturbed.model.state_dict().items():
        assert torch.equal(tensor, training.model.state_dict()[name])


@pytest.mark.parametrize("parts", [1, 2, 3, 50])
def test_gradients_of_parts_add_up_to_those_of_the_batch(few, parts):
    # Without norms a batch in parts is the same sum of gradients, in another order of additions.
    training = Training(NETWORK, few, Recipe(batch_size=40), epochs=2, seed=1)
    training._step = Eager(training._learner(), parts=parts)
    whole = Training(NETWORK, few, Recipe(batch_size=40), epochs=2, seed=1)
    for found, expected in zip(training.reports(), whole.reports(), strict=True):
        assert found.metrics["train_loss"] == pytest.approx(expected.metrics["train_loss"], rel=1e-4)
        assert math.isfinite(found.metrics["val_loss"])
    for found, expected in zip(training.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
