"""How the ends of the ranks become the end of their job."""

import math
import time

import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Job, Origin, Report, State
from detol.spaces.decisions import Decisions
from detol.workers.elastic.roll import Roll
from detol.workers.seats import About, Finish, Run, Seat, node_shared

DIED = Finish(State.LOST, "worker process 7 on here died", recycle=True, died=True)


def run(finishes, died=(), limit=math.inf):
    """Return a run whose ranks ended like this, the dead ones first."""
    candidate = Candidate(Decisions(), chain(op("conv")), Origin.SAMPLE)
    width = len(finishes)
    job = Job(0, candidate, Recipe(), 3, 0, width, limit)
    made = Run(1, job, [Seat(number) for number in range(width)], time.monotonic() + 60.0, Roll(width))
    for rank in died:
        made.roll.died(rank)
        made.roll.look(0.0)
    for rank in made.roll.present:
        made.roll.ended(rank)
    made.finishes = dict(enumerate(finishes))
    return made


def done(weights=None, **extra):
    return Finish(State.COMPLETED, weights=weights, extra=extra)


def test_survivors_decide_and_the_lowest_speaks():
    made = run([DIED, done(b"w", width_now=2), done()], died=[0])
    state, reason, first = made.outcome()
    assert (state, reason, first.weights, first.extra) == (State.COMPLETED, "", b"w", {"width_now": 2})


def test_a_group_that_died_is_lost_and_says_whose_process_is_gone():
    state, reason, _ = run([DIED, DIED], died=[1, 0]).outcome()
    assert (state, reason) == (State.LOST, DIED.reason)
    state, reason, _ = run([Finish(State.LOST, "lost contact"), DIED], died=[1]).outcome()
    assert (state, reason) == (State.LOST, f"rank 1: {DIED.reason}")


def test_the_cause_wins_over_its_effect():
    full = Finish(State.OUT_OF_MEMORY, "full", recycle=True)
    state, reason, _ = run([Finish(State.LOST, "lost contact"), full, DIED], died=[2]).outcome()
    assert (state, reason) == (State.OUT_OF_MEMORY, "rank 1: full")


def test_results_that_were_not_handed_over_are_lost():
    made = run([DIED, Finish(State.COMPLETED, spoke=False)])
    made.roll.lost = (0,)  # it died when the other had come to its end: no plan was made without it
    state, reason, _ = made.outcome()
    assert (state, reason) == (State.LOST, "rank 0 died before it had handed over its results")


def test_results_that_were_handed_over_stand_whoever_dies_after_that():
    """Rank 0 has ended with the weights; then rank 2 dies, and rank 1, which has none, counts as the first."""
    made = run([done(b"w"), Finish(State.COMPLETED, spoke=False), DIED])
    made.roll = Roll(3)
    made.roll.ended(0)
    made.roll.died(2)
    made.roll.look(0.0)
    made.roll.ended(1)
    assert made.roll.first == 1
    assert made.speaker == 0
    state, reason, first = made.outcome()
    assert (state, reason, first.weights) == (State.COMPLETED, "", b"w")


@pytest.mark.parametrize("state", [State.COMPLETED, State.PAUSED])
def test_nobody_has_spoken_where_the_others_had_ended_before_they_knew(state):
    """Rank 1 is told to be the first when it has ended already: it has no results."""
    made = run([DIED, Finish(state, spoke=False), Finish(state, spoke=False)], died=[0])
    assert made.roll.first == 1
    assert made.outcome()[:2] == (State.LOST, "rank 0 died before it had handed over its results")


@pytest.mark.parametrize(
    ("finishes", "cancelled", "state"),
    [
        ({}, False, State.TIMED_OUT),
        ({}, True, State.STOPPED),
        ({1: Finish(State.FAILED, "boom")}, True, State.LOST),
        ({1: done()}, False, State.TIMED_OUT),
    ],
)
def test_who_had_to_be_killed(finishes, cancelled, state):
    made = run([done(), done()], limit=5.0)
    made.finishes, made.cancelled = finishes, cancelled
    end = made.overdue()
    assert (end.state, end.recycle, end.died) == (state, True, True)


def test_what_is_said_again_is_not_new():
    made = run([done()])
    assert [made.new(Report(epoch, {})) for epoch in (1, 2, 1, 2, 3)] == [True, True, False, False, True]


def test_hurrying_never_postpones():
    made = run([done()])
    before = made.deadline
    made.hurry(3600.0)
    assert made.deadline == before
    made.hurry(0.0)
    assert made.deadline < before


def test_workers_of_one_node():
    here, there = About(1, "a", "n1", "cpu"), About(2, "b", "n2", "cpu")
    assert node_shared([Seat(0, about=here), Seat(1, about=here)])
    assert not node_shared([Seat(0, about=here), Seat(1, about=there)])
