"""The mailbox of a rank."""

import threading

import pytest

from detol.errors import WorkerLost
from detol.workers.elastic.plan import Orders, Plan, Pulse


def test_the_latest_plan_is_what_counts():
    orders = Orders()
    assert orders.newest() == 0
    orders.give(Plan(2, (0,)))
    orders.give(Plan(1, (0, 1)))
    assert orders.newest() == 2
    assert orders.wait(0, 0.0) == Plan(2, (0,))
    with pytest.raises(WorkerLost, match="no new group came about in 0 s"):
        orders.wait(2, 0.0)


def test_waiting_ends_when_a_plan_comes():
    orders = Orders()
    found = []
    waiter = threading.Thread(target=lambda: found.append(orders.wait(0, 60.0)))
    waiter.start()
    orders.give(Plan(1, (1, 2)))
    waiter.join(60.0)
    assert found == [Plan(1, (1, 2))]


def test_later_pulses_are_greater():
    ordered = [Pulse(), Pulse(0, 0, True), Pulse(0, 1), Pulse(1, 0), Pulse(1, 3)]
    assert sorted([ordered[3], ordered[1], ordered[4], ordered[0], ordered[2]]) == ordered
