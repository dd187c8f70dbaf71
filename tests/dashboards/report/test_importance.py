"""Which decision matters, against what is known in closed form."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.dashboards.report.importance import LEAST, fence, importance


def grid(count, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [{name: each[int(rng.integers(len(each)))] for name, each in options.items()} for _ in range(count)]


def shares(answer):
    return {each.name: each for each in answer.decisions}


def test_of_an_additive_function_the_shares_are_those_of_the_variances():
    # y = 3a + b + 0c of independent coins: variances 9/4 and 1/4, so the total effects are 0.9, 0.1 and 0.
    tried = [dict(zip("abc", each, strict=True)) for each in itertools.product((0, 1), (0, 1), range(40))]
    values = [3.0 * each["a"] + each["b"] for each in tried]
    answer = importance(tried, values, resamples=12)
    found = shares(answer)
    assert [each.name for each in answer.decisions] == ["a", "b", "c"]
    assert found["a"].share == pytest.approx(0.9, abs=0.06)
    assert found["b"].share == pytest.approx(0.1, abs=0.04)
    assert found["c"].share == pytest.approx(0.0, abs=0.01)
    assert answer.explained[0] > 0.97


def test_of_a_pure_interaction_each_decision_has_the_whole_variance():
    # y = a xor b: knowing one says nothing, and without one nothing is known: total effects 1 and 1 (Saltelli 2008).
    tried = [dict(zip("abc", each, strict=True)) for each in itertools.product((0, 1), (0, 1), range(40))]
    found = shares(importance(tried, [float(each["a"] != each["b"]) for each in tried], resamples=12))
    assert found["a"].share == pytest.approx(1.0, abs=0.12)
    assert found["b"].share == pytest.approx(1.0, abs=0.12)
    assert abs(found["c"].share) < 0.03


def test_names_matter_as_numbers_do_and_what_is_absent_is_an_option():
    tried = [
        {"op": op, **({"kernel": kernel} if op == "conv" else {}), "noise": noise}
        for op, kernel, noise in itertools.product(("conv", "pool", "skip"), (3, 5), range(12))
    ]
    values = [{"conv": 1.0, "pool": 0.5, "skip": 0.0}[each["op"]] + 0.1 * each.get("kernel", 0) for each in tried]
    found = shares(importance(tried, values, resamples=10))
    assert found["op"].share > 0.1
    assert [option.label for option in found["kernel"].options] == ["3", "5", "absent"]
    assert sum(option.count for option in found["kernel"].options) == len(tried)
    assert abs(found["noise"].share) < 0.02


def test_intervals_of_noise_are_around_zero_and_nothing_is_explained():
    tried = grid(60, a=(0, 1, 2), b=("x", "y"), c=tuple(range(20)))
    answer = importance(tried, np.random.default_rng(3).standard_normal(60), resamples=12)
    assert all(each.low <= 0.02 for each in answer.decisions)
    assert answer.explained[1] < 0


def test_the_same_trials_get_the_same_answer():
    tried = grid(40, a=(0, 1, 2), b=tuple(range(10)))
    values = [each["a"] + 0.1 * each["b"] for each in tried]
    assert importance(tried, values, resamples=5) == importance(tried, values, resamples=5)


@pytest.mark.parametrize(
    ("tried", "values"),
    [
        ([], []),
        ([{"a": 1}] * 50, list(range(50))),  # nothing differs
        ([{"a": number} for number in range(LEAST - 1)], list(range(LEAST - 1))),
        ([{"a": number % 3} for number in range(60)], list(range(60))),  # three different trials only
        ([{"a": number} for number in range(60)], [0.5] * 60),
    ],
)
def test_where_nothing_can_be_said_nothing_is(tried, values):
    assert importance(tried, [float(value) for value in values]) is None


def test_options_have_their_plain_means():
    tried = [{"a": number % 2, "b": number} for number in range(40)]
    values = [float(number % 2) + 0.001 * number for number in range(40)]
    options = shares(importance(tried, values, resamples=5))["a"].options
    for option in options:
        group = [value for each, value in zip(tried, values, strict=True) if str(each["a"]) == option.label]
        assert option.mean == pytest.approx(np.mean(group))
        assert option.count == len(group)
        assert min(group) <= option.low <= option.mean <= option.high <= max(group)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_the_fence_keeps_order_and_what_lies_within(values):
    fenced = fence(np.array(values))
    first, third = np.quantile(values, (0.25, 0.75))
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(fenced[order]) >= 0)
    for before, after in zip(values, fenced, strict=True):
        if first <= before <= third:
            assert after == before
        if third > first:
            assert first - 1.5 * (third - first) - 1e-6 <= after <= third + 1.5 * (third - first) + 1e-6
