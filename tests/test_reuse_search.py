"""Reuse across searches by real training in this process: what is continued or answered equals what is not."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import detol
from detol.cli import run
from detol.result import SearchResult
from detol.results.schema import searches, trials
from detol.results.store import Database
from detol.search.recipe import make_recipe
from detol.search.records import State, Trial
from detol.search.spared import CONTINUED, LEFT, SCHEDULE, SPARED_EPOCHS
from detol.workers.data import read
from detol.workers.tensors import use_threads
from detol.workers.train import train

Search = Callable[..., SearchResult]
EPOCHS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(np.int64)
    path = tmp_path_factory.mktemp("data") / "made.npz"
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


@pytest.fixture
def search(data: Path, db: Path) -> Search:
    def run(name: str, **options: object) -> SearchResult:
        given: dict[str, object] = {
            "strategy": "random", "space": "tabular", "epochs": EPOCHS, "trials": 7, "executor": "inline",
            "workers": 1, "tracking": "off", "device": "cpu", "db": str(db), "name": name, "references": False,
            "options": {"stop": {"audit_share": 0}},
        }  # fmt: skip
        return detol.search(str(data), **{**given, **options})  # type: ignore[arg-type]

    return run


def undisturbed(trial: Trial, data: Path, db: Path, search: str) -> list[tuple[int, dict[str, float]]]:
    """The curve of a trial's training that nothing interrupted."""
    with Database(db) as database:
        recipe = make_recipe(database.open_search(search, lock=False).settings["recipe"])
    use_threads(1)
    reports = train(trial.candidate.topology, read(str(data)), recipe, epochs=trial.epochs, seed=trial.seed)
    return [(report.epoch, dict(report.metrics)) for report in reports]


def curve(trial: Trial) -> list[tuple[int, dict[str, float]]]:
    return [(report.epoch, dict(report.metrics)) for report in trial.reports]


@pytest.mark.parametrize("change", ["none", "removed", "swapped"])
def test_what_another_search_left_is_continued_to_the_bit(
    change: str, search: Search, data: Path, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = search("first", stop="promote")
    left = {trial.number: trial for trial in first.trials if LEFT in trial.extra}
    assert len(left) == 2
    if change == "removed":
        for path in db.parent.glob("weights/*/*.checkpoint"):
            path.unlink()
    if change == "swapped":  # the record names the checkpoint of another training
        numbers = sorted(left)
        with Database(db) as database:
            mine = sa.select(searches.c.id).where(searches.c.name == "first").scalar_subquery()

            def swap(connection: sa.Connection) -> None:
                for number, other in zip(numbers, numbers[1:] + numbers[:1], strict=True):
                    extra = {**left[number].extra, LEFT: left[other].extra[LEFT]}
                    change = trials.update().where(trials.c.search == mine, trials.c.number == number)
                    connection.execute(change.values(extra=json.dumps(extra)))

            database.write(swap)
    second = search("second", stop="none")
    assert all(trial.state is State.COMPLETED for trial in second.trials)
    by_digest = {trial.digest: trial for trial in first.trials}
    continued = [trial for trial in second.trials if trial.extra.get(SPARED_EPOCHS)]
    if change == "none":
        assert len(continued) == len(left)
        for trial in continued:
            source = by_digest[trial.digest]
            assert trial.extra[CONTINUED] == f"first/{source.number}"
            assert trial.extra[SPARED_EPOCHS] == source.epoch
        spared = sum(int(trial.extra[SPARED_EPOCHS]) for trial in continued)
        assert second.summary["continued"] == len(continued)
        assert second.summary["epochs"] == len(continued) * EPOCHS - spared
    else:
        assert continued == []
        assert not any(SPARED_EPOCHS in trial.extra for trial in second.trials)
    for trial in second.trials:
        assert curve(trial) == undisturbed(trial, data, db, "second")
    assert run(["status", "second", "--db", str(db)]) == 0
    assert ("more went on from a checkpoint" in capsys.readouterr().out) == (change == "none")


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_longer_training_answers_a_shorter_one_where_its_beginning_is_the_same(
    schedule: str, search: Search, data: Path, db: Path
) -> None:
    recipe = {"recipe": {"schedule": schedule, "warmup": 0.0, "averaging": 0.0}}
    options = {"stop": "none", "trials": 2, "options": recipe}
    long = search("long", epochs=4, **options)
    short = search("short", epochs=2, **options)
    same = schedule == "constant"
    assert [trial.reused for trial in short.trials] == (["long/0", "long/1"] if same else ["", ""])
    for before, trial in zip(long.trials, short.trials, strict=True):
        assert curve(trial) == undisturbed(trial, data, db, "short")
        assert (curve(trial) == curve(before)[:2]) == same
        assert trial.extra.get(SCHEDULE) == (4 if same else None)
    assert short.test  # the winner's weights are those of its own two epochs


def test_the_same_search_again_by_each_rule(search: Search) -> None:
    first = search("first", stop="none", trials=3, epochs=1)
    assert search("again", stop="none", trials=3, epochs=1).summary["reused"] == 3
    never = search("never", stop="none", trials=3, epochs=1, reuse="never")
    assert (never.summary["trained"], never.summary["reused"]) == (3, 0)
    assert [trial.curve for trial in never.trials] == [trial.curve for trial in first.trials]
    other = search("other", stop="none", trials=30, epochs=1, seed=1, reuse="same-seed", space="tiny")
    assert other.summary["reused"] == 0
    assert search("any", stop="none", trials=30, epochs=1, seed=2, space="tiny").summary["reused"] == 18


def test_a_rule_that_is_none(data: Path, db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "--data", str(data), "--reuse", "sometimes", "--db", str(db)]) == 2
    err = capsys.readouterr().err
    assert "unknown reuse 'sometimes': known: always, never, same-seed" in err
    assert len(err.strip().splitlines()) == 1
    assert not db.exists()
