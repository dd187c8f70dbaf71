"""Several processes at one database: nothing is lost, whoever dies."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from detol.errors import ResultsError
from detol.results.store import Database, SearchStore
from detol.search.records import Trial

WRITER = """
import sys
from dataclasses import replace
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
database = Database(path)
store = database.create_search(name, {}, {"digest": "x1:digits"}, Recipe())
candidate = Candidate(Decisions(), chain(op("conv")), Origin.SAMPLE)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    trial = Trial(number, candidate, State.RUNNING, epochs=1)
    store.add(trial)
    store.step(1, [number - 1] if number else [])
    store.spend(1.0)
    store.commit()
    done = replace(trial, state=State.COMPLETED, reports=(Report(1, {"m": 0.5}),), curve=(0.5,), scores=(0.5,))
    store.record(done)
    store.commit()
    print(number, flush=True)
"""


def start(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WRITER, str(path), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_processes_create_and_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    processes = [start(path, name, 40) for name in ("a", "b")]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    with Database(path) as database:
        for name in ("a", "b"):
            store = database.open_search(name)  # its process is gone, so it is free
            assert [t.number for t in store.trials()] == list(range(40))
            assert all(t.scores == (0.5,) and len(t.reports) == 1 for t in store.trials())
            assert [asked for asked, _ in store.steps()] == [1] * 40
            assert store.consumed == 40.0


def test_two_threads_write_at_once(
    database: Database, make_search: Callable[..., SearchStore], make_trial: Callable[..., Trial]
) -> None:
    def write(name: str) -> None:
        store = make_search(name)
        for number in range(25):
            store.add(make_trial(number, 0.5))
            store.commit()
        store.finish()

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(database.open_search(name).trials()) for name in ("a", "b")] == [25, 25]


@pytest.mark.parametrize("after", [0, 7])
def test_kill_9_of_a_writer_leaves_an_intact_database(tmp_path: Path, after: int) -> None:
    path = tmp_path / "r.db"
    process = start(path, "a", 100_000)
    go(process)
    assert process.stdout is not None
    last = -1
    while last < after:
        last = int(process.stdout.readline())
    with Database(path) as database, pytest.raises(ResultsError, match=f"is being run by process {process.pid} on "):
        database.open_search("a")
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0].split()
    last = int(rest[-1]) if rest else last
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    with Database(path) as database:
        store = database.open_search("a")
        found = store.trials()
        # What was said to be committed is there; a commit that was under way is there whole or not at all.
        assert [t.number for t in found] == list(range(len(found)))
        assert len(found) in (last + 1, last + 2)
        assert all(t.scores == (0.5,) for t in found[: last + 1])
        assert len(store.steps()) == len(found) == store.consumed
        store.add(found[0].__class__(len(found), found[0].candidate, found[0].state, epochs=1))
        store.commit()


def test_a_writer_that_was_replaced_stops(
    database: Database, make_search: Callable[..., SearchStore], make_trial: Callable[..., Trial]
) -> None:
    store = make_search("a")
    with database.engine.begin() as connection:  # as a controller on another machine would, after its silence
        connection.exec_driver_sql("UPDATE searches SET owner = 'another'")
    store.add(make_trial(0))
    with pytest.raises(ResultsError, match="taken over by another controller"):
        store.commit()
    assert database.open_search("a", lock=False).trials() == []


def test_a_busy_database_is_tried_again(
    database: Database, make_search: Callable[..., SearchStore], make_trial: Callable[..., Trial]
) -> None:
    store = make_search("a")
    store.add(make_trial(0))
    blocker = sqlite3.connect(str(database.url.database), isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, blocker.execute, ["COMMIT"])
    timer.start()
    store.commit()
    timer.join()
    blocker.close()
    assert len(database.open_search("a", lock=False).trials()) == 1


def test_a_file_that_another_process_is_just_creating_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")  # the change to WAL does not wait for it: SQLite says BUSY at once
    with (
        closing(sqlite3.connect(path, timeout=30)) as other,
        pytest.raises(sqlite3.OperationalError, match="is locked"),
    ):
        other.execute("PRAGMA journal_mode=WAL")
    timer = threading.Timer(0.2, blocker.execute, ["COMMIT"])
    timer.start()
    with Database(path) as database:
        assert database.sqlite
    timer.join()
    with closing(blocker) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
