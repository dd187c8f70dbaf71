from dataclasses import dataclass

import pytest

from detol.errors import UsageError
from detol.execution.simulated import Answer, Charged, SimulatedClock, SimulatedExecutor
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Job, Origin, Reported, State
from detol.spaces.decisions import Decisions


@dataclass
class Durations:
    """Candidate ``n`` takes the seconds of its decision."""

    def answer(self, candidate):
        seconds = float(candidate.decisions["seconds"])
        return Answer({"score": -seconds}, seconds)


def job(number, seconds, width=1, limit=float("inf")):
    candidate = Candidate(Decisions(seconds=seconds), chain(), Origin.SAMPLE)
    return Job(number, candidate, Recipe(), 7, seed=0, width=width, limit=limit)


def ended(events):
    return [event.number for event in events if isinstance(event, Ended)]


def test_jobs_end_in_the_order_of_their_durations():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Durations(), clock, workers=3)
    for number, seconds in enumerate([5.0, 1.0, 3.0]):
        executor.submit(job(number, seconds))
    assert executor.free() == 0
    seen = []
    while executor.free() < 3:
        events = executor.poll(0.0)
        assert isinstance(events[0], Reported)
        assert events[0].report.epoch == 7
        seen.append((clock.now(), ended(events)))
    assert seen == [(1.0, [1]), (3.0, [2]), (5.0, [0])]
    assert executor.busy == 9.0
    assert executor.poll(0.0) == []


def test_two_workers_finish_as_a_list_schedule_does():
    # By hand: 4 and 2 start at 0; 3 starts at 2 and ends at 5; 1 starts at 4 and ends at 5.
    clock, waiting, ends = SimulatedClock(), [job(n, s) for n, s in enumerate([4.0, 2.0, 3.0, 1.0])], {}
    executor = SimulatedExecutor(Durations(), clock, workers=2)
    while waiting or executor.free() < 2:
        while waiting and executor.free():
            executor.submit(waiting.pop(0))
        ends.update(dict.fromkeys(ended(executor.poll(1.0)), clock.now()))
    assert ends == {1: 2.0, 0: 4.0, 2: 5.0, 3: 5.0}
    assert executor.utilisation == 1.0


def test_utilisation_counts_what_stands_idle_until_the_last_job_starts():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Durations(), clock, workers=2)
    executor.submit(job(0, 10.0))
    clock.pass_(4.0)  # worker 1 waits
    executor.submit(job(1, 1.0))
    executor.poll(0.0)
    clock.pass_(3.0)
    executor.submit(job(2, 100.0))  # at 8: 8 + 1 of 16 worker-seconds were in use
    assert executor.utilisation == pytest.approx(9 / 16)


def test_a_cancelled_job_stops_now_and_nothing_follows():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Durations(), clock, workers=2)
    executor.submit(job(0, 10.0))
    executor.submit(job(1, 2.0))
    executor.poll(0.0)
    executor.cancel(0)
    executor.cancel(0)
    executor.cancel(99)
    (event,) = executor.poll(0.0)
    assert isinstance(event, Ended)
    assert (event.number, event.state, clock.now()) == (0, State.STOPPED, 2.0)
    assert executor.poll(0.0) == []
    assert executor.free() == 2
    assert executor.busy == 4.0


def test_a_job_past_its_limit_times_out_then():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Durations(), clock)
    executor.submit(job(0, 10.0, limit=4.0))
    (event,) = executor.poll(0.0)
    assert isinstance(event, Ended)
    assert (event.state, clock.now()) == (State.TIMED_OUT, 4.0)
    assert "limit of 4 s" in event.reason


def test_wide_jobs_take_several_workers():
    executor = SimulatedExecutor(Durations(), SimulatedClock(), workers=3)
    executor.submit(job(0, 1.0, width=2))
    assert executor.free() == 1
    with pytest.raises(UsageError, match="1 workers are free"):
        executor.submit(job(1, 1.0, width=2))


