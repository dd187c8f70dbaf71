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
