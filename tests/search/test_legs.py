"""How long a trial takes to its first milestone, foretold from others, and several side by side."""

import numpy as np
import pytest
from scipy.stats import linregress

from detol.search.legs import SPREAD, longest, makespan


def test_where_a_law_holds_it_is_continued():
    costs = [1e3, 1e4, 1e5, 1e6]
    assert longest(costs, [2 * cost**0.5 for cost in costs], 1e8) == pytest.approx(2e4)


def test_about_one_in_forty_takes_longer():
    rng = np.random.default_rng(0)
    costs = np.exp(rng.uniform(5, 15, 4_000))
    seconds = costs**0.6 * np.exp(rng.normal(0, 0.4, 4_000))
    over = np.mean([took > longest(costs, seconds, cost) for cost, took in zip(costs, seconds, strict=True)])
    assert 0.015 < over < 0.032  # 0.0228 beyond two standard deviations


def test_the_line_is_that_of_least_squares():
    rng = np.random.default_rng(1)
    costs = np.exp(rng.normal(10, 2, 12))
    seconds = costs**0.5 * np.exp(rng.normal(1, 1, 12))
    fit = linregress(np.log(costs), np.log(seconds))
    assert 0 < fit.slope < 1
    line = fit.intercept + fit.slope * np.log(costs)
    deviation = np.sqrt(np.sum((np.log(seconds) - line) ** 2) / 10)
    expected = np.exp(fit.intercept + fit.slope * np.log(5e4) + SPREAD * deviation)
    assert longest(list(costs), list(seconds), 5e4) == pytest.approx(expected)


@pytest.mark.parametrize("power", [-0.5, 2.0])
def test_what_costs_more_takes_no_less_and_no_more_than_in_proportion(power):
    costs = [1.0, 10.0, 100.0, 1_000.0]
    seconds = [cost**power for cost in costs]
    near, far = longest(costs, seconds, 1e3), longest(costs, seconds, 1e5)
    assert far / near == pytest.approx(1.0 if power < 0 else 100.0)


@pytest.mark.parametrize(
    ("costs", "seconds", "expected"),
    [([], [], 0.0), ([5.0], [3.0], 3.0), ([1.0, 2.0, 3.0], [4.0, 9.0, 1.0], 9.0), ([0.0] * 5, [0.0] * 5, 1e-6)],
)
def test_few_or_alike(costs, seconds, expected):
    assert longest(costs, seconds, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "workers", "expected"),
    [([3.0], 2, 3.0), ([2.0, 3.0, 4.0], 1, 9.0), ([2.0, 3.0, 4.0], 2, 5.0), ([5, 5, 4, 4, 3, 3, 3], 3, 11.0)],
)
def test_the_longest_first_schedule(seconds, workers, expected):
    # The last one is Graham's worst case (1969): 11 where 9 is possible.
    assert makespan(seconds, workers) == expected
