"""Against a real MLflow server that goes away and comes back."""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detol.search.records import Report, State, Trial
from detol.tracking.mirror import Mirror
from detol.tracking.process import ENVIRONMENT
from detol.tracking.tracker import MlflowTracker
from detol.tracking.wire import Finish, Seen, Start

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


@dataclass
class Story:
    """A server that was stopped while a search went on, and started again: it is up while the tests run."""

    uri: str
    start: Start
    mirror: Mirror
    trials: list[Trial]
    said: list[Any]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, template: Path, trial: Any) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(template.read_bytes())
    said: list[Any] = []
    lost = replace(trial(3, State.DIVERGED, 1), reports=(Report(1, {"val_accuracy": 0.04, "val_loss": math.nan}),))
    trials = [trial(0), trial(1), trial(2, State.STOPPED, 2), lost]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():  # as in the mirror process
            patch.setenv(name, value)
        port = free_port()
        with server(folder, port) as uri:
            start = Start(
                uri=uri,
                search="first",
                identity="one",
                settings={"space": "tiny", "strategy": "random"},
                data={
                    "name": "digits",
                    "digest": "x1:12",
                    "task": "classification",
                    "shape": [1, 8, 8],
                    "dtype": "uint8",
                },
                workers=2,
            )
            mirror = Mirror(start, said.append, lambda: 0.0)
            mirror.take(Seen(trials[0], 1.0))
            mirror.take(Seen(trial(1, State.RUNNING, 1), 1.0))
            assert mirror.work(patient=False)
        for one in trials[1:]:
            mirror.take(Seen(one, 2.0))
        assert not mirror.work(patient=False)
        assert not mirror.work(patient=False)
        with server(folder, port) as uri:
            yield Story(uri, start, mirror, trials, said)


def test_a_server_stopped_and_started_in_between_is_complete(story: Story, shown) -> None:
    assert [list(line) for line in story.said] == [["warning"]]
    # What `detol track sync` does, while the mirror of the search has not tried again.
    late = Mirror(story.start, story.said.append, lambda: 0.0)
    for one in story.trials:
        late.take(Seen(one, 3.0))
    assert late.work(patient=False)
    assert (late.added, late.complete) == (2, 1)
    shown(story.uri).same_as(story.trials)
    assert story.mirror.work(patient=False)
    assert (story.mirror.added, story.mirror.behind) == (2, 0)
    shown(story.uri).same_as(story.trials)
    metrics = shown(story.uri).children[3].data.metrics
    assert math.isnan(metrics["val_loss"])
    assert [list(line) for line in story.said] == [["warning"], ["note"]]


def test_two_searches_at_once_on_one_server(story: Story, shown, trial) -> None:
    trackers = [MlflowTracker(story.uri, name, warn=pytest.fail) for name in ("left", "right")]
    for number in range(4):
        for tracker in trackers:
            tracker.record(trial(number), None)
    for tracker in trackers:
        tracker.finish(trial(3), {"trials": 4})
    for tracker in trackers:
        tracker.close()
    for name in ("left", "right"):
        shown(story.uri, name).same_as([trial(number) for number in range(4)])


def test_what_the_parent_shows_and_people_filter_by(story: Story, shown) -> None:
    found = shown(story.uri)
    (entry,) = found.parent.inputs.dataset_inputs
    assert (entry.dataset.name, entry.dataset.digest) == ("digits", "x1:12")
    assert "[-1, 1, 8, 8]" in json.loads(entry.dataset.schema)["mlflow_tensorspec"]["features"]
    metrics = found.parent.data.metrics
    assert (metrics["trials.completed"], metrics["trials.stopped"], metrics["savings.epochs_stopped"]) == (2, 1, 1)
    # Trial 1 was seen running for the second between 1.0 and 2.0, on one of two workers.
    assert metrics["utilisation"] == pytest.approx(0.5)
    where = "tags.`detol.data` = 'digits' and tags.`detol.strategy` = 'random' and tags.`detol.kind` = 'trial'"
    assert len(found.client.search_runs([found.experiment.experiment_id], where)) == 4
    where = "tags.`detol.state` = 'stopped' and attributes.status = 'FINISHED'"
    assert len(found.client.search_runs([found.experiment.experiment_id], where)) == 1


def test_the_winner_is_registered_with_an_alias_and_loads_from_the_server(story: Story, shown, export: Path) -> None:
    import mlflow
    import mlflow.pyfunc

    story.mirror.work(patient=False)
    for times in (1, 2):  # a search is over, is resumed, is over again
        story.mirror.take(Finish(story.trials[1], {"trials": 4, "seconds": 4.0}, str(export)))
        assert story.mirror.work(patient=False), times
    found = shown(story.uri)
    (version,) = found.client.search_model_versions("name = 'first'")
    assert version.tags["detol.digest"] == story.trials[1].digest
    assert version.run_id == found.parent.info.run_id
    assert found.client.get_model_version_by_alias("first", "best").version == version.version
    assert found.parent.data.tags["detol.model"] == "models:/first@best"
    # Trials of 2 s, four of them, on 2 workers in 4 s.
    assert found.parent.data.metrics["summary.utilisation"] == pytest.approx(1.0)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(story.uri)
    try:
        model = mlflow.pyfunc.load_model("models:/first@best")
    finally:
        mlflow.set_tracking_uri(before)
    assert model.predict(np.float32([[1, 2, 3]]))["logits"].tolist() == [[2, 4, 6]]
    example = model.metadata.saved_input_example_info
    assert example["artifact_path"] == "input_example.json"
