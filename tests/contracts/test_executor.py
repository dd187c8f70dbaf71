"""The contract of executors, over every implementation.

What a job does is written in its candidate's ``note``: the entry (or, for callables, ``evaluate``) follows it.
"""

import time

import pytest

from detol.errors import UsageError
from detol.execution.function import FunctionExecutor
from detol.execution.inline import InlineExecutor
from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.protocols import Executor
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Job, Origin, Reported, State
from detol.spaces.decisions import Decisions
from detol.workers.data import read

PATIENCE = 120.0
ENDLESS = 10**6


def make_entry():
    """Nested, so that it travels to workers by value: this file is no module that they could import."""
    import itertools
    import time

    from detol.errors import Diverged
    from detol.search.records import Report
    from detol.workers.entry import Paused

    def entry(job, data, *, group, stop):
        note = job.candidate.note
        for epoch in itertools.count(1 + int(job.checkpoint or 0)):
            if epoch > job.until > 0 and job.until < job.epochs:
                yield Paused(str(job.until).encode())
                return
            if note == "raise":
                raise ValueError("boom")
            if note == "memory":
                raise MemoryError
            if note == "diverge":
                raise Diverged("the loss is nan")
            if stop() or epoch > job.epochs:
                return
            yield Report(epoch, {"val_accuracy": epoch / 10})
            if note == "endless":
                time.sleep(0.01)  # leaves the processor to the others until it is stopped

    return entry


def evaluate(candidate):
    job = Job(0, candidate, Recipe(), ENDLESS, seed=0)
    for report in make_entry()(job, None, group=None, stop=lambda: False):
        yield report.metrics


def inline():
    return InlineExecutor(read("digits"), entry=make_entry())


def function():
    return FunctionExecutor(evaluate)


def threads():
    return FunctionExecutor(evaluate, workers=2)


class Curves:
    """Knows what the entry above gives."""

    def answer(self, candidate):
        return Answer({}, 60.0, [{"val_accuracy": epoch / 10} for epoch in range(1, 7)])


def simulated():
    return SimulatedExecutor(Curves(), SimulatedClock())


@pytest.fixture(scope="module")
def warm(local_ray):
    from detol.workers.pool import RayExecutor

    executor = RayExecutor(None, workers=2, entry=make_entry())
    yield executor
    executor.close()


@pytest.fixture(params=["inline", "function", "threads", "ray"])
def executor(request):
    if request.param == "ray":
        made = request.getfixturevalue("warm")
    else:
        made = {"inline": inline, "function": function, "threads": threads}[request.param]()
    wait_for(made, 1 if request.param in ("inline", "function") else 2)
    yield made
    if request.param != "ray":
        made.close()


def wait_for(executor, free):
    deadline = time.monotonic() + PATIENCE
    while executor.free() < free:
        assert time.monotonic() < deadline
        assert not executor.poll(0.05)


def job(number, note="", epochs=3, **settings):
    candidate = Candidate(Decisions(), chain(op("conv")), Origin.SAMPLE, (), note)
    return Job(number, candidate, Recipe(), epochs, seed=0, **settings)


def ended(executor, count=1):
    """Return the events up to the end of ``count`` jobs."""
    events, deadline = [], time.monotonic() + PATIENCE
    while sum(isinstance(event, Ended) for event in events) < count:
        assert time.monotonic() < deadline
        events += executor.poll(0.5)
    return events


def test_it_keeps_the_protocol(executor):
    assert isinstance(executor, Executor)


def test_reports_in_order_then_exactly_one_end_and_nothing_after_it(executor):
    free = executor.free()
    executor.submit(job(5))
    assert executor.free() == free - 1
    events = ended(executor)
    assert [event.report.epoch for event in events[:-1]] == [1, 2, 3]
    assert events[-1] == Ended(5, State.COMPLETED, extra=events[-1].extra)
    wait_for(executor, free)
    assert executor.poll(0) == []


def test_as_many_jobs_as_are_free_run_side_by_side(executor):
    free = executor.free()
    for number in range(free):
        executor.submit(job(number))
    assert executor.free() == 0
    events = ended(executor, free)
    for number in range(free):
        mine = [event for event in events if event.number == number]
        assert [type(event) for event in mine] == [Reported] * 3 + [Ended]
    wait_for(executor, free)


def test_a_job_that_does_not_fit_is_refused(executor):
    free = executor.free()
    with pytest.raises(UsageError, match="width"):
        executor.submit(job(0, width=free + 1))
    assert executor.free() == free


