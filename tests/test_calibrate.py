"""Epochs that a bound in time allows."""

import numpy as np
import pytest

from detol import calibrate
from detol.config import EPOCHS
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.spaces import catalogue
from detol.workers.data import read


@pytest.fixture(scope="module")
def digits():
    return read("digits", limit=300)


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(1.0, 3), (12.0 * 4, 9), (13.0 * 4, 13), (26.9 * 4, 19), (27.0 * 4, EPOCHS), (1e6, EPOCHS)],
)
def test_a_quarter_of_the_time_holds_one_training(digits, monkeypatch, seconds, epochs):
    monkeypatch.setattr(calibrate, "epoch_seconds", lambda *_, **__: 1.0)
    space = catalogue.load("image_cell")
    assert calibrate.epochs_within(seconds, space, digits, Recipe(), device="cpu") == epochs


def test_the_smallest_that_can_be_built_is_timed(digits):
    small, large = (chain(op("conv", kernel=3, channels=width)) for width in (4, 32))
    impossible = chain(op("linear", features=4), op("conv", kernel=3, channels=4))
    assert calibrate.smallest([large, impossible, small], digits) is small
    assert calibrate.smallest([impossible], digits) is None


def test_an_epoch_takes_longer_with_more_samples(digits):
    # The same steps are timed; what differs is the number of samples they stand for.
    topology = chain(op("conv", kernel=3, channels=4))
    taken = calibrate.epoch_seconds(topology, digits, Recipe(batch_size=16), device="cpu")
    assert np.isfinite(taken)
    assert taken > 0
