import pytest

from detol.tracking.busy import Busy


def test_nobody_knows_before_the_first_start_and_without_workers() -> None:
    busy = Busy(2)
    assert busy.share(5.0) is None
    busy.seen(0, 1, 5.0, running=False)  # a result that was answered never ran
    assert busy.share(9.0) is None
    unknown = Busy(0)
    unknown.seen(0, 1, 5.0, running=True)
    assert unknown.share(9.0) is None


def test_ranks_are_counted_while_they_run() -> None:
    busy = Busy(4)
    busy.seen(0, 1, 10.0, running=True)
    busy.seen(1, 2, 12.0, running=True)  # 2 s of 1 rank
    busy.seen(0, 1, 14.0, running=True)  # a report: 2 s of 3 ranks
    busy.seen(0, 1, 15.0, running=False)  # 1 s of 3
    assert busy.share(17.0) == pytest.approx((2 + 6 + 3 + 4) / (4 * 7))
    busy.seen(1, 2, 17.0, running=False)
    assert busy.share(30.0) == pytest.approx(15 / 28)  # what is idle at the end is not held against the search


def test_a_clock_that_goes_back_adds_nothing() -> None:
    busy = Busy(1)
    busy.seen(0, 1, 10.0, running=True)
    busy.seen(0, 1, 12.0, running=True)
    busy.seen(0, 1, 11.0, running=False)
    assert busy.share(11.0) == pytest.approx(1.0)
