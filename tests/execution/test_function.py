import threading

import pytest

from detol.errors import UsageError
from detol.execution import function as module
from detol.execution.function import FunctionExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Job, Origin, Reported, State
from detol.spaces.decisions import Decisions

CANDIDATE = Candidate(Decisions(depth=2), chain(op("conv")), Origin.SAMPLE)


def run(evaluate, epochs=1, **options):
    executor = FunctionExecutor(evaluate, **options)
    executor.submit(Job(7, CANDIDATE, Recipe(), epochs, seed=0))
    events = []
    while not events or not isinstance(events[-1], Ended):
        events += executor.poll(10)
    return events


def test_a_number_is_the_score_of_the_last_epoch():
    report, end = run(lambda candidate: candidate.decisions["depth"] * 2, epochs=5)
    assert (report.report.epoch, report.report.metrics) == (5, {"score": 4.0})
    assert end == Ended(7, State.COMPLETED)


def test_metrics_by_name_and_the_name_of_a_plain_number():
    assert run(lambda _: {"a": 1, "b": True})[0].report.metrics == {"a": 1.0, "b": 1.0}
    assert run(lambda _: 3, metric="val_accuracy")[0].report.metrics == {"val_accuracy": 3.0}


def test_an_iterator_gives_a_curve_and_is_closed_after_its_epochs():
    closed = []

    def evaluate(_):
        try:
            yield from range(100)
        finally:
            closed.append(True)

    events = run(evaluate, epochs=3)
    assert [e.report.metrics["score"] for e in events[:-1]] == [0, 1, 2]
    assert events[-1].state is State.COMPLETED
    assert closed == [True]


def test_a_short_iterator_is_complete():
    assert [type(e) for e in run(lambda _: iter([1, 2]), epochs=9)] == [Reported, Reported, Ended]


@pytest.mark.parametrize(
    ("result", "state", "reason"),
    [
        (float("nan"), State.DIVERGED, "score is nan"),
        ({"a": 1, "b": float("inf")}, State.DIVERGED, "b is inf"),
        (None, State.FAILED, "TypeError: evaluate gave no result"),
        (iter([]), State.FAILED, "TypeError: evaluate gave no result"),
        ("high", State.FAILED, "TypeError: evaluate must return numbers, got str"),
    ],
)
def test_results_that_are_none(result, state, reason):
    (end,) = run(lambda _: result)
    assert end.state is state
    assert end.reason.startswith(reason)


def test_the_limit_is_checked_between_results():
    executor = FunctionExecutor(lambda _: iter(range(10)))
    executor.submit(Job(0, CANDIDATE, Recipe(), 10, seed=0, limit=-1.0))
    (end,) = executor.poll(0)
    assert end.state is State.TIMED_OUT


def test_several_workers_run_side_by_side():
    barrier = threading.Barrier(3, timeout=30)  # passes only when three evaluations are inside at once
    executor = FunctionExecutor(lambda _: barrier.wait() * 0, workers=3)
    for number in range(3):
        executor.submit(Job(number, CANDIDATE, Recipe(), 1, seed=0))
    assert executor.free() == 0
    ends = []
    while len(ends) < 3:
        ends += [event for event in executor.poll(30) if isinstance(event, Ended)]
    assert {end.state for end in ends} == {State.COMPLETED}


def test_too_few_workers_or_too_wide():
    with pytest.raises(UsageError, match=">= 1"):
        FunctionExecutor(lambda _: 1, workers=0)
    with pytest.raises(UsageError, match="width 2"):
        FunctionExecutor(lambda _: 1, workers=2).submit(Job(0, CANDIDATE, Recipe(), 1, seed=0, width=2))


def segment(executor, number=7, until=0, checkpoint=None):
    executor.submit(Job(number, CANDIDATE, Recipe(), 4, seed=0, until=until, checkpoint=checkpoint))
    events = []
    while not events or not isinstance(events[-1], Ended):
        events += executor.poll(10)
    return [event.report.metrics["score"] for event in events[:-1]], events[-1]


@pytest.fixture
def counted():
    """Returns a callable of four epochs and the list of its calls and ends."""
    seen = []

    def evaluate(_):
        seen.append("called")
        try:
            for epoch in range(1, 5):
                seen.append(epoch)
                yield epoch / 10
        finally:
            seen.append("closed")

    return evaluate, seen


def test_a_paused_iterator_goes_on_where_it_was(counted):
    evaluate, seen = counted
    executor = FunctionExecutor(evaluate)
    scores, end = segment(executor, until=3)
    assert (scores, end.state) == ([0.1, 0.2, 0.3], State.PAUSED)
    scores, end = segment(executor, checkpoint=end.weights)
    assert (scores, end.state) == ([0.4], State.COMPLETED)
    assert seen == ["called", 1, 2, 3, 4, "closed"]


def test_elsewhere_the_callable_is_called_again_and_what_is_known_is_skipped(counted):
    evaluate, seen = counted
    _, end = segment(FunctionExecutor(evaluate), until=3)
    seen.clear()
    scores, end = segment(FunctionExecutor(evaluate), checkpoint=end.weights)
    assert (scores, end.state) == ([0.4], State.COMPLETED)
    assert seen == ["called", 1, 2, 3, 4, "closed"]


def test_paused_iterators_are_bounded_and_closed(counted, monkeypatch):
    monkeypatch.setattr(module, "SUSPENDED", 2)
    evaluate, seen = counted
    executor = FunctionExecutor(evaluate)
    ends = [segment(executor, number, until=1)[1] for number in range(3)]
    assert seen.count("closed") == 1  # the oldest
    scores, _ = segment(executor, 0, checkpoint=ends[0].weights)
    assert scores == [0.2, 0.3, 0.4]
    executor.close()
    assert seen.count("closed") == seen.count("called") == 4


def test_a_callable_that_gives_less_than_before_it_paused_fails():
    lengths = iter([3, 1])
    executor = FunctionExecutor(lambda _: iter([0.5] * next(lengths)))
    _, end = segment(executor, until=3)
    executor.close()
    scores, end = segment(FunctionExecutor(lambda _: iter([0.5])), checkpoint=end.weights)
    assert (scores, end.state) == ([], State.FAILED)
    assert "gave 1 results, but 3 before it paused" in end.reason


def test_a_single_result_stands_at_the_last_epoch_and_never_pauses():
    scores, end = segment(FunctionExecutor(lambda _: 0.7), until=2)
    assert (scores, end.state) == ([0.7], State.COMPLETED)
