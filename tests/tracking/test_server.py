"""Against a real MLflow server that goes away and comes back."""

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detol.search.records import Report, State
from detol.tracking.mirror import Mirror
from detol.tracking.process import ENVIRONMENT
from detol.tracking.wire import Seen, Start

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
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
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


def test_a_server_stopped_and_started_in_between_is_complete(tmp_path, template, trial, shown, monkeypatch) -> None:
    for name, value in ENVIRONMENT.items():  # as in the mirror process
        monkeypatch.setenv(name, value)
    (tmp_path / "mlflow.db").write_bytes(template.read_bytes())
    port = free_port()
    said: list[Any] = []
    lost = replace(trial(3, State.DIVERGED, 1), reports=(Report(1, {"val_accuracy": 0.04, "val_loss": math.nan}),))
    trials = [trial(0), trial(1), trial(2, State.STOPPED, 2), lost]
    with server(tmp_path, port) as uri:
        start = Start(uri=uri, search="first", identity="one", settings={"space": "tiny"})
        mirror = Mirror(start, said.append, lambda: 0.0)
        mirror.take(Seen(trials[0], 1.0))
        mirror.take(Seen(trial(1, State.RUNNING, 1), 1.0))
        assert mirror.work(patient=False)
    for one in trials[1:]:
        mirror.take(Seen(one, 2.0))
    assert not mirror.work(patient=False)
    assert not mirror.work(patient=False)
    assert [list(line) for line in said] == [["warning"]]
    with server(tmp_path, port) as uri:
        # What `detol track sync` does, while the mirror of the search has not tried again.
        late = Mirror(start, said.append, lambda: 0.0)
        for one in trials:
            late.take(Seen(one, 3.0))
        assert late.work(patient=False)
        assert (late.added, late.complete) == (2, 1)
        shown(uri).same_as(trials)
        assert mirror.work(patient=False)
        assert (mirror.added, mirror.behind) == (2, 0)
        shown(uri).same_as(trials)
        metrics = shown(uri).children[3].data.metrics
        assert math.isnan(metrics["val_loss"])
    assert [list(line) for line in said] == [["warning"], ["note"]]
