import math

import pytest

from detol.scaling.playing import APART, EVEN, SHARED, TOGETHER, apart, even, played, shared

WIDTHS = (1, 2, 3, 4)


def ideal(seconds):
    return tuple(seconds / width for width in WIDTHS)


def test_apart_is_a_list_schedule():
    # By hand: 4 and 2 start at 0; 3 starts at 2 and ends at 5; 1 starts at 4 and ends at 5.
    assert apart([0.0, 0.0], [ideal(s) for s in (4.0, 2.0, 3.0, 1.0)]) == 5.0
    assert apart([1.0, 7.0], [ideal(2.0)]) == 7.0


def test_shared_gives_equal_shares():
    assert shared([0.0, 0.0, 0.0, 0.0], [ideal(8.0), ideal(8.0)], WIDTHS, 4) == 4.0
    assert shared([0.0, 0.0, 3.0], [ideal(8.0)], WIDTHS, 2) == 4.0
    assert shared([0.0, 0.0, 9.0], [ideal(8.0)], WIDTHS, 2) == 9.0
    assert math.isinf(shared([0.0, 0.0], [ideal(1.0)] * 3, WIDTHS, 2))


def test_even_makes_only_those_wide_that_would_outlast_the_rest():
    # 12 s and four of 1 s on four workers: the even end is 4 s, the long one takes three workers.
    rest = [ideal(12.0), *[ideal(1.0)] * 4]
    assert even([0.0] * 4, rest, WIDTHS, 1.0) == pytest.approx(4.0)
    assert apart([0.0] * 4, rest) == 12.0


def test_where_no_width_is_quick_enough_the_widest_is_taken():
    assert even([0.0, 0.0], [(9.0, 8.0), (1.0, 1.0)], (1, 2), 1.0) == 9.0


def test_all_rules_are_played():
    ends = played([0.0, 0.0, 0.0, 2.0], [ideal(8.0)], WIDTHS, 3, whole=True)
    assert ends == pytest.approx({APART: 8.0, TOGETHER: 4.0, SHARED: 8 / 3, EVEN: 8 / 3})
    assert math.isinf(played([0.0] * 4, [], WIDTHS, 3, whole=False)[EVEN])
