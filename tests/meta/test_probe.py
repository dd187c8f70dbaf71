"""Probes: the same on every data set of a kind, repeatable, and left out where they would take long."""

import numpy as np
import pytest

from detol.graph.digest import digest
from detol.meta import probe

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["image", "signal", "features"])
def test_no_two_probes_of_a_kind_are_alike(kind):
    found = [digest(network) for network in probe.probes(kind)]
    assert len(set(found)) == len(found) >= 5


def test_scores_repeat_to_the_bit_and_tell_networks_apart(make_data):
    x, y = RNG.normal(size=(96, 1, 8, 8)), np.arange(96) % 3
    data = make_data(x + y[:, None, None, None], y, kind="image")
    first, second = probe.probe_scores(data), probe.probe_scores(data)
    assert first == second
    assert set(first) <= {digest(network) for network in probe.probes("image")}
    assert len(set(first.values())) == len(first) >= 5
    assert max(first.values()) <= 0  # negative losses


def test_what_takes_too_long_is_left_out(make_data, monkeypatch):
    data = make_data(RNG.normal(size=(64, 4)), np.arange(64) % 2)
    monkeypatch.setattr(probe, "WORK", 3 * 64 * 300)
    found = probe.probe_scores(data)
    # By hand: 4 -> 32 -> 2 is 192 multiply-adds and stays, 4 -> 256 -> 2 is 1,536 and goes.
    kept = [digest(network) for network in probe.probes("features")]
    assert set(found) == {kept[0], kept[1]}
