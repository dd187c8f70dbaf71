"""Who is given up, and when the others meet again; by a clock that the tests turn themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.errors import UsageError
from detol.search.records import State
from detol.workers.elastic.plan import Plan, Pulse
from detol.workers.elastic.roll import Kill, Roll, step_limit


def looks(roll, seconds, *, start=0.0, pulses=None, step=0.5):
    """Look at the roll every ``step`` seconds; return what was to be done, with its time."""
    found, now = [], start
    while now <= start + seconds:
        for rank, pulse in (pulses(now) if pulses else {}).items():
            roll.heard(rank, pulse)
        found += [(now, act) for act in roll.look(now)]
        now += step
    return found


def test_a_dead_rank_is_left_out_at_once():
    roll = Roll(3)
    assert roll.look(0.0) == []
    roll.died(0)
    assert roll.look(0.1) == [Plan(1, (1, 2))]
    assert roll.look(0.2) == []
    assert (roll.lost, roll.present) == ((0,), (1, 2))


def test_two_that_die_together_make_one_plan_and_one_that_dies_later_another():
    roll = Roll(4)
    roll.died(1)
    roll.died(3)
    assert roll.look(0.0) == [Plan(1, (0, 2))]
    roll.died(0)
    assert roll.look(1.0) == [Plan(2, (2,))]
    roll.died(2)
    assert roll.look(2.0) == []


def test_a_silent_rank_is_killed_and_left_out():
    roll = Roll(3, stall=4.0)
    found = looks(
        roll, 10.0, pulses=lambda now: {rank: Pulse(0, int(now * 10)) for rank in ((0, 1, 2), (0, 2))[now > 2]}
    )
    (killed, kill), (planned, plan) = found
    assert kill == Kill((1,), State.LOST, "gave no sign of life for 4 s")
    assert 6.0 < killed <= 7.0
    assert (planned, plan) == (killed, Plan(1, (0, 2)))


def test_one_who_computes_for_long_is_not_silent():
    roll = Roll(2, stall=4.0, limit=1e9)
    assert looks(roll, 1000.0, pulses=lambda _: dict.fromkeys((0, 1), Pulse(0, 7))) == []


def test_a_watcher_that_slept_blames_nobody():
    roll = Roll(2, stall=8.0)
    roll.look(0.0)
    assert roll.look(3600.0) == []  # the machine was suspended, and the ranks with it
    roll.heard(0, Pulse())
    roll.heard(1, Pulse())
    assert roll.look(7200.0) == []


def test_the_rank_whose_step_does_not_return_is_told_from_those_that_wait_for_it():
    roll = Roll(3, limit=10.0)
    found = looks(roll, 15.0, pulses=lambda _: {0: Pulse(0, 5), 1: Pulse(0, 4), 2: Pulse(0, 5)})
    assert [act for _, act in found] == [
        Kill((1,), State.LOST, "its step did not return within 10 s"),
        Plan(1, (0, 2)),
    ]
    assert found[0][0] > 10.0


def test_one_who_does_not_come_while_the_others_wait_is_given_up():
    roll = Roll(3, limit=10.0)
    found = looks(roll, 15.0, pulses=lambda _: {0: Pulse(0, 5, True), 1: Pulse(0, 5, True), 2: Pulse(0, 9)})
    assert [act for _, act in found][:2] == [
        Kill((2,), State.LOST, "its step did not return within 10 s"),
        Plan(1, (0, 1)),
    ]


@pytest.mark.parametrize("width", [1, 3])
def test_where_nobody_can_be_told_from_the_others_all_are_ended(width):
    roll = Roll(width, limit=10.0)
    found = looks(roll, 15.0, pulses=lambda _: dict.fromkeys(range(width), Pulse(0, 5)))
    assert [act for _, act in found] == [
        Kill(tuple(range(width)), State.TIMED_OUT, "no step ended within 10 s: it was killed")
    ]
    assert roll.present == ()


def test_an_entry_that_marks_nothing_is_left_alone():
    roll = Roll(1, limit=10.0)
    assert looks(roll, 1000.0, pulses=lambda _: {0: Pulse()}) == []


def test_one_who_works_between_two_points_is_not_stuck():
    roll = Roll(2, limit=10.0)
    assert looks(roll, 100.0, pulses=lambda now: {0: Pulse(0, 5, work=int(now)), 1: Pulse(0, 6)}) == []


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_a_limit_that_is_none_is_refused_in_one_line(monkeypatch, text):
    monkeypatch.setenv("DETOL_STEP_LIMIT", text)
    with pytest.raises(UsageError, match="DETOL_STEP_LIMIT must be a number of seconds > 0") as error:
        step_limit()
    assert "\n" not in str(error.value)


def test_the_limit_may_be_set(monkeypatch):
    monkeypatch.delenv("DETOL_STEP_LIMIT", raising=False)
    assert step_limit() == 900.0
    monkeypatch.setenv("DETOL_STEP_LIMIT", "60")
    assert step_limit() == 60.0


def test_a_connection_that_broke_though_all_live_is_made_again_once_all_wait():
    roll = Roll(2)
    roll.heard(0, Pulse(0, 5, True))
    roll.heard(1, Pulse(0, 4))
    assert roll.look(0.0) == []
    roll.heard(1, Pulse(0, 5, True))
    assert roll.look(0.5) == [Plan(1, (0, 1))]
    assert roll.look(1.0) == []  # it is on its way
    roll.heard(0, Pulse(1, 0, True))
    roll.heard(1, Pulse(1, 0, True))
    assert roll.look(1.5) == [Plan(2, (0, 1))]  # that failed, too


def test_a_rank_that_fails_by_itself_ends_the_trial_of_all():
    roll = Roll(3)
    roll.ended(1, "MemoryError: full")
    assert roll.look(0.0) == [Plan(1, (), reason="rank 1: MemoryError: full")]
    assert roll.look(1.0) == []
    assert roll.lost == ()


def test_a_rank_that_ended_well_is_not_missed():
    roll = Roll(3)
    roll.ended(0)
    roll.heard(1, Pulse(0, 9))
    assert roll.look(0.0) == []
    roll.died(2)
    assert roll.look(0.5) == [Plan(1, (1,))]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(1, 5))
def test_plans_name_exactly_who_is_left_and_count_up(deaths, width):
    roll = Roll(width)
    alive, plans = set(range(width)), []
    for number, rank in enumerate(deaths):
        roll.died(rank)
        alive.discard(rank)
        for act in roll.look(float(number)):
            assert set(act.members) == alive
            plans.append(act.generation)
    assert plans == list(range(1, len(plans) + 1))
    assert set(roll.present) == alive