@pytest.mark.parametrize(
    ("note", "state", "reason"),
    [
        ("raise", State.FAILED, "ValueError: boom"),
        ("memory", State.OUT_OF_MEMORY, "MemoryError"),
        ("diverge", State.DIVERGED, "the loss is nan"),
    ],
)
def test_a_failure_is_a_result_and_hurts_no_other_job(executor, note, state, reason):
    free = executor.free()
    executor.submit(job(0, note))
    if free > 1:
        executor.submit(job(1))
    events = ended(executor, min(2, free))
    end = next(event for event in events if isinstance(event, Ended) and event.number == 0)
    assert (end.state, end.reason, end.weights) == (state, reason, None)
    wait_for(executor, free)
    executor.submit(job(2))
    assert ended(executor)[-1].state is State.COMPLETED
    wait_for(executor, free)


def test_a_stop_ends_it_and_is_idempotent(executor):
    free = executor.free()
    executor.submit(job(3, "endless", ENDLESS))
    events = []
    while not events:
        events += executor.poll(0.5)
    executor.cancel(3)
    executor.cancel(3)
    executor.cancel(99)
    end = ended(executor)[-1]
    assert (end.number, end.state) == (3, State.STOPPED)
    assert end.reason
    executor.cancel(3)
    wait_for(executor, free)
    assert executor.poll(0) == []


def test_a_stop_before_the_start(executor):
    free = executor.free()
    executor.submit(job(3, "endless", ENDLESS))
    executor.cancel(3)
    assert ended(executor)[-1].state is State.STOPPED
    wait_for(executor, free)


def test_the_same_number_may_come_again(executor):
    free = executor.free()
    for _ in range(2):
        executor.submit(job(3, "endless", ENDLESS))
        executor.cancel(3)
        assert ended(executor)[-1].state is State.STOPPED
        wait_for(executor, free)
    executor.submit(job(3))
    assert ended(executor)[-1].state is State.COMPLETED
    wait_for(executor, free)


@pytest.fixture(params=["inline", "function", "threads", "ray", "simulated"])
def pausing(request):
    """Every executor that can pause."""
    if request.param == "ray":
        made = request.getfixturevalue("warm")
    else:
        made = {"inline": inline, "function": function, "threads": threads, "simulated": simulated}[request.param]()
    wait_for(made, 2 if request.param in ("threads", "ray") else 1)
    yield made
    if request.param != "ray":
        made.close()


def run(executor, **settings):
    """Run one job to its end or pause, and return what it reported and how it ended."""
    free = executor.free()
    executor.submit(job(4, epochs=6, **settings))
    *reports, end = ended(executor)
    assert [event.number for event in reports] == [4] * len(reports)
    wait_for(executor, free)
    assert executor.free() == free
    return [(event.report.epoch, dict(event.report.metrics)) for event in reports], end


@pytest.mark.parametrize("pauses", [(1,), (5,), (2, 3), (1, 2, 3, 4, 5)])
def test_it_pauses_exactly_at_until_and_goes_on_from_the_checkpoint(pausing, pauses):
    whole, end = run(pausing)
    assert end.state is State.COMPLETED
    assert [epoch for epoch, _ in whole] == [1, 2, 3, 4, 5, 6]
    found, checkpoint, before = [], None, 0
    for until in pauses:
        reports, end = run(pausing, until=until, checkpoint=checkpoint)
        assert [epoch for epoch, _ in reports] == list(range(before + 1, until + 1))
        assert (end.state, end.reason) == (State.PAUSED, "")
        assert end.weights
        found, checkpoint, before = found + reports, end.weights, until
    reports, end = run(pausing, checkpoint=checkpoint)
    assert end.state is State.COMPLETED
    assert found + reports == whole


def test_until_the_last_epoch_is_no_pause(pausing):
    reports, end = run(pausing, until=6)
    assert (len(reports), end.state) == (6, State.COMPLETED)


def test_a_paused_job_never_comes_back_by_itself_and_others_run_meanwhile(pausing):
    run(pausing, until=2)
    pausing.submit(job(7, epochs=6))
    events = ended(pausing)
    assert {event.number for event in events} == {7}
    assert events[-1].state is State.COMPLETED


def test_bytes_that_are_no_checkpoint_fail_the_trial_alone(pausing):
    reports, end = run(pausing, checkpoint=b"junk")
    assert (reports, end.state) == ([], State.FAILED)
    assert end.reason
    assert "\n" not in end.reason
    assert run(pausing)[1].state is State.COMPLETED


@pytest.mark.parametrize("kind", ["inline", "function", "threads", "ray"])
def test_close_is_idempotent_and_ends_everything(kind, request):
    if kind == "ray":
        request.getfixturevalue("local_ray")
        from detol.workers.pool import RayExecutor

        made = RayExecutor(None, workers=1, entry=make_entry())
    else:
        made = {"inline": inline, "function": function, "threads": threads}[kind]()
    wait_for(made, 1)
    made.submit(job(0, "endless", ENDLESS))
    made.close()
    made.close()
    assert made.free() == 0
    made.cancel(0)
    assert made.poll(0) == []
