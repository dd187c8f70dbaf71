"""What ended trials teach of the seconds of those to come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.scaling.correction import CAUTION, NONE, Correction, learnt

SECONDS = st.floats(1e-3, 1e4)


def test_at_first_the_model_is_believed_but_for_some_caution_with_ranks():
    found = learnt([])
    assert found(5.0, 1) == found(0.1, 1) == 1.0
    assert found(5.0, 2) == pytest.approx(1 + CAUTION)
    assert found(5.0, 4) == pytest.approx((1 + CAUTION) ** 1.5)  # 2 (n - 1) / n
    assert NONE(5.0, 4) == 1.0


@given(truth=st.floats(0.01, 100.0), sizes=st.lists(SECONDS, min_size=3, max_size=20))
def test_a_machine_that_is_slower_by_a_factor_is_learnt(truth, sizes):
    found = learnt([(size, 1, truth * size) for size in sizes])
    assert all(found(size, 1) == pytest.approx(truth, rel=0.02) for size in sizes)


@pytest.mark.parametrize("slower", [1.0, 1.3])
def test_what_ranks_cost_is_learnt_from_wide_trials(slower):
    found = learnt([(2.0, 1, 2.0), (1.0, 1, 1.0), *[(size, 2, slower * size) for size in (1.0, 2.0, 3.0, 1.5)]])
    assert found(1.7, 2) / found(1.7, 1) == pytest.approx(slower, rel=0.03)


def test_small_trials_say_little_of_large_ones_until_some_were_measured():
    small = [(0.34, 1, 0.40)] * 10
    assert learnt(small)(15.6, 1) == pytest.approx(1.18, abs=0.01)
    both = learnt([*small, (15.6, 1, 10.9)])
    assert both(0.34, 1) == pytest.approx(1.18, abs=0.03)
    assert both(15.6, 1) == pytest.approx(0.70, abs=0.03)


def test_a_straggler_moves_little():
    honest = [(float(size), 1, 1.1 * size) for size in range(1, 10)]
    assert learnt([*honest, (5.0, 1, 50.0)])(5.0, 1) == pytest.approx(1.1, rel=0.05)


@given(
    st.lists(st.tuples(SECONDS, st.integers(1, 64), SECONDS), max_size=25),
    SECONDS,
    st.integers(1, 64),
)
def test_it_is_a_positive_number_whatever_was_measured(measured, seconds, width):
    found = learnt(measured)
    assert isinstance(found, Correction)
    assert 0 < found(seconds, width) < np.inf
