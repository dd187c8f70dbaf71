"""How near data sets are: bounds, symmetry, and Kendall's tau by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.meta.descriptor import Descriptor
from detol.meta.distance import SCALES, Agreement, agreement, distance, similarity

figures = st.dictionaries(st.sampled_from(sorted(SCALES)), st.floats(-20, 20), min_size=1)


def described(found, kind="image", task="classification"):
    return Descriptor("x1:a", "a", kind, task, found)


@given(figures, figures)
def test_a_distance_is_symmetric_within_bounds_and_nought_to_itself(left, right):
    a, b = described(left), described(right)
    assert distance(a, a) == 0
    assert 0 <= distance(a, b) <= 1
    assert distance(a, b) == distance(b, a)


def test_it_is_the_mean_share_of_each_range():
    near = distance(described({"log_rows": 1.0, "nearest": 0.2}), described({"log_rows": 3.0, "nearest": 0.7}))
    assert near == pytest.approx((2 / SCALES["log_rows"] + 0.5 / SCALES["nearest"]) / 2)


def test_other_kinds_have_nothing_in_common_and_other_tasks_less():
    same = {"log_rows": 5.0}
    assert math.isinf(distance(described(same), described(same, kind="signal")))
    assert distance(described(same), described(same, task="regression")) == pytest.approx(0.5)
    assert distance(described(same), described({"balance": 1.0})) == 1


def test_tau_counts_the_pairs_that_are_ranked_alike():
    left = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "only here": 9.0}
    right = {"a": 10.0, "b": 30.0, "c": 20.0, "d": 40.0, "only there": 0.0}
    # Of 6 pairs one (b, c) is turned round: (5 - 1) / 6.
    assert agreement(left, right) == Agreement(pytest.approx(4 / 6), 4)
    turned = {name: -score for name, score in left.items()}
    assert agreement(left, turned).tau == pytest.approx(-1)


def test_too_few_or_equal_scores_say_nothing():
    assert agreement({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}) == Agreement(0, 0)
    flat = dict.fromkeys("abcd", 1.0)
    assert agreement(flat, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}) == Agreement(0, 0)


@given(st.floats(0, 1), st.floats(-1, 1), st.integers(0, 500))
def test_similarity_lies_between_what_figures_and_ranks_say(apart, tau, shared):
    found = similarity(apart, Agreement(tau, shared))
    low, high = sorted([1 - apart, (1 + tau) / 2])
    assert low - 1e-9 <= found <= high + 1e-9 or shared == 0
    assert similarity(apart, Agreement(tau, 0)) == pytest.approx(1 - apart)


def test_many_shared_topologies_outweigh_the_figures():
    assert similarity(0.0, Agreement(-1, 1_000)) < 0.02
    assert similarity(1.0, Agreement(1, 1_000)) > 0.98
    assert similarity(math.inf, Agreement(1, 1_000)) == 0
