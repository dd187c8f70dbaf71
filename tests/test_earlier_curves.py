"""A search with the curve rule begins with finished curves of the database, and a resume judges by the same ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import detol
from detol import wire
from detol.result import SearchResult
from detol.results.earlier import from_record
from detol.results.store import Database
from detol.run import resume
from detol.search.records import State
from detol.stopping.audited import Audited
from detol.stopping.curve import CurveStop
from detol.stopping.joined import Joined

EPOCHS = 4
Search = Callable[..., SearchResult]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "made.npz"
    np.savez(path, x=x, y=(x[:, 0] * x[:, 1] > 0).astype(np.int64))
    return path


@pytest.fixture
def search(data: Path, tmp_path: Path) -> Search:
    def run(name: str, **options: object) -> SearchResult:
        given: dict[str, object] = {
            "strategy": "random", "space": "tabular", "epochs": EPOCHS, "trials": 3, "executor": "inline", "workers": 1,
            "tracking": "off", "device": "cpu", "db": str(tmp_path / "results.db"), "name": name, "references": False,
            "stop": "promote+curve",
        }  # fmt: skip
        return detol.search(str(data), **{**given, **options})  # type: ignore[arg-type]

    return run


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> list[CurveStop]:
    """The curve rules that are made from here on, the checks of settings (without curves) left out."""
    made: list[CurveStop] = []
    stopper = wire.stopper

    def noted(*args: object, **options: object) -> object:
        rule = stopper(*args, **options)  # type: ignore[arg-type]
        if "objectives" in options and isinstance(rule, Audited) and isinstance(rule.rule, Joined):
            made.extend(each for each in rule.rule.stoppers if isinstance(each, CurveStop))
        return rule

    monkeypatch.setattr(wire, "stopper", noted)
    return made


def kept(tmp_path: Path, name: str) -> list[str]:
    with Database(tmp_path / "results.db") as database:
        store = database.open_search(name, lock=False)
        return [curve.trial for curve in from_record(store.settings.get("earlier", ()))]


def test_what_finished_before_is_taken_and_a_resume_takes_the_same(
    search: Search, judges: list[CurveStop], tmp_path: Path
) -> None:
    search("first", stop="none")
    assert kept(tmp_path, "first") == []  # its rule learns from no curves
    search("second", seed=1, trials=2)
    assert kept(tmp_path, "second") == ["first/2", "first/1", "first/0"]
    with Database(tmp_path / "results.db") as database:
        first = {f"first/{trial.number}": trial.curve for trial in database.open_search("first", lock=False).trials()}
    (rule,) = judges
    assert [trial.curve for trial in rule.earlier] == [
        pytest.approx(first[place], rel=1e-6) for place in ("first/2", "first/1", "first/0")
    ]
    assert all(trial.state is State.COMPLETED and trial.epochs == EPOCHS for trial in rule.earlier)
    search("between", stop="none", seed=5)  # finished since: a new search sees them, a resume does not
    resume("second", db=str(tmp_path / "results.db"), trials=3)
    assert [trial.curve for trial in judges[1].earlier] == [trial.curve for trial in rule.earlier]
    assert kept(tmp_path, "second") == ["first/2", "first/1", "first/0"]
    search("third", seed=2, trials=1)
    assert kept(tmp_path, "third")[:3] == ["between/2", "between/1", "between/0"]


def test_other_epochs_and_no_database_give_none(search: Search, tmp_path: Path) -> None:
    search("alone", trials=1)
    assert kept(tmp_path, "alone") == []
    search("shorter", trials=1, epochs=EPOCHS - 1, seed=3)
    assert kept(tmp_path, "shorter") == []


def test_an_audit_replays_with_them(search: Search, judges: list[CurveStop], tmp_path: Path) -> None:
    search("first", stop="none")
    search("second", seed=1)
    with Database(tmp_path / "results.db") as database:
        wire.audit(database.open_search("second", lock=False), orders=1)
    assert len(judges) == 2
    begun, replayed = judges
    assert [trial.curve for trial in replayed.earlier] == [trial.curve for trial in begun.earlier]
    assert len(replayed.earlier) == 3
