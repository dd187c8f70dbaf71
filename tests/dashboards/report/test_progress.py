"""Best so far, and what random search reaches, against closed forms and plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.dashboards.report import progress
from detol.dashboards.report.picture import Band, Line
from detol.search.records import Objective, State


def test_the_band_of_trials_is_that_of_the_greatest_of_k_draws():
    # P(best of k <= v) = F(v)^k, so the q-quantile is where F is q^(1/k).
    scores = np.sort(np.random.default_rng(0).random(200))
    found = progress.chance(scores, np.ones(200), sequences=4000)
    for x, low, middle, high in zip(found.x, found.low, found.middle, found.high, strict=True):
        draws = int(x + 1e-9)
        for quantile, value in zip(progress.QUANTILES, (low, middle, high), strict=True):
            share = np.searchsorted(scores, value, side="right") / 200
            # within four standard errors of the share that 4,000 sequences can tell
            error = 4 * np.sqrt(quantile * (1 - quantile) / 4000)
            below, above = ((max(quantile + sign * error, 1e-9)) ** (1 / draws) for sign in (-1, 1))
            assert below - 1 / 200 <= share <= above + 1 / 200


def test_twice_the_cost_is_twice_the_budget():
    scores = np.random.default_rng(1).random(40)
    one, two = (progress.chance(scores, np.full(40, cost)) for cost in (1.0, 2.0))
    assert np.allclose(two.x, 2 * one.x)
    assert np.array_equal(two.middle, one.middle)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 9)), min_size=2, max_size=40), st.integers(0, 99))
def test_a_band_rises_and_stays_within_the_scores(pairs, seed):
    scores, costs = (np.array(column) for column in zip(*pairs, strict=True))
    found = progress.chance(scores, costs, seed=seed, sequences=50)
    for part in (found.low, found.middle, found.high):
        assert np.all(part[1:] >= part[:-1])
        assert np.all((part == -np.inf) | np.isin(part, scores))
    assert np.all(found.low <= found.middle)
    assert np.all(found.middle <= found.high)
    assert found.x[-1] == pytest.approx(costs.sum())


def drawn(picture, kind, look):
    return next(mark for mark in picture.marks if isinstance(mark, kind) and mark.look == look)


def test_the_line_is_the_best_completed_trial_at_each_time(first):
    for picture, way in zip(progress.pictures(first), progress.WAYS, strict=True):
        line = drawn(picture, Line, "best")
        best, spent, expected = -1.0, 0.0, []
        for record in sorted(first.records, key=lambda r: (r.ended, r.number)):
            spent += {"trials": 1.0, "epochs": record.epoch, "time": 0.0}[way]
            at = first.clock(record.ended) / (60.0 if picture.x.label.startswith("minutes") else 1.0)
            if record.state is State.COMPLETED and record.value > best:
                best = record.value
                expected.append((at if way == "time" else spent, best))
        assert np.allclose(np.column_stack([line.x, line.y])[:-1], expected)
        assert line.y[-1] == best


def test_the_band_is_made_of_the_random_search_on_the_same_data_space_and_recipe(first):
    assert list(first.random) == ["chance"]  # not ``elsewhere``, which is of another space
    values = {record.value for record in first.random["chance"] if record.state is State.COMPLETED}
    for picture in progress.pictures(first):
        band = drawn(picture, Band, "random")
        assert set(band.high) <= values
        assert picture.y.low < min(band.low)
    assert "random trials of chance" in progress.pictures(first)[0].note


def test_without_a_random_search_there_is_no_band_and_the_note_says_why(query):
    from dataclasses import replace

    from detol.dashboards.report.facts import read

    alone = replace(read(query, "first"), random={})
    picture = progress.pictures(alone)[0]
    assert not any(isinstance(mark, Band) for mark in picture.marks)
    assert "There is no band of random search" in picture.note


def test_a_random_search_is_its_own_band(query):
    from detol.dashboards.report.facts import read

    assert "this search itself" in progress.pictures(read(query, "chance"))[0].note


def test_a_minimised_objective_turns_the_band_over(first):
    pool = first.random["chance"]
    up = progress.band(pool, Objective("val_accuracy"), "epochs", 1.0)
    down = progress.band(pool, Objective("val_accuracy", minimise=True), "epochs", 1.0)
    least = min(record.value for record in pool if record.state is State.COMPLETED)
    greatest = max(record.value for record in pool if record.state is State.COMPLETED)
    assert up.high[-1] == greatest
    assert -down.high[-1] == least


def test_epochs_that_others_trained_cost_nothing(every_kind):
    at = dict(zip([record.number for record in every_kind.ended], progress.spent(every_kind, "epochs"), strict=True))
    # in the order of their ends: 0 and 1 (9 epochs each), 2 (3), 3 (3), 5 (0), 7 (answered: 0), 4 (9), 8 (9, 3 known)
    assert [at[number] for number in (0, 1, 2, 3, 5, 7, 4, 8)] == [9, 18, 21, 24, 24, 24, 33, 39]
