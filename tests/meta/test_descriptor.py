"""Figures of data sets against what they are by hand."""

import json
import math

import numpy as np
import pytest

from detol.meta.descriptor import Descriptor, describe

RNG = np.random.default_rng(0)


def test_sizes_are_logarithms_of_what_is_there(make_data):
    found = describe(make_data(RNG.normal(size=(50, 3, 8, 16)), np.arange(50) % 5, kind="image")).figures
    expected = {"log_rows": 50, "log_size": 3 * 8 * 16, "log_channels": 3, "log_side": 16, "log_outputs": 5}
    assert {name: pytest.approx(math.exp(found[name])) for name in expected} == expected


def test_balance_is_the_entropy_of_the_classes(make_data):
    x = RNG.normal(size=(400, 4))
    assert describe(make_data(x, np.arange(400) % 4)).figures["balance"] == pytest.approx(1)
    found = describe(make_data(x, (np.arange(400) % 4 == 0).astype(int))).figures
    assert found["balance"] == pytest.approx(-(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)))
    assert found["largest"] == pytest.approx(0.75)


def test_classes_that_lie_apart_are_near_their_own_and_chance_is_nought(make_data):
    y = np.arange(600) % 3
    apart = describe(make_data(RNG.normal(size=(600, 5)) + 100 * y[:, None], y)).figures
    mixed = describe(make_data(RNG.normal(size=(600, 5)), RNG.permutation(y))).figures
    assert apart["nearest"] == pytest.approx(1)
    assert abs(mixed["nearest"]) < 0.12


def test_a_target_that_follows_the_features_is_like_its_neighbours(make_data):
    x = RNG.random((500, 2))
    found = describe(make_data(x, (x[:, 0] * 7).astype(np.float32), task="regression")).figures
    assert found["nearest"] > 0.95
    assert abs(found["target_skewness"]) < 0.2  # uniform: symmetric
    assert "balance" not in found


def test_normal_values_have_no_skewness_and_no_excess(make_data):
    found = describe(make_data(RNG.normal(size=(1_000, 20)), np.arange(1_000) % 2)).figures
    assert found["skewness"] == pytest.approx(0, abs=0.05)
    assert found["kurtosis"] == pytest.approx(0, abs=0.1)
    laplace = describe(make_data(RNG.laplace(size=(1_000, 20)), np.arange(1_000) % 2)).figures
    assert math.expm1(laplace["kurtosis"]) == pytest.approx(3, rel=0.25)  # excess of a Laplace distribution


def test_units_do_not_matter(make_data):
    x, y = RNG.normal(size=(300, 6)), np.arange(300) % 2
    before, after = describe(make_data(x, y)).figures, describe(make_data(1_000 * x + 7, y)).figures
    assert after == pytest.approx(before, abs=1e-3)


def test_constant_and_most_frequent_values_are_counted(make_data):
    x = RNG.normal(size=(200, 4))
    x[:, 0] = 0
    x[:, 1] = np.where(np.arange(200) % 2, 0, x[:, 1])
    found = describe(make_data(x, np.arange(200) % 2)).figures
    assert found["constant"] == pytest.approx(1 / 4)
    assert found["zeros"] == pytest.approx(1.5 / 4)


def test_a_descriptor_survives_json(make_data):
    made = describe(make_data(RNG.normal(size=(30, 2)), np.arange(30) % 2)).with_probes({"d1:a": -0.5})
    assert Descriptor.from_dict(json.loads(json.dumps(made.as_dict()))) == made


def test_tiny_and_constant_data_have_finite_figures(make_data):
    for x, y in ((np.zeros((2, 3)), np.arange(2)), (np.ones((5, 1)), np.zeros(5, int))):
        found = describe(make_data(x, y))
        assert found.figures
        assert all(map(math.isfinite, found.figures.values()))
