"""The contract of a tracker, over every implementation. A mirror of one's own: add its maker to ``MAKERS``."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.protocols import Tracker
from detol.search.records import Candidate, Ended, Origin, Report, Reported, State, Trial
from detol.spaces.decisions import Decisions
from detol.tracking.memory import MemoryTracker
from detol.tracking.null import NullTracker
from detol.tracking.tracker import MlflowTracker

MAKERS: dict[str, Callable[[Path], Tracker]] = {
    "null": lambda folder: NullTracker(),
    "memory": lambda folder: MemoryTracker(),
    "mlflow": lambda folder: MlflowTracker(f"sqlite:///{folder}/mlflow.db", "contract", warn=pytest.fail),
    # A directory stands where the database should be.
    "mlflow, nowhere": lambda folder: MlflowTracker(f"sqlite:///{folder}", "contract", warn=lambda line: None),
}


@pytest.fixture(params=MAKERS, scope="module")
def tracker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracker]:
    made = MAKERS[request.param](tmp_path_factory.mktemp("tracker"))
    yield made
    made.close()


def running(number: int) -> Trial:
    candidate = Candidate(Decisions(width=4), chain(op("conv", channels=4)), Origin.SAMPLE)
    return Trial(number, candidate, State.RUNNING, 2)


def test_it_keeps_the_protocol(tracker: Tracker) -> None:
    assert isinstance(tracker, Tracker)
    for name in ("record", "close"):
        expected = inspect.signature(getattr(Tracker, name))
        assert list(inspect.signature(getattr(type(tracker), name)).parameters) == list(expected.parameters)


def test_it_takes_a_whole_life_of_a_trial(tracker: Tracker) -> None:
    trial = running(0)
    tracker.record(trial, None)
    for epoch in (1, 2):
        report = Report(epoch, {"val_accuracy": epoch / 2})
        trial = replace(trial, reports=(*trial.reports, report), curve=(*trial.curve, epoch / 2))
        tracker.record(trial, Reported(0, report))
    tracker.record(
        replace(trial, state=State.COMPLETED, scores=(1.0,)), Ended(0, State.COMPLETED, weights=b"not shown")
    )


@pytest.mark.parametrize("state", [state for state in State if state.final])
def test_it_takes_an_answer_without_any_event_and_the_same_twice(tracker: Tracker, state: State) -> None:
    trial = replace(running(1), state=state, reused="other/1" if state.scored else "", reason="as it was")
    tracker.record(trial, None)
    tracker.record(trial, None)


def test_it_takes_a_report_of_a_trial_that_it_has_not_seen(tracker: Tracker) -> None:
    report = Report(1, {"val_loss": float("nan")})
    trial = replace(running(2), reports=(report,), curve=(float("nan"),))
    tracker.record(trial, Reported(2, report))


def test_closing_is_idempotent_and_what_comes_after_is_ignored(tracker: Tracker) -> None:
    tracker.close()
    tracker.close()
    tracker.record(running(3), None)


def test_the_double_remembers(tmp_path: Path) -> None:
    tracker = MemoryTracker()
    trial = running(0)
    ended = Ended(0, State.COMPLETED)
    tracker.record(trial, None)
    tracker.record(replace(trial, state=State.COMPLETED), ended)
    tracker.finish(trial, {"trials": 1})
    tracker.close()
    tracker.record(trial, None)
    assert tracker.trials[0].state is State.COMPLETED
    assert [event for _, event in tracker.events] == [None, ended]
    assert tracker.finished == (trial, {"trials": 1}, None)
