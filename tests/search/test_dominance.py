import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from optuna.study._multi_objective import _fast_non_domination_rank

from detol.search.dominance import crowding, fronts

points = arrays.arrays(
    float,
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.integers(0, 5).map(float) | st.floats(-1e3, 1e3),
)


@given(points)
@settings(deadline=None)
def test_fronts_equal_optunas(scores: np.ndarray) -> None:
    assert fronts(scores).tolist() == _fast_non_domination_rank(-scores).tolist()


def test_crowding_by_hand() -> None:
    # Sides of the box around the inner points, as shares of the spread: (0.75 + 0.75), (0.75 + 0.75).
    scores = np.array([[0.0, 4.0], [1.0, 3.0], [3.0, 1.0], [4.0, 0.0]])
    assert crowding(scores).tolist() == [np.inf, 1.5, 1.5, np.inf]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_crowding_of_equal_points_is_nothing(count: int) -> None:
    assert crowding(np.ones((count, 2))).tolist() == [0.0] * count
