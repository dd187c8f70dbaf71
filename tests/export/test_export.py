"""Exports read back by other libraries: onnxruntime, onnx, safetensors."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
import safetensors.torch
import torch

from detol.errors import TopologyError, UsageError
from detol.export import onnx_file
from detol.export.onnx_file import ExportError, difference
from detol.export.writer import export
from detol.graph.build import build
from detol.graph.codec import from_json
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.recipe import Recipe

DIAMOND = Topology(
    {
        "input": op("input"),
        "a": op("conv", channels=6),
        "b": op("sepconv", channels=8, stride=2),
        "c": op("mbconv", channels=8, activation="gelu"),
        "join": op("concat"),
        "d": op("squeeze_excite"),
        "output": op("output"),
    },
    [
        ("input", "a"),
        ("a", "b"),
        ("a", "c"),
        ("b", "join"),
        ("c", "join"),
        ("join", "d"),
        ("d", "output"),
        ("a", "output"),
    ],
)
CELL = chain(op("conv", channels=4, order="pre"), op("pool", mode="max", stride=2))
MLP = chain(op("linear", features=8, dropout=0.5), op("activation", fn="silu"), op("linear", features=6, norm=False))

CASES = {
    "image": ("image", "classification", DIAMOND),
    "signal": ("signal", "classification", chain(op("conv", kernel=5, channels=4, dilation=2), CELL, op("norm"))),
    "features": ("features", "classification", MLP),
    "regression": ("features", "regression", MLP),
}


@pytest.mark.parametrize("case", CASES)
def test_onnx_answers_to_raw_samples_as_the_network_does(tmp_path: Path, dataset, trial, weights, case: str) -> None:
    kind, task, topology = CASES[case]
    data = dataset(kind, task=task)
    packed = weights(topology, data)
    manifest = export(trial(topology), data, packed, tmp_path / "out", recipe=Recipe())
    assert manifest["checks"]["samples"] == 41
    assert manifest["checks"]["onnx"]["max_difference"] <= 1e-4
    # The network once more, by hand: standardise, run, return to the target's units.
    network = build(topology, data.shape, data.outputs)
    network.load_state_dict(safetensors.torch.load((tmp_path / "out" / "weights.safetensors").read_bytes()))
    network.eval()
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    for rows in (1, 2, 7, 41):  # the batch axis is open
        x = data.validation.x[:rows]
        with torch.no_grad():
            expected = network((torch.from_numpy(x).float() - 100) / 30).numpy()
        if task == "regression":
            expected = expected[:, 0] * 5 + 50
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)
    properties = session.get_modelmeta().custom_metadata_map
    assert properties["digest"] == trial(topology).digest
    if task == "classification":
        assert json.loads(properties["classes"]) == ["ant", "bee", "cat, small"]
        (logits,) = session.run(None, {"x": data.validation.x})
        accuracy = float((logits.argmax(1) == data.validation.y).mean())
        assert manifest["checks"]["onnx"]["accuracy"] == pytest.approx(accuracy)
    else:
        assert "classes" not in properties


def test_the_files_and_the_manifest(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("features")
    one = trial(MLP)
    export(one, data, weights(MLP, data), tmp_path / "out", ("torch",), recipe=Recipe(), about={"search": "digits-1"})
    out = tmp_path / "out"
    names = {"export.json", "preprocessing.json", "topology.json", "topology.svg", "weights.safetensors"}
    assert {path.name for path in out.iterdir()} == names
    assert from_json((out / "topology.json").read_text()) == MLP
    assert (out / "topology.svg").read_text().lstrip().startswith(("<svg", "<?xml"))
    manifest = json.loads((out / "export.json").read_text(), parse_constant=pytest.fail)
    assert manifest["digest"] == one.digest
    assert manifest["search"] == "digits-1"
    assert manifest["recipe"]["digest"] == Recipe().digest
    assert manifest["data"]["classes"] == ["ant", "bee", "cat, small"]
    assert manifest["metrics"] == {"val_balanced_accuracy": 0.5, "val_loss": None}  # JSON has no NaN
    assert manifest["files"]["weights.safetensors"] == (out / "weights.safetensors").stat().st_size
    with safetensors.safe_open(out / "weights.safetensors", "pt") as file:
        assert file.metadata()["digest"] == one.digest


def test_the_onnx_file_runs_without_detol_and_torch(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("features")
    export(trial(MLP), data, weights(MLP, data), tmp_path / "out", ("onnx",))
    assert not (tmp_path / "out" / "weights.safetensors").exists()
    code = (
        "import sys, numpy, onnxruntime as ort;"
        "s = ort.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider']);"
        "print(s.run(None, {'x': numpy.zeros((5, 7), numpy.float32)})[0].shape,"
        " any(name in sys.modules for name in ('torch', 'detol')))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out" / "model.onnx")]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert out.stdout.strip() == "(5, 3) False"
    assert len(onnx.load(tmp_path / "out" / "model.onnx").graph.input) == 1


def test_weights_of_another_network_are_refused(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("features")
    other = chain(op("linear", features=9))
    with pytest.raises(UsageError, match="the weights are those of d1:"):
        export(trial(MLP), data, weights(other, data), tmp_path / "out")
    with pytest.raises(UsageError, match="do not fit a network for"):
        # The same topology, on data with another number of classes.
        export(trial(MLP), dataset("features", task="regression"), weights(MLP, data), tmp_path / "out")
    with pytest.raises(UsageError, match="not weights that detol packed"):
        export(trial(MLP), data, b"\x00" * 64, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_weights_that_were_not_kept_are_one_line_that_offers_training(tmp_path: Path, dataset, trial) -> None:
    with pytest.raises(UsageError, match=r"those of trial 12 .* `detol export` trains it again$") as error:
        export(trial(MLP), dataset("features"), None, tmp_path / "out")
    assert "\n" not in str(error.value)


def test_an_unknown_format_names_near_ones(tmp_path: Path, dataset, trial) -> None:
    with pytest.raises(UsageError, match="unknown export format 'onxx': did you mean onnx"):
        export(trial(MLP), dataset("features"), None, tmp_path / "out", ["onxx"])


def test_a_destination_that_is_not_empty_is_refused_first(tmp_path: Path, dataset, trial) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="needs an empty directory"):
        export(trial(MLP), dataset("features"), None, tmp_path)


@pytest.mark.parametrize("broken", ["run_onnx", "write_onnx"])
def test_a_failure_at_any_place_leaves_nothing(tmp_path: Path, dataset, trial, weights, monkeypatch, broken) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("disk full")

    data = dataset("features")
    packed = weights(MLP, data)
    monkeypatch.setattr(onnx_file, broken, fail)
    if broken == "run_onnx":
        monkeypatch.setattr(onnx_file, "write_onnx", lambda network, samples, path, metadata: path.write_bytes(b"x"))
    with pytest.raises(RuntimeError, match="disk full"):
        export(trial(MLP), data, packed, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_answers_otherwise_is_an_error_and_leaves_nothing(
    tmp_path: Path, dataset, trial, weights, monkeypatch
) -> None:
    data = dataset("features")
    packed = weights(MLP, data)
    monkeypatch.setattr(onnx_file, "write_onnx", lambda network, samples, path, metadata: path.write_bytes(b"x"))
    monkeypatch.setattr(onnx_file, "run_onnx", lambda path, samples: np.zeros((41, 3), np.float32) + 9)
    with pytest.raises(ExportError, match="outputs of the exported file may differ by"):
        export(trial(MLP), data, packed, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_dead_topology_cannot_be_exported(tmp_path: Path, dataset, trial) -> None:
    dead = Topology({"input": op("input"), "output": op("output")}, [])
    with pytest.raises(TopologyError):
        export(trial(dead), dataset("features"), b"", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_differences_are_absolute_below_one_and_relative_above() -> None:
    assert difference(np.float32([1.0, 0.5]), np.float32([1.0, 0.50005]), 1e-4) == pytest.approx(5e-5, rel=1e-2)
    assert difference(np.float32([1000.05]), np.float32([1000.0]), 1e-4) == pytest.approx(0.05, rel=1e-2)
    for found in ([1.0002], [float("nan")]):
        with pytest.raises(ExportError, match="may differ by 0.0001"):
            difference(np.float32(found), np.float32([1.0]), 1e-4)
    with pytest.raises(ExportError, match="answers with shape"):
        difference(np.zeros((2, 3)), np.zeros((2, 1)), 1e-4)
