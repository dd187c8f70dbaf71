"""The recorded score against that of the weights; what is recorded comes from scikit-learn."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, mean_squared_error

from detol.export.score import ExportError, compare, score
from detol.export.writer import export
from detol.graph.build import build
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Report
from detol.workers.checkpoint import pack

MLP = chain(op("linear", features=8), op("linear", features=6, norm=False))
ROWS = 3000
"""More than the samples that the ONNX file is run on."""


def answers(packed: bytes, data: Any) -> NDArray[np.float32]:
    from detol.export.portable import portable

    with torch.no_grad():
        found: NDArray[np.float32] = portable(MLP, packed, data)(torch.from_numpy(data.validation.x)).numpy()
    return found


def recorded(trial: Any, **metrics: float) -> Any:
    return trial(MLP, reports=(Report(1, metrics),))


@pytest.fixture(params=["classification", "regression"])
def case(request: pytest.FixtureRequest, dataset, weights):
    """A data set, weights, and the name and value of their score on its whole validation split."""
    data = dataset("features", task=request.param, rows=ROWS)
    packed = weights(MLP, data)
    found, y = answers(packed, data), data.validation.y
    if request.param == "classification":
        return data, packed, "val_accuracy", float(accuracy_score(y, found.argmax(1)))
    return data, packed, "val_mse", float(mean_squared_error(y, found))


def test_the_manifest_states_both_scores_and_the_tolerance(tmp_path: Path, case, trial) -> None:
    data, packed, name, value = case
    export(recorded(trial, **{name: value}), data, packed, tmp_path / "out", ("python",), recipe=Recipe())
    found = json.loads((tmp_path / "out" / "certificate.json").read_text())
    compared = found["score"]
    assert compared["metric"] == name
    assert compared["samples"] == ROWS + 1  # the whole split
    assert compared["recorded"] == value
    assert compared["recomputed"] == pytest.approx(value, rel=1e-6)
    assert compared["tolerance"] == pytest.approx(1e-3 if name == "val_accuracy" else 1e-3 * value)
    assert not compared["trained_again"]
    exported = found["formats"]["python"]["validation"]
    assert (exported["samples"], exported[name.removeprefix("val_")]) == (ROWS + 1, pytest.approx(value, rel=1e-6))


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_score_beside_the_recorded_one_is_an_error_and_leaves_nothing(tmp_path: Path, case, trial, sign) -> None:
    data, packed, name, value = case
    off = sign * (2e-3 if name == "val_accuracy" else 2e-3 * value)
    with pytest.raises(ExportError, match=f"must score as trial 12 did, {name} .* of another training") as error:
        export(recorded(trial, **{name: value + off}), data, packed, tmp_path / "out", ("python",))
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_weights_of_another_training_of_the_same_topology_are_refused(tmp_path: Path, case, trial) -> None:
    data, packed, name, value = case
    torch.manual_seed(5)
    other = pack(build(MLP, data.shape, data.outputs), MLP)
    assert len(other) == len(packed)
    one = recorded(trial, **{name: value})
    with pytest.raises(ExportError, match="remove kept/12.safetensors to have it trained again"):
        export(one.__class__(**{**vars(one), "weights": "kept/12.safetensors"}), data, other, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_trial_without_that_metric_is_exported_and_says_so(tmp_path: Path, case, trial) -> None:
    data, packed, _, _ = case
    assert export(trial(MLP), data, packed, tmp_path / "out", ("python",))["score"] is None


def test_another_training_of_a_trial_may_score_otherwise_and_says_so(tmp_path: Path, case, trial) -> None:
    data, packed, name, value = case
    one = recorded(trial, **{name: value + 0.1})
    found = export(one, data, packed, tmp_path / "out", ("python",), again=True)
    assert found["score"]["trained_again"]
    assert found["score"]["difference"] == pytest.approx(0.1, abs=1e-3)
    assert "trained again" in (tmp_path / "out" / "README.md").read_text()


def test_tolerances(trial) -> None:
    def allowed(**how: Any) -> float:
        found = compare(recorded(trial, val_accuracy=0.5), {"accuracy": 0.5}, **how)
        assert found is not None
        return float(found["tolerance"])

    assert allowed(samples=10_000) == 1e-3
    assert allowed(samples=10_000, precision="bfloat16") == pytest.approx(1e-2)
    assert allowed(samples=100) == pytest.approx(1 / 100)  # one sample on the border of two classes
    compare(recorded(trial, val_accuracy=0.5), {"accuracy": 0.51}, 100)
    with pytest.raises(ExportError):
        compare(recorded(trial, val_accuracy=0.5), {"accuracy": 0.52}, 100)
    # An error of nothing stays comparable: a millionth of the target's variance is rounding.
    compare(recorded(trial, val_mse=0.0), {"mse": 1e-6}, 100, spread=2.0)
    with pytest.raises(ExportError):
        compare(recorded(trial, val_mse=0.0), {"mse": 1e-5}, 100, spread=2.0)
    for value in (math.nan, math.inf):
        with pytest.raises(ExportError):
            compare(recorded(trial, val_mse=1.0), {"mse": value}, 100)


def test_scores_by_hand() -> None:
    logits = np.float32([[1, 0], [0, 1], [3, 2], [0, 5]])
    assert score(logits, np.int64([0, 1, 1, 1]), "classification") == {"accuracy": 0.75}
    assert score(np.float32([1, 2]), np.float32([2, 5]), "regression") == {"mse": 5.0}
