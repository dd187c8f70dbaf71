"""Signals to a running search, and the sudden death of its controller: nothing is lost, and a resume goes on.

The searches run in processes of their own. The tests wait for what the database says, never for a time.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from detol import cli
from detol.commands.search import Terminal
from detol.search.controller import Controller

TRIALS, EPOCHS = 4, 15
SEARCH = ["search", "--data", "digits", "--space", "tiny", "--strategy", "random", "--stop", "none"]
SEARCH += ["--executor", "inline", "--tracking", "off", "--trials", str(TRIALS), "--epochs", str(EPOCHS)]
PATIENCE = 120.0
"""Seconds after which a search that shows no progress counts as hung."""
pytestmark = pytest.mark.usefixtures("own_directory")


def ask(db: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a query, none while there is no database or no table yet."""
    if not db.exists():
        return []
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection, suppress(sqlite3.OperationalError):
        return connection.execute(query).fetchall()
    return []


def at(number: int, epoch: int) -> str:
    """Return a query with an answer as soon as a trial has reported an epoch."""
    return f"SELECT 1 FROM reports WHERE number = {number} AND epoch = {epoch}"


@contextmanager
def running(db: Path, name: str, until: str, search: Sequence[str] = SEARCH) -> "Iterator[subprocess.Popen[str]]":
    """Start a search in a process of its own and wait until a query has an answer; at the end the process is gone."""
    command = [sys.executable, "-m", "detol", *search, "--name", name, "--db", str(db)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        started = time.monotonic()
        while not ask(db, until):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() - started < PATIENCE, "no progress"
            time.sleep(0.005)
        yield process
    finally:
        process.kill()
        process.communicate()


def trials(db: Path) -> list[tuple[object, ...]]:
    return ask(db, "SELECT number, digest, seed, state, epoch, origin, score FROM trials ORDER BY number")


def curves(db: Path) -> list[tuple[object, ...]]:
    return ask(db, "SELECT number, epoch, metrics FROM reports ORDER BY number, epoch")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the same search, run to its end at once."""
    db = tmp_path_factory.mktemp("undisturbed") / "results.db"
    assert cli.run([*SEARCH, "--name", "whole", "--db", str(db)]) == 0
    return db


@pytest.fixture
def resumed(capsys: pytest.CaptureFixture[str]) -> Callable[[Path, str], dict[str, object]]:
    """Resume a search to its end in this process, and return its summary."""

    def resume(db: Path, name: str) -> dict[str, object]:
        capsys.readouterr()
        assert cli.run(["resume", name, "--db", str(db), "--json"]) == 0
        summary: dict[str, object] = json.loads(capsys.readouterr().out)
        return summary

    return resume


def status(db: Path, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert cli.run(["status", name, "--db", str(db), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_a_search_with_everything_saved(
    tmp_path: Path, undisturbed: Path, resumed, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    db = tmp_path / "results.db"
    with running(db, "mine", at(1, 2)) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "detol resume mine" in err
    assert "Traceback" not in err
    found = status(db, "mine", capsys)
    assert found["state"] == "interrupted"
    assert found["states"]["completed"] >= 1
    assert found["trials"] < TRIALS
    summary = resumed(db, "mine")
    assert (summary["trials"], summary["trained"]) == (TRIALS, TRIALS)
    assert status(db, "mine", capsys)["state"] == "finished"
    assert trials(db) == trials(undisturbed)
    assert curves(db) == curves(undisturbed)


@pytest.mark.parametrize("moment", [(0, 3), (2, 1)], ids=["in the first trial", "in a later trial"])
def test_a_killed_controller_loses_nothing(
    tmp_path: Path, undisturbed: Path, resumed, capsys: pytest.CaptureFixture[str], moment: tuple[int, int]
) -> None:
    db = tmp_path / "results.db"
    with running(db, "mine", at(*moment)) as process:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert status(db, "mine", capsys)["state"] == "interrupted"
    ended = ask(db, "SELECT number, ended, weights FROM trials WHERE state = 'completed' ORDER BY number")
    assert len(ended) >= moment[0]
    summary = resumed(db, "mine")
    assert (summary["trials"], summary["failed"]) == (TRIALS, 0)
    assert [row[0] for row in trials(db)] == list(range(TRIALS))  # no number lost, none given again
    assert {row[3] for row in trials(db)} == {"completed"}
    kept = ask(db, "SELECT number, ended, weights FROM trials ORDER BY number")
    assert kept[: len(ended)] == ended  # what had ended was not trained again
    assert trials(db) == trials(undisturbed)
    assert curves(db) == curves(undisturbed)


def test_an_interruption_after_the_last_trial_is_said_too(
    tmp_path: Path,
    undisturbed: Path,
    resumed,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt  # as a signal does while the winner is tested

    db = tmp_path / "results.db"
    with monkeypatch.context() as patched:
        patched.setattr("detol.run.test_of", interrupted)
        assert cli.run([*SEARCH, "--name", "mine", "--db", str(db), "--json"]) == 130
    out, err = capsys.readouterr()
    assert f"interrupted, everything is saved; go on with: detol resume mine --db {db}" in err
    assert json.loads(out)["trials"] == TRIALS
    assert status(db, "mine", capsys)["state"] == "interrupted"
    assert resumed(db, "mine")["test"]
    assert trials(db) == trials(undisturbed)


def test_a_second_interruption_ends_a_turn_in_its_middle_and_is_said_too(
    tmp_path: Path,
    undisturbed: Path,
    resumed,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def twice(_: Terminal, search: Controller) -> None:
        if search.tally.trained:
            signal.raise_signal(signal.SIGINT)  # asks for an end at the next turn
            signal.raise_signal(signal.SIGINT)  # does not wait for it

    db = tmp_path / "results.db"
    with monkeypatch.context() as patched:
        patched.setattr(Terminal, "__call__", twice)
        assert cli.run([*SEARCH, "--name", "mine", "--db", str(db), "--json"]) == 130
    out, err = capsys.readouterr()
    assert f"interrupted, everything is saved; go on with: detol resume mine --db {db}" in err
    assert 1 <= json.loads(out)["trained"] < TRIALS
    assert resumed(db, "mine")["trials"] == TRIALS
    assert trials(db) == trials(undisturbed)
    assert curves(db) == curves(undisturbed)


PAUSING = ["search", "--data", "digits", "--space", "tiny", "--strategy", "random", "--stop", "promote"]
PAUSING += [
    "--set",
    "stop.grace=1",
    "--set",
    "stop.audit_share=0",
    "--executor",
    "inline",
    "--tracking",
    "off",
    "--trials",
    "10",
    "--epochs",
    "9",
]


@pytest.fixture(scope="module")
def unpaused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the pausing search, run to its end at once."""
    db = tmp_path_factory.mktemp("unpaused") / "results.db"
    assert cli.run([*PAUSING, "--name", "whole", "--db", str(db)]) == 0
    return db


SEARCHED = "trials.origin <> 'reference'"
GONE_ON = "SELECT 1 FROM trials JOIN reports USING (search, number) WHERE trials.extra LIKE '%checkpoint%' AND "


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        (f"SELECT 1 FROM trials WHERE {SEARCHED} AND state = 'paused'", signal.SIGINT),
        (f"{GONE_ON} {SEARCHED} AND reports.epoch = 2", signal.SIGKILL),
        (f"SELECT 1 FROM trials WHERE {SEARCHED} AND extra LIKE '%finishing%'", signal.SIGKILL),
        ("SELECT 1 FROM trials WHERE origin = 'reference' AND state = 'paused'", signal.SIGKILL),
    ],
    ids=["one rests", "one was promoted", "the best are finished", "a reference rests"],
)
def test_what_rests_is_taken_up_by_a_resume(
    tmp_path: Path, unpaused: Path, resumed, capsys: pytest.CaptureFixture[str], moment: str, number: signal.Signals
) -> None:
    db = tmp_path / "results.db"
    with running(db, "mine", moment, PAUSING) as process:
        process.send_signal(number)
        process.communicate()
    found = status(db, "mine", capsys)
    assert found["state"] == "interrupted"
    assert found["paused"] == found["states"].get("paused", 0)
    rested = ask(db, "SELECT weights FROM trials WHERE state = 'paused' ORDER BY number")
    assert all((tmp_path / str(place)).is_file() for (place,) in rested)
    before = ask(db, "SELECT COUNT(*) FROM reports")
    summary = resumed(db, "mine")
    assert (summary["trials"], summary["failed"], summary["paused"]) == (10, 0, 0)
    assert trials(db) == trials(unpaused)
    assert curves(db) == curves(unpaused)
    assert before <= ask(db, "SELECT COUNT(*) FROM reports")
    assert {row[3] for row in trials(db)} == {"completed", "stopped"}
    # What was stopped may be continued by a later search: its checkpoint stays, and nothing else does.
    left = {str(place.relative_to(tmp_path)) for place in tmp_path.rglob("*.checkpoint")}
    stopped = ask(db, "SELECT extra FROM trials WHERE state = 'stopped'")
    assert left == {json.loads(extra)["checkpoint"] for (extra,) in stopped if "checkpoint" in json.loads(extra)}
    assert left
    assert len(list(tmp_path.rglob("*.safetensors"))) == 5
