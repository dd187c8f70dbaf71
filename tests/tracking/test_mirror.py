"""The mirror in this process, on SQLite."""

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from detol.search.records import Report, State, Trial
from detol.tracking import runs
from detol.tracking.mirror import Mirror
from detol.tracking.wire import Epoch, Finish, Seen, Start

# MLflow 3.17 on SQLAlchemy 2.1 speaks of its own use of it.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


class Driven:
    """A mirror with what it said and a clock by hand."""

    def __init__(self, start: Start) -> None:
        self.said: list[dict[str, Any]] = []
        self.time = 0.0
        self.mirror = Mirror(start, self.said.append, lambda: self.time)  # type: ignore[arg-type]

    def show(self, *messages: Any, patient: bool = False) -> bool:
        for message in messages:
            self.mirror.take(message)
        return self.mirror.work(patient=patient)


def test_a_search_is_a_parent_with_a_child_for_each_trial(start, trial, shown) -> None:
    trials = [trial(0), trial(1, State.STOPPED, 2), trial(2, State.FAILED, 0, reason="it broke")]
    driven = Driven(start)
    assert driven.show(*(Seen(t, 100.0 + t.number) for t in trials))
    found = shown(start.uri)
    found.same_as(trials)
    assert found.parent.info.run_name == "first"
    assert found.parent.data.params == {
        "space": "tiny",
        "seed": "0",
        "recipe.optimiser": "sgd",
        "recipe.learning_rate": "0.1",
        "objectives": "val_accuracy",
    }
    assert [run.info.status for run in found.children] == ["FINISHED", "FINISHED", "FAILED"]
    tags = found.children[2].data.tags
    assert (tags["detol.reason"], tags["detol.origin"], tags["detol.seed"]) == ("it broke", "sample", "7")
    assert "detol.reused" not in tags
    assert found.children[0].data.params["recipe.optimiser"] == "sgd"


def test_a_search_without_trials_has_its_parent(start, shown) -> None:
    assert Driven(start).mirror.work()
    assert shown(start.uri).parent.data.params["objectives"] == "val_accuracy"


def test_the_parent_counts_states_and_shows_the_best(start, trial, shown) -> None:
    driven = Driven(start)
    driven.show(Seen(trial(0), 1.0), Seen(trial(5, reused="other/3"), 2.0), Seen(trial(9, State.DIVERGED, 1), 3.0))
    driven.show(Seen(trial(10, State.RUNNING, 1), 4.0))
    metrics = shown(start.uri).parent.data.metrics
    assert metrics["trials.completed"] == 2
    assert metrics["trials.diverged"] == 1
    assert metrics["trials.running"] == 1
    assert metrics["trials.reused"] == 1
    # Trial 5 after epoch 3; the diverged one and the running one never win.
    assert metrics["best.val_accuracy"] == metrics["best.score"] == 0.08
    driven.show(Seen(trial(10), 5.0))
    assert shown(start.uri).parent.data.metrics["trials.running"] == 0
    assert shown(start.uri).parent.data.tags["detol.best"] == "10"


def test_a_training_from_scratch_is_shown_as_best_before_an_inherited_score(start, trial, shown) -> None:
    driven = Driven(start)
    driven.show(Seen(trial(9, extra={"inherited_from": "0"}), 1.0))
    assert shown(start.uri).parent.data.tags["detol.best"] == "9"  # there is no other yet
    driven.show(Seen(trial(0), 2.0), Seen(trial(5), 3.0))
    parent = shown(start.uri).parent.data
    assert (parent.tags["detol.best"], parent.metrics["best.score"]) == ("5", 0.08)  # (5 + 3) / 100, not (9 + 3) / 100


def test_the_lower_log_loss_decides_on_equal_scores(start, trial, shown) -> None:
    def ended(number: int, loss: float) -> Trial:
        made = replace(trial(number), curve=trial(0).curve, scores=trial(0).scores)
        last = made.reports[-1]
        last = replace(last, metrics={**last.metrics, "val_log_loss": loss})
        return replace(made, reports=(*made.reports[:-1], last))

    driven = Driven(start)
    for number, loss in enumerate((0.3, 0.2, float("nan"))):
        driven.show(Seen(ended(number, loss), 1.0 + number))
    assert shown(start.uri).parent.data.tags["detol.best"] == "1"


def test_a_trial_that_rests_is_scheduled_and_goes_on(start, trial, shown) -> None:
    whole = trial(0)
    driven = Driven(start)
    rested = replace(whole, state=State.PAUSED, reports=whole.reports[:1], curve=whole.curve[:1])
    driven.show(Seen(rested, 1.0), Seen(replace(trial(3), reports=trial(3).reports), 1.5))
    found = shown(start.uri)
    assert [run.info.status for run in found.children] == ["SCHEDULED", "FINISHED"]
    assert found.parent.data.metrics["trials.paused"] == 1
    assert found.parent.data.tags["detol.best"] == "3"  # never at low fidelity
    driven.show(Seen(replace(rested, state=State.RUNNING), 2.0))
    assert shown(start.uri).children[0].info.status == "RUNNING"
    driven.show(Seen(whole, 3.0))
    found = shown(start.uri)
    assert found.children[0].info.status == "FINISHED"
    assert found.parent.data.metrics["trials.paused"] == 0
    found.same_as([whole, trial(3)])


