"""The tracker with its mirror process: what the controller sees of it."""

import os
import pickle
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from detol.errors import UsageError
from detol.search.records import Ended, Reported, State
from detol.tracking.mirror import Mirror
from detol.tracking.place import writer_lock
from detol.tracking.sync import Synced, sync
from detol.tracking.tracker import MlflowTracker
from detol.tracking.wire import Seen

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


def test_a_search_is_shown_by_the_mirror_process(uri, trial, shown, tmp_path: Path) -> None:
    warned: list[str] = []
    tracker = MlflowTracker(uri, "first", {"space": "tiny"}, warn=warned.append, log=tmp_path / "logs" / "mirror.log")
    whole = trial(0)
    alive = replace(whole, state=State.RUNNING, reports=(), curve=())
    tracker.record(alive, None)
    for count, report in enumerate(whole.reports, start=1):
        alive = replace(alive, reports=whole.reports[:count], curve=whole.curve[:count])
        tracker.record(alive, Reported(0, report))
    tracker.record(whole, Ended(0, State.COMPLETED))
    tracker.record(trial(1, reused="other/4"), None)
    tracker.finish(whole, {"trials": 2})
    tracker.close()
    assert warned == []
    assert (tracker.added, tracker.behind) == (2, 0)
    assert (tmp_path / "logs" / "mirror.log").is_file()
    found = shown(uri)
    found.same_as([whole, trial(1)])
    assert found.parent.info.status == "FINISHED"
    assert found.children[1].data.tags["detol.reused"] == "other/4"
    # The mirror is not part of the controller: MLflow was not loaded for it.
    code = "import sys; import detol.tracking.tracker; print('mlflow' in sys.modules, 'torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_a_server_that_is_not_there_costs_one_warning_and_sync_catches_up(uri, trial, shown) -> None:
    warned: list[str] = []
    trials = [trial(number) for number in range(3)]
    tracker = MlflowTracker("http://127.0.0.1:9", "first", warn=warned.append)  # the discard port: nobody listens
    for one in trials:
        tracker.record(one, None)
    tracker.close()
    assert len(warned) == 1
    assert "http://127.0.0.1:9 cannot be written" in warned[0]
    assert "\n" not in warned[0]
    assert "detol track sync first" in warned[0]
    assert tracker.behind == 3
    done = sync(trials, uri, "first", {"space": "tiny"}, best=trials[2], summary={"trials": 3})
    assert done == Synced(added=3, complete=0, behind=0)
    found = shown(uri)
    found.same_as(trials)
    assert found.parent.data.metrics["summary.trials"] == 3


def test_a_mirror_that_dies_costs_one_warning(uri, trial) -> None:
    warned: list[str] = []
    tracker = MlflowTracker(uri, "first", warn=warned.append)
    tracker.record(trial(0), None)
    assert tracker._process is not None
    tracker._process.kill()
    for number in range(300):  # more than the pipe holds
        tracker.record(trial(number % 5), None)
    tracker.close()
    assert len(warned) == 1
    assert "the mirror process died" in warned[0]


def test_two_searches_start_at_once_on_a_store_without_tables(tmp_path: Path, trial, shown) -> None:
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    warned: list[str] = []
    trackers = [MlflowTracker(uri, name, warn=warned.append) for name in ("first", "second")]
    for number in range(3):
        for tracker in trackers:
            tracker.record(trial(number), None)
    for tracker in trackers:
        tracker.close()
    assert warned == []
    for name in ("first", "second"):
        shown(uri, name).same_as([trial(0), trial(1), trial(2)])


_CONTROLLER = """
import os, signal, sys
from detol.tracking.tracker import _spawn
from detol.tracking.wire import Seen, send
import pickle
process = _spawn(None)
for message in pickle.load(open(sys.argv[1], "rb")):
    send(process.stdin, message)
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_kill_9_of_the_controller_the_mirror_writes_what_it_got_and_ends(start, trial, shown, tmp_path) -> None:
    whole, cut = trial(0), trial(1, State.RUNNING, 1)
    messages = [start, Seen(whole, 10.0), Seen(cut, 11.0)]
    (tmp_path / "messages").write_bytes(pickle.dumps(messages))
    command = [sys.executable, "-c", _CONTROLLER, str(tmp_path / "messages")]
    controller = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert controller.returncode == -signal.SIGKILL
    try:
        mirror = os.pidfd_open(int(controller.stdout))
    except ProcessLookupError:
        pass  # ended already
    else:
        assert select.select([mirror], [], [], 120)[0], "the mirror outlives its controller"
        os.close(mirror)
    shown(start.uri).same_as([whole, cut])
    assert [run.info.status for run in shown(start.uri).children] == ["FINISHED", "KILLED"]
    # Resumed: the same trials once more, and the lost one to its end.
    trials = [whole, trial(1, attempt=2)]
    resumed = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    for one in trials:
        resumed.take(Seen(one, 20.0))
    assert resumed.work()
    assert (resumed.added, resumed.complete) == (0, 1)
    shown(start.uri).same_as(trials)


def test_a_second_mirror_of_one_search_waits_for_the_first(start, monkeypatch) -> None:
    monkeypatch.setattr("detol.tracking.place._WAIT", 0.05)
    with writer_lock(start), pytest.raises(TimeoutError):
        writer_lock(start).acquire()
    with writer_lock(start):
        pass


def test_a_directory_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="MLflow 3.13 dropped its file store"):
        MlflowTracker("./mlruns", "first")
