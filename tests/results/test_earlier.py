"""Finished curves of earlier searches: which ones, in which order, and kept without loss."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from detol.results import earlier
from detol.results.earlier import Curve, as_trials, curves, from_record, to_record
from detol.results.store import Database, SearchStore
from detol.search.records import INHERITED, State, Trial

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]
ASKED = {"data": "x1:digits", "space": "tiny", "objective": "val_accuracy", "epochs": 3}


def found(database: Database, **changes: object) -> list[str]:
    with database.read() as connection:
        return [curve.trial for curve in curves(connection, **{**ASKED, **changes})]  # type: ignore[arg-type]


def test_finished_curves_of_the_same_data_metric_and_epochs_the_latest_first(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 0.1, 0.2, 0.3), make_trial(1, 0.4, 0.5, 0.6))
    make_search("b", make_trial(0, 0.2, 0.3, 0.4), space="another")
    make_search("loss", make_trial(0, 0.1, 0.2, 0.3), objectives=["val_loss"])
    assert found(database) == ["b/0", "a/1", "a/0"]
    assert found(database, objective="val_loss") == ["loss/0"]
    assert found(database, epochs=4) == []
    assert found(database, most=2) == ["b/0", "a/1"]
    assert found(database, averaging=0.98) == []  # all these are of the weights themselves
    with database.read() as connection:
        assert curves(connection, **ASKED)[1] == Curve("a/1", True, (0.4, 0.5, 0.6))  # type: ignore[arg-type]


def test_what_is_no_training_from_scratch_to_its_end_is_left_out(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    done = make_trial(0, 0.1, 0.2, 0.3)
    gap = make_trial(1, 0.1, 0.2, 0.3)
    make_search(
        "a",
        done,
        replace(gap, reports=gap.reports[::2], curve=gap.curve[::2]),
        replace(make_trial(2, 0.1, 0.2), state=State.STOPPED),
        replace(make_trial(3, 0.1, 0.2, 0.3), reused="old/1"),
        replace(make_trial(4, 0.1, 0.2, 0.3), extra={INHERITED: "0"}),
        replace(make_trial(5, 0.1, math.nan, 0.3)),
        replace(make_trial(6, 0.1, 0.2, math.nan), state=State.DIVERGED),
        make_trial(7),
    )
    assert found(database) == ["a/0"]


def test_the_same_space_on_other_data_fills_up_what_is_missing(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier, "FILLED", 3)
    trials = [make_trial(number, 0.1, 0.2, 0.3) for number in range(3)]
    make_search("own", *trials[:1])
    make_search("kin", *trials, data="letters")
    make_search("stranger", *trials, data="letters", space="another")
    assert found(database) == ["own/0", "kin/2", "kin/1"]
    with database.read() as connection:
        assert [curve.same_data for curve in curves(connection, **ASKED)] == [True, False, False]  # type: ignore[arg-type]
    make_search("more", *trials)  # enough of the same data: none of other data
    assert found(database) == ["more/2", "more/1", "more/0", "own/0"]


def test_they_are_kept_in_a_record_and_come_back_as_trials(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 1 / 3, 2 / 3, 123456.789))
    with database.read() as connection:
        kept = curves(connection, **ASKED)  # type: ignore[arg-type]
    assert kept[0].scores == (0.3333333, 0.6666667, 123456.8)
    assert from_record(json.loads(json.dumps(to_record(kept)))) == kept
    (trial,) = as_trials(kept)
    assert (trial.number, trial.state, trial.epoch, trial.epochs, trial.score) == (-1, State.COMPLETED, 3, 3, 123456.8)
    assert trial.curve == kept[0].scores
