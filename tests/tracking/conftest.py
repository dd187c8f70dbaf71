"""A prepared MLflow database to copy (making its tables takes two seconds), trials, and reading back."""

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions
from detol.tracking.wire import Start

OBJECTIVES = (Objective("val_accuracy"),)


def make_trial(number: int, state: State = State.COMPLETED, epochs: int = 3, **changes: Any) -> Trial:
    """Return a trial whose accuracy after epoch e is (number + e) / 100."""
    topology = chain(op("conv", channels=4 + number), op("pool"))
    candidate = Candidate(Decisions(width=4 + number, pool="avg"), topology, Origin.SAMPLE)
    reports = tuple(
        Report(epoch, {"val_accuracy": (number + epoch) / 100, "val_loss": 1 / epoch}, seconds=0.5)
        for epoch in range(1, epochs + 1)
    )
    curve = tuple(report.metrics["val_accuracy"] for report in reports)
    scores = (curve[-1],) if state.scored and curve else None
    trial = Trial(number, candidate, state, 3, seed=7, reports=reports, curve=curve, scores=scores, seconds=2.0)
    return replace(trial, **changes)


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """Import MLflow once, its warnings about its own libraries aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.onnx
        import mlflow.pyfunc  # noqa: F401


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, _imported: None) -> Path:
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "template.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def uri(tmp_path: Path, template: Path) -> str:
    """A SQLite store with tables and without runs."""
    path = tmp_path / "mlflow.db"
    shutil.copy(template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def start(uri: str) -> Start:
    return Start(
        uri=uri,
        search="first",
        identity="one",
        settings={"space": "tiny", "seed": 0},
        recipe={"optimiser": "sgd", "learning_rate": 0.1},
        objectives=OBJECTIVES,
    )


class Shown:
    """What an MLflow store shows of one search."""

    def __init__(self, uri: str, search: str = "first", experiment: str = "detol") -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(tracking_uri=uri)
        found = self.client.get_experiment_by_name(experiment)
        assert found is not None
        self.experiment = found
        runs = self.client.search_runs([found.experiment_id], f"tags.`detol.search` = '{search}'", max_results=1000)
        self.parents = [run for run in runs if "detol.trial" not in run.data.tags]
        self.children = sorted((run for run in runs if run not in self.parents), key=self.number)

    @staticmethod
    def number(run: Any) -> int:
        return int(run.data.tags["detol.trial"])

    @property
    def parent(self) -> Any:
        (parent,) = self.parents
        return parent

    def curve(self, run: Any, metric: str = "val_accuracy") -> list[tuple[int, float]]:
        return [(point.step, point.value) for point in self.client.get_metric_history(run.info.run_id, metric)]

    def same_as(self, trials: list[Trial]) -> None:
        """Assert that each trial is there once and whole, and nothing else is."""
        assert self.parent
        assert [self.number(run) for run in self.children] == [trial.number for trial in trials]
        for run, trial in zip(self.children, trials, strict=True):
            assert run.data.tags["mlflow.parentRunId"] == self.parent.info.run_id
            assert run.data.tags["detol.state"] == trial.state.value
            assert run.data.tags["detol.digest"] == trial.digest
            assert run.data.params["decisions.width"] == str(trial.candidate.decisions["width"])
            expected = [(report.epoch, report.metrics["val_accuracy"]) for report in trial.reports]
            assert sorted(self.curve(run)) == expected
            names = {item.path for item in self.client.list_artifacts(run.info.run_id)}
            assert names == {"topology.json", "topology.svg"}


@pytest.fixture
def shown() -> Callable[..., Shown]:
    return Shown


@pytest.fixture(scope="session")
def trial() -> Callable[..., Trial]:
    return make_trial


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A folder as ``detol.export`` leaves it, with a model that doubles what it gets."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path / "export"
    folder.mkdir()
    double = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["logits"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
    )
    model = helper.make_model(double, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    (folder / "certificate.json").write_text("{}")
    np.save(folder / "samples.npy", np.ones((2, 3), np.float32))
    return folder