def test_a_curve_grows_while_the_trial_runs(start, trial, shown) -> None:
    whole = trial(0)
    driven = Driven(start)
    driven.show(Seen(replace(whole, state=State.RUNNING, reports=(), curve=(), seconds=0.0), 10.0))
    assert shown(start.uri).children[0].info.status == "RUNNING"
    for report, score in zip(whole.reports, whole.curve, strict=True):
        driven.show(Epoch(0, report, score, 10.0 + report.epoch))
        assert len(shown(start.uri).curve(shown(start.uri).children[0])) == report.epoch
    driven.show(Seen(whole, 20.0))
    found = shown(start.uri)
    found.same_as([whole])
    assert found.children[0].info.start_time == 10_000
    assert found.children[0].info.end_time == 20_000
    history = found.client.get_metric_history(found.children[0].info.run_id, "score")
    assert [(point.step, point.timestamp) for point in history] == [(1, 11_000), (2, 12_000), (3, 13_000)]


def test_a_trial_that_is_tried_again_goes_on_in_its_run(start, trial, shown) -> None:
    driven = Driven(start)
    driven.show(Seen(trial(0, State.LOST, 1, reason="the worker died"), 1.0))
    assert shown(start.uri).children[0].info.status == "KILLED"
    driven.show(Seen(trial(0, State.RUNNING, 0, attempt=2), 2.0))
    assert shown(start.uri).children[0].info.status == "RUNNING"
    again = trial(0, attempt=2)
    driven.show(Seen(again, 3.0))
    shown(start.uri).same_as([again])
    assert shown(start.uri).children[0].data.tags["detol.attempt"] == "2"


def test_values_that_are_not_finite_and_names_that_mlflow_forbids_are_kept(start, trial, shown) -> None:
    report = Report(1, {"val_accuracy": math.nan, "val_loss": math.inf, "odd*name": 1.0})
    odd = trial(0, State.DIVERGED, reports=(report,), curve=(math.nan,), extra={"sent [MB]": 2.5, "device": "cpu"})
    assert Driven(start).show(Seen(odd, 1.0))
    run = shown(start.uri).children[0]
    assert run.data.metrics["odd_name"] == 1.0
    assert math.isnan(run.data.metrics["val_accuracy"])
    assert run.data.tags["detol.extra.sent _MB_"] == "2.5"


def test_more_than_a_batch_holds(start, trial, shown) -> None:
    reports = tuple(Report(e, {f"metric_{k}": 1.0 for k in range(30)} | {"val_accuracy": 0.1}) for e in range(1, 101))
    long = trial(0, reports=reports, curve=(0.1,) * 100)
    many = replace(start, recipe={f"setting_{k}": k for k in range(250)})
    assert Driven(many).show(Seen(long, 1.0))
    found = shown(start.uri)
    assert len(found.curve(found.children[0])) == 100
    assert len(found.children[0].data.params) == 252


def test_shown_again_by_another_mirror_nothing_is_added(start, trial, shown) -> None:
    trials = [trial(0), trial(1, State.STOPPED, 2), trial(2, State.REFUSED, 0)]
    messages = [Seen(t, 50.0) for t in trials]
    Driven(start).show(*messages)
    again = Driven(start)
    again.show(*(replace(m, at=99.0) for m in messages))
    assert (again.mirror.added, again.mirror.complete) == (0, 3)
    shown(start.uri).same_as(trials)


def test_searches_of_one_name_stay_apart_by_identity(start, trial, shown) -> None:
    Driven(start).show(Seen(trial(0), 1.0))
    Driven(replace(start, identity="two")).show(Seen(trial(0), 1.0))
    found = shown(start.uri)
    assert len(found.parents) == len(found.children) == 2


def test_two_searches_share_a_store(start, trial, shown) -> None:
    first, second = Driven(start), Driven(replace(start, search="second", identity="two"))
    for number in range(3):
        first.show(Seen(trial(number), 1.0))
        second.show(Seen(trial(number + 5), 1.0))
    shown(start.uri, "first").same_as([trial(0), trial(1), trial(2)])
    shown(start.uri, "second").same_as([trial(5), trial(6), trial(7)])


