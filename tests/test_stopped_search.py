"""Searches that pause and stop trials, from settings to results: real training in this process, small data."""

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import detol
from detol import config, wire
from detol.cli import run
from detol.errors import DetolError
from detol.result import SearchResult
from detol.results import weights
from detol.results.store import Database
from detol.run import resume
from detol.search.records import Report, State, Trial
from detol.search.rehearse import NOBODY
from detol.stopping.promotion import PromotingAsha

Search = Callable[..., SearchResult]
OPTIONS = {"grace": 2, "eta": 2, "maximum": 4, "audit_share": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "made.npz"
    np.savez(path, x=x, y=(x[:, 0] * x[:, 1] > 0).astype(np.int64))
    return path


@pytest.fixture
def search(data: Path, tmp_path: Path) -> Search:
    def made(name: str, **options: object) -> SearchResult:
        given: dict[str, object] = {
            "strategy": "random", "space": "tabular", "epochs": 5, "trials": 6, "executor": "inline", "workers": 1,
            "tracking": "off", "device": "cpu", "db": str(tmp_path / "results.db"), "name": name, "references": False,
        }  # fmt: skip
        return detol.search(str(data), **{**given, **options})  # type: ignore[arg-type]

    return made


def test_rungs_grace_and_maximum_survive_a_resume(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[PromotingAsha] = []
    stopper = wire.stopper

    def noted(*args: object, **options: object) -> object:
        rule = stopper(*args, **options)  # type: ignore[arg-type]
        if "trials" in options and isinstance(rule, PromotingAsha):
            rules.append(rule)
        return rule

    monkeypatch.setattr(wire, "stopper", noted)
    search("s", options={"stop": OPTIONS})
    result = resume("s", db=str(tmp_path / "results.db"), trials=12)
    first, second = rules
    assert first.rungs == second.rungs == (2, 4)
    assert (first.trials, second.trials) == (6, 12)
    assert (first.eta, first.maximum) == (second.eta, second.maximum) == (2, 4)
    ended = [trial for trial in result.trials if trial.state is State.STOPPED]
    assert len(result.trials) == 12
    assert {trial.epoch for trial in ended} <= {2, 4}  # counted from the start of a trial, whatever was resumed
    assert {trial.epoch for trial in ended if trial.number >= 6} <= {2, 4}
    assert result.best is not None
    assert result.best.state is State.COMPLETED


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"eta": 1}, "eta must be a whole number of at least 2, got 1"),
        ({"maximum": 6}, "maximum must be at most the 5 epochs of a trial, got 6: lower it"),
        ({"rungs": [1, 6]}, "a rung must be at most the maximum of 5 epochs, got 6: leave it out"),
        ({"rungs": [1, 4], "maximum": 3}, "a rung must be at most the maximum of 3 epochs, got 4: leave it out"),
        ({"grace": 6}, "grace must be at most the maximum of 5 epochs, got 6: lower it"),
    ],
)
def test_rungs_that_cannot_be_are_one_line_and_nothing_is_written(
    search: Search, tmp_path: Path, options: dict[str, object], line: str
) -> None:
    with pytest.raises(DetolError) as caught:
        search("s", options={"stop": options})
    assert str(caught.value) == line
    assert not (tmp_path / "results.db").exists()


class Disk:
    """Full between two writes: what is flushed then has no room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, full: range) -> None:
        self.full, self.writes, self.refused, flush = full, 0, 0, os.fsync

        def fsync(number: int) -> None:
            self.writes += 1
            if self.writes in self.full:
                self.refused += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            flush(number)

        monkeypatch.setattr(weights.os, "fsync", fsync)


@pytest.mark.parametrize("full", [range(3, 6), range(1, 1000)])
def test_on_a_full_disk_few_trials_rest_and_nothing_is_half_written(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: range
) -> None:
    disk = Disk(monkeypatch, full)
    result = search("s", options={"stop": {"audit_share": 0}})
    assert disk.refused
    assert len(result.trials) == 6
    assert all(trial.state in (State.COMPLETED, State.STOPPED) for trial in result.trials)
    stopped = [trial for trial in result.trials if "its checkpoint could not be kept" in trial.reason]
    assert len(stopped) == (1 if full.start == 1 else 0)  # of six, memory holds the best five
    assert all(trial.epoch == len(trial.curve) > 0 for trial in result.trials)
    files = {path for path in (tmp_path / "weights").rglob("*") if path.is_file()}
    assert not [path for path in files if path.suffix == ".part"]
    assert result.best is not None
    assert result.best.state is State.COMPLETED
    if full.start > 1:  # there was room again: its weights are whole
        assert result.summary["test"] is not None
        assert tmp_path / result.best.weights in files


def test_the_audit_says_what_the_rule_cost(
    search: Search, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search("s", trials=12)
    search("n", trials=2, stop="none", seed=1)
    where = ["--db", str(tmp_path / "results.db")]
    assert run(["results", "audit", "s", *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "epochs",
        "winner",
        "regret of the rule over those orders",
        "spared",
    ]
    assert run(["results", "audit", "s", *where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    with Database(tmp_path / "results.db") as database:
        trials = database.open_search("s", lock=False).trials()
    complete = [trial for trial in trials if trial.state is State.COMPLETED]
    assert (found["trials"], found["complete"], found["epochs_full"]) == (12, len(complete), 60)
    assert found["epochs_spent"] == sum(trial.epoch for trial in trials) < 60
    assert found["winner"] == max(complete, key=lambda trial: (trial.curve[-1], -trial.number)).number
    assert found["spared"] >= 3  # 5 % of 12, but at least 3
    assert 0 <= found["lost"] <= 1
    assert 0 <= found["regret"] <= found["regret_max"] < math.inf
    assert run(["results", "audit", "n", *where]) == 2
    assert capsys.readouterr().err.strip().endswith("--stop RULE says what one would cost")
    assert run(["results", "audit", "n", *where, "--stop", "asha"]) == 0


def test_an_audit_knows_that_all_trials_were_there_though_some_have_no_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """One failed before its first epoch, one was refused: the rule saw six of six, and has five curves to replay."""
    asked: list[object] = []
    stopper = wire.stopper

    def noted(*args: object, **options: object) -> object:
        asked.append(options["trials"])
        return stopper(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(wire, "stopper", noted)
    settings = config.settings(None, {}, data="digits", trials=6, epochs=4, stop="promote")
    curve = (0.1, 0.2, 0.3, 0.4)
    reports = tuple(Report(epoch, {}) for epoch in range(1, 5))
    trials = [Trial(n, NOBODY, State.COMPLETED, 4, reports=reports, curve=curve) for n in range(5)]
    trials += [Trial(5, NOBODY, State.FAILED, 4), Trial(6, NOBODY, State.REFUSED, 4)]
    stored = {"settings": settings.as_dict(), "objectives": ["val_accuracy"]}
    for kept, expected in ((trials, [6, 5]), (trials[:5], [6, 6])):
        store = SimpleNamespace(name="s", settings=stored, trials=lambda kept=kept: kept)
        wire.audit(store, orders=1)  # type: ignore[arg-type]
        assert asked == expected
        asked.clear()
