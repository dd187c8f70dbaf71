"""Workers that hold a group together are chosen together."""

from hypothesis import given
from hypothesis import strategies as st

from detol.workers.elastic.gangs import Gangs


def test_the_gang_of_that_size_is_taken_again_in_its_order():
    gangs = Gangs()
    assert gangs.choose([0, 1, 2, 3], 2) == [0, 1]
    gangs.keep([3, 1], 7)
    assert gangs.choose([0, 1, 2, 3], 2) == [3, 1]
    assert gangs.name([3, 1]) == 7
    assert gangs.name([1, 3]) is None


def test_gangs_that_are_busy_or_of_another_size_are_spared():
    gangs = Gangs()
    gangs.keep([0, 1], 1)
    assert gangs.choose([1, 2, 3], 2) == [2, 3]
    assert gangs.choose([0, 1, 2], 1) == [2]
    assert gangs.choose([0, 1, 2], 3) == [2, 0, 1]


def test_a_worker_is_in_one_gang_and_a_new_process_in_none():
    gangs = Gangs()
    gangs.keep([0, 1], 1)
    gangs.keep([2, 3], 2)
    gangs.begin([1, 2])
    assert gangs.name([0, 1]) is gangs.name([2, 3]) is None
    gangs.keep([1, 2], 3)
    gangs.forget(2)
    assert gangs.name([1, 2]) is None


@given(st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=4)), st.sets(st.integers(0, 5)), st.data())
def test_the_chosen_are_idle_and_as_many_as_asked_for(kept, idle, data):
    gangs = Gangs()
    for name, members in enumerate(kept):
        gangs.keep(sorted(members), name)
    width = data.draw(st.integers(0, len(idle)))
    chosen = gangs.choose(sorted(idle), width)
    assert len(set(chosen)) == len(chosen) == width
    assert idle.issuperset(chosen)