def test_a_controller_that_is_gone_leaves_no_run_open(start, trial, shown) -> None:
    driven = Driven(start)
    driven.show(Seen(trial(0), 1.0), Seen(trial(1, State.RUNNING, 1), 1.0))
    driven.mirror.end(clean=False)
    found = shown(start.uri)
    assert [run.info.status for run in found.children] == ["FINISHED", "KILLED"]
    assert found.parent.info.status == "KILLED"
    # The search is resumed: the parent is open again, the trial is trained to its end.
    resumed = Driven(start)
    resumed.show(Seen(trial(1, attempt=2), 2.0))
    assert shown(start.uri).parent.info.status == "RUNNING"
    shown(start.uri).same_as([trial(0), trial(1, attempt=2)])


def test_the_end_of_a_search_is_on_its_parent(start, trial, shown) -> None:
    driven = Driven(start)
    best = trial(4)
    driven.show(
        Seen(best, 1.0), Finish(best, {"trials": 1, "ended": "all done", "best": {"score": 0.07}, "gain": None})
    )
    driven.mirror.end(clean=True)
    parent = shown(start.uri).parent
    assert parent.info.status == "FINISHED"
    assert parent.data.metrics["summary.trials"] == 1
    assert parent.data.metrics["summary.best.score"] == 0.07
    assert parent.data.tags["detol.summary.ended"] == "all done"
    assert parent.data.tags["detol.best_digest"] == best.digest


class Faulty:
    """An MLflow client whose call number ``at`` fails, before it was done or after (the answer is lost)."""

    def __init__(self, client: Any, calls: "itertools.count[int]", at: int, *, done: bool) -> None:
        self._client, self._calls, self._at, self._done = client, calls, at, done

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            number = next(self._calls)
            if number == self._at and not self._done:
                raise ConnectionError("the server is away")
            answer = method(*args, **options)
            if number == self._at:
                raise ConnectionError("the answer was lost")
            return answer

        return call


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("at", range(10))
def test_a_fault_at_any_call_costs_one_warning_and_nothing_else(
    start, trial, shown, monkeypatch, at: int, done: bool
) -> None:
    calls: itertools.count[int] = itertools.count()
    opened = runs.open_store

    def open_faulty(given: Start) -> tuple[Any, str]:
        client, experiment = opened(given)
        return Faulty(client, calls, at, done=done), experiment

    monkeypatch.setattr(runs, "open_store", open_faulty)
    driven = Driven(start)
    trials = [trial(0), trial(1, State.STOPPED, 2)]
    assert not driven.show(*(Seen(t, 5.0) for t in trials), patient=True)
    assert [list(line) for line in driven.said] == [["warning"]]
    assert "`detol track sync first` catches up" in driven.said[0]["warning"]
    assert not driven.mirror.work()  # waits
    driven.time += 1.0
    assert driven.mirror.work()
    assert [list(line) for line in driven.said] == [["warning"], ["note"]]
    driven.mirror.work(patient=False)
    assert driven.mirror.behind == 0
    shown(start.uri).same_as(trials)


def test_a_trial_that_cannot_be_written_does_not_hold_up_the_others(start, trial, shown, monkeypatch) -> None:
    written = runs.Runs.show

    def refuse(self: runs.Runs, wanted: Any) -> bool:
        if wanted.trial.number == 0:
            raise ValueError("this one never")
        return written(self, wanted)

    monkeypatch.setattr(runs.Runs, "show", refuse)
    driven = Driven(start)
    assert not driven.show(Seen(trial(0), 1.0), Seen(trial(1), 1.0), Seen(trial(2), 1.0))
    assert not driven.mirror.work(patient=False)
    assert driven.mirror.behind == 1
    shown(start.uri).same_as([trial(1), trial(2)])


def test_on_a_server_several_are_written_at_once_and_none_is_under_way_after_a_fault(
    start, trial, shown, monkeypatch
) -> None:
    monkeypatch.setattr(runs, "is_server", lambda uri: True)
    written, under_way = runs.Runs.show, set[int]()
    begun, failed = threading.Event(), threading.Event()

    def slow(self: runs.Runs, wanted: Any) -> bool:
        number = wanted.trial.number
        if number == 0:
            assert begun.wait(30)  # another one goes on while this one is at work
            failed.set()
            raise ConnectionError("the server is away")
        under_way.add(number)
        begun.set()
        assert failed.wait(30)
        made = written(self, wanted)
        under_way.remove(number)
        return made

    monkeypatch.setattr(runs.Runs, "show", slow)
    driven = Driven(start)
    trials = [trial(number) for number in range(12)]
    assert not driven.show(*(Seen(t, 1.0) for t in trials))
    assert not under_way
    assert 1 <= driven.mirror.added < 11  # what was under way is there, the rest waits
    monkeypatch.setattr(runs.Runs, "show", written)
    assert driven.mirror.work(patient=False)
    assert (driven.mirror.added, driven.mirror.complete) == (12, 0)
    shown(start.uri).same_as(trials)