def test_time_that_a_strategy_takes_ends_what_runs_meanwhile():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Durations(), clock, workers=2)
    executor.submit(job(0, 1.0))
    executor.submit(job(1, 50.0))
    clock.pass_(10.0)  # as Charged does
    assert ended(executor.poll(0.0)) == [0]
    assert clock.now() == 10.0
    assert executor.busy == 1.0  # nine seconds of worker 0 were idle


def test_charged_passes_the_time_of_ask_and_tell_on():
    class Slow:
        def ask(self, count):
            sum(range(10_000))
            return ()

        def tell(self, trials):
            pass

    clock = SimulatedClock()
    charged = Charged(Slow(), clock)
    charged.ask(1)
    charged.tell([])
    assert clock.now() == pytest.approx(charged.seconds)
    assert charged.seconds > 0


def test_refusals():
    with pytest.raises(UsageError, match="at least 1 worker"):
        SimulatedExecutor(Durations(), SimulatedClock(), workers=0)
    with pytest.raises(ValueError, match="backwards"):
        SimulatedClock().pass_(-1.0)


class Curves:
    """Ten seconds an epoch, seven epochs."""

    def answer(self, candidate):
        return Answer({}, 70.0, [{"score": float(epoch)} for epoch in range(1, 8)])


def drain(executor):
    events = []
    while not events or not isinstance(events[-1], Ended):
        events += executor.poll(0.0)
    return events


def paused_job(number=0, until=0, checkpoint=None, limit=float("inf")):
    candidate = Candidate(Decisions(), chain(), Origin.SAMPLE)
    return Job(number, candidate, Recipe(), 7, seed=0, limit=limit, until=until, checkpoint=checkpoint)


def test_only_the_epochs_that_run_are_charged():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Curves(), clock)
    executor.submit(paused_job(until=2))
    events = drain(executor)
    assert (clock.now(), executor.busy) == (20.0, 20.0)
    assert [event.report.seconds for event in events[:-1]] == [10.0, 10.0]
    clock.pass_(100.0)  # resting costs nothing
    executor.submit(paused_job(until=3, checkpoint=events[-1].weights))
    events = drain(executor)
    assert (clock.now(), executor.busy) == (130.0, 30.0)
    executor.submit(paused_job(checkpoint=events[-1].weights))
    events = drain(executor)
    assert [event.report.metrics["score"] for event in events[:-1]] == [4.0, 5.0, 6.0, 7.0]
    assert (events[-1].state, executor.busy, executor.free()) == (State.COMPLETED, 70.0, 1)


def test_reports_come_at_their_times_and_a_stop_between_them_charges_what_ran():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Curves(), clock)
    executor.submit(paused_job())
    assert [event.report.epoch for event in executor.poll(0.0)] == [1]
    assert clock.now() == 10.0
    executor.cancel(0)
    (end,) = executor.poll(0.0)
    assert (end.state, executor.busy) == (State.STOPPED, 10.0)
    executor.submit(paused_job())  # what is left of the stopped job in the queue does not disturb this one
    assert [event.report.epoch for event in drain(executor)[:-1]] == [1, 2, 3, 4, 5, 6, 7]
    assert clock.now() == 80.0


def test_the_limit_counts_from_where_a_job_goes_on():
    clock = SimulatedClock()
    executor = SimulatedExecutor(Curves(), clock)
    executor.submit(paused_job(until=5, limit=55.0))
    events = drain(executor)
    assert events[-1].state is State.PAUSED
    executor.submit(paused_job(checkpoint=events[-1].weights, limit=15.0))
    events = drain(executor)
    assert [type(event) for event in events] == [Reported, Ended]
    assert (events[-1].state, clock.now()) == (State.TIMED_OUT, 65.0)


def test_a_curve_of_another_length_is_refused():
    executor = SimulatedExecutor(Curves(), SimulatedClock())
    candidate = Candidate(Decisions(), chain(), Origin.SAMPLE)
    with pytest.raises(UsageError, match="knows 7 epochs"):
        executor.submit(Job(0, candidate, Recipe(), 9, seed=0))
