"""Against a real MLflow server that goes away and comes back."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detol.search.records import State
from detol.tracking.sync import sync
from detol.tracking.tracker import MlflowTracker

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


@contextlib.contextmanager
def server(folder: Path, port: int) -> Iterator[str]:
    """Run ``mlflow server`` over ``folder/mlflow.db`` until the block ends; it is up when the block begins."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    process = subprocess.Popen(
        command + store,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail("the server did not start: " + "".join(said[-5:]))
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_stopped_and_started_in_between_is_complete_after_sync(tmp_path, template, trial, shown) -> None:
    (tmp_path / "mlflow.db").write_bytes(template.read_bytes())
    port = free_port()
    warned: list[str] = []
    with server(tmp_path, port) as uri:
        tracker = MlflowTracker(uri, "first", {"space": "tiny"}, warn=warned.append)
        tracker.record(trial(0), None)
        tracker.record(trial(1, State.RUNNING, 1), None)
        # The mirror says nothing until it closes, so a second one tells that the server takes runs.
        assert sync([trial(0)], uri, "other").added == 1
    tracker.record(trial(1), None)
    tracker.record(trial(2, State.STOPPED, 2), None)
    tracker.close()
    assert len(warned) == 1
    assert tracker.behind >= 2
    trials = [trial(0), trial(1), trial(2, State.STOPPED, 2)]
    with server(tmp_path, port) as uri:
        done = sync(trials, uri, "first")
        assert (done.behind, done.warning) == (0, "")
        shown(uri).same_as(trials)
        assert sync(trials, uri, "first").complete == 3
        shown(uri).same_as(trials)
