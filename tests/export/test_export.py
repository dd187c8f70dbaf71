"""Exports read back by other libraries: onnxruntime, onnx, safetensors, networkx, torch.export."""

import importlib.util
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
import safetensors.torch
import torch

from detol.errors import TopologyError, UsageError
from detol.export import certificate, onnx_file
from detol.export.certificate import difference
from detol.export.graphml import graphml
from detol.export.python_file import execute
from detol.export.score import ExportError
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


@pytest.fixture(autouse=True)
def _few_calls(monkeypatch) -> None:
    monkeypatch.setattr(certificate, "_RUNS", 10)


@pytest.mark.parametrize("case", CASES)
def test_all_formats_answer_to_raw_samples_as_the_network_does(
    tmp_path: Path, dataset, trial, weights, case: str
) -> None:
    kind, task, topology = CASES[case]
    data = dataset(kind, task=task)
    packed = weights(topology, data)
    found = export(trial(topology), data, packed, tmp_path / "out", recipe=Recipe())
    # The network once more, by hand: standardise, run, return to the target's units.
    network = build(topology, data.shape, data.outputs)
    network.load_state_dict(safetensors.torch.load(packed))
    network.eval()
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    program = torch.export.load(tmp_path / "out" / "model.pt2").module()
    written = execute((tmp_path / "out" / "model.py").read_text(), str(tmp_path / "out" / "model.py"))
    standalone = written["load"]()
    for rows in (1, 2, 7, 41):  # the batch axis is open
        x = data.validation.x[:rows]
        with torch.no_grad():
            expected = network((torch.from_numpy(x).float() - 100) / 30).numpy()
            if task == "regression":
                expected = expected[:, 0] * 5 + 50
            for answer in (
                session.run(None, {"x": x})[0],
                program(torch.from_numpy(x)),
                standalone(torch.from_numpy(x)),
            ):
                np.testing.assert_allclose(np.asarray(answer), expected, atol=1e-4, rtol=1e-4)
    properties = session.get_modelmeta().custom_metadata_map
    assert properties["digest"] == trial(topology).digest
    assert "standardisation is part of the model" in properties["preprocessing"]
    if task == "classification":
        assert json.loads(properties["classes"]) == ["ant", "bee", "cat, small"] == list(written["CLASSES"])
        (logits,) = session.run(None, {"x": data.validation.x})
        accuracy = float((logits.argmax(1) == data.validation.y).mean())
        for entry in found["formats"].values():
            assert entry["validation"]["accuracy"] == pytest.approx(accuracy)
    else:
        assert "classes" not in properties
    for entry in found["formats"].values():
        assert (entry["validation"]["samples"], entry["validation"]["allowed"]) == (41, pytest.approx(1e-4, rel=100))
        assert 0 <= entry["validation"]["max_difference"] <= entry["validation"]["allowed"]
        low, high = entry["latency"]["batch_1"]["quartiles_ms"]
        assert 0 < low <= entry["latency"]["batch_1"]["median_ms"] <= high


def test_the_files_the_certificate_and_the_card(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("features")
    one = trial(MLP)
    about = {"trial": "digits-1/12", "search": {"name": "digits-1", "space": "tabular", "trials": 30}}
    export(one, data, weights(MLP, data), tmp_path / "out", ("torch",), recipe=Recipe(), about=about)
    out = tmp_path / "out"
    drawn = {"topology.json", "topology.graphml", "topology.svg", "topology.mmd"}
    written = {"model.pt2", "weights.safetensors"}
    told = {"certificate.json", "README.md", "preprocessing.json", "samples.npy"}
    assert {path.name for path in out.iterdir()} == drawn | written | told
    assert from_json((out / "topology.json").read_text()) == MLP
    assert (out / "topology.svg").read_text().lstrip().startswith(("<svg", "<?xml"))
    assert (out / "topology.mmd").read_text().startswith("flowchart")
    graph = nx.read_graphml(out / "topology.graphml")
    assert [graph.nodes[name]["op"] for name in nx.topological_sort(graph)] == [
        "input",
        "linear",
        "activation",
        "linear",
        "output",
    ]
    found = json.loads((out / "certificate.json").read_text(), parse_constant=pytest.fail)
    assert found["digest"] == one.digest
    assert (found["trial"], found["search"]["name"]) == ("digits-1/12", "digits-1")
    assert found["recipe"]["digest"] == Recipe().digest
    assert found["data"]["classes"] == ["ant", "bee", "cat, small"]
    assert found["data"]["splits"] == {"train": 40, "validation": 41}
    assert found["metrics"] == {"val_balanced_accuracy": 0.5, "val_loss": None}  # JSON has no NaN
    assert found["files"]["weights.safetensors"] == (out / "weights.safetensors").stat().st_size
    network = build(MLP, data.shape, data.outputs)
    assert found["cost"]["params"] == sum(p.numel() for p in network.parameters())
    card = (out / "README.md").read_text()
    for text in ("digits-1/12", "model.pt2", "cat, small", "cosine", "Space tabular", "30 trials", data.digest):
        assert text in card
    with safetensors.safe_open(out / "weights.safetensors", "pt") as file:
        assert file.metadata()["digest"] == one.digest


@pytest.mark.parametrize(
    ("settings", "shown", "hidden"),
    [
        ({}, ("momentum 0.9", "nesterov True"), ("step factor", "max batch", "base batch", "communication")),
        ({"optimiser": "lars"}, ("momentum 0.9",), ("nesterov",)),
        ({"optimiser": "adamw", "communication": "fp16"}, ("communication fp16",), ("momentum", "nesterov")),
        ({"schedule": "step", "accumulate": 2}, ("step factor 5.0", "accumulate 2"), ("max batch",)),
        ({"schedule": "grow_batch", "base_batch": 64}, ("max batch 0", "base batch 64"), ("accumulate",)),
    ],
)
def test_the_card_tells_the_settings_that_were_gone_by(
    tmp_path: Path, dataset, trial, weights, settings, shown, hidden
) -> None:
    data = dataset("features")
    export(trial(MLP), data, weights(MLP, data), tmp_path / "out", ("python",), recipe=Recipe(**settings))
    (line,) = [one for one in (tmp_path / "out" / "README.md").read_text().splitlines() if "optimiser" in one]
    assert all(text in line for text in shown)
    assert not any(text in line for text in hidden)


def test_the_test_split_is_scored_from_the_files(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("features")
    data = replace(
        data, test=replace(data.validation, x=data.validation.x[::-1].copy(), y=data.validation.y[::-1].copy())
    )
    found = export(trial(MLP), data, weights(MLP, data), tmp_path / "out", ("python",))
    assert found["formats"]["python"]["test"]["accuracy"] == found["network"]["validation"]["accuracy"]
    assert "accuracy, test" in (tmp_path / "out" / "README.md").read_text()


def test_cells_are_unfolded_in_graphml(tmp_path: Path) -> None:
    text = graphml(CASES["signal"][2], (2, 16))
    graph = nx.parse_graphml(text)
    assert nx.is_directed_acyclic_graph(graph)
    assert list(nx.topological_sort(graph)) == ["input", "1", "2/input", "2/1", "2/2", "2/output", "3", "output"]
    assert graph.nodes["2/2"] == {
        "label": "pool(mode=max, stride=2)",
        "op": "pool",
        "cell": "2",
        "kernel": 3,
        "mode": "max",
        "stride": 2,
    }
    assert (graph.nodes["1"]["shape"], graph.nodes["2/output"]["shape"]) == ("4x16", "4x8")


def test_a_folder_for_mlflow_has_signature_and_example(tmp_path: Path, dataset, trial, weights) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.models

    data = dataset("image")
    found = export(trial(CELL), data, weights(CELL, data), tmp_path / "out", ("mlflow",))
    assert found["formats"]["mlflow"]["validation"]["samples"] == 41
    model = mlflow.models.Model.load(str(tmp_path / "out" / "mlflow"))
    (entry,) = model.signature.inputs.inputs
    assert (entry.name, str(entry.type), entry.shape) == ("x", "uint8", (-1, 3, 8, 8))
    assert model.metadata["digest"] == trial(CELL).digest
    example = model.load_input_example(str(tmp_path / "out" / "mlflow"))
    np.testing.assert_array_equal(example["x"], data.validation.x[:2])


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
    with pytest.raises(UsageError, match=r"those of trial 12 .* were not kept: --retrain 1 trains it again$") as error:
        export(trial(MLP), dataset("features"), None, tmp_path / "out")
    assert "\n" not in str(error.value)


def test_an_unknown_format_names_near_ones(tmp_path: Path, dataset, trial) -> None:
    with pytest.raises(UsageError, match="unknown export format 'onxx': did you mean onnx"):
        export(trial(MLP), dataset("features"), None, tmp_path / "out", ["onxx"])


def test_a_destination_that_is_not_empty_is_refused_first(tmp_path: Path, dataset, trial) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="needs an empty directory"):
        export(trial(MLP), dataset("features"), None, tmp_path)


@pytest.mark.parametrize("format_", ["onnx", "torch", "python", "mlflow"])
def test_a_format_whose_library_is_missing_says_what_to_install(
    tmp_path: Path, dataset, trial, monkeypatch, format_: str
) -> None:
    there = importlib.util.find_spec
    library = {"onnx": "onnxscript", "torch": "safetensors", "python": "safetensors", "mlflow": "mlflow"}[format_]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == library else there(name))
    with pytest.raises(UsageError, match=f"--format {format_} needs {library}.*: pip install {library}$") as error:
        export(trial(MLP), dataset("features"), b"", tmp_path / "out", [format_])
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["write", "load", "run_by"])
def test_a_failure_at_any_place_leaves_nothing(tmp_path: Path, dataset, trial, weights, monkeypatch, broken) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("disk full")

    data = dataset("features")
    packed = weights(MLP, data)
    monkeypatch.setattr(onnx_file.Onnx, broken, fail)
    if broken != "write":
        monkeypatch.setattr(onnx_file.Onnx, "write", lambda self, subject, folder: None)
        monkeypatch.setattr(onnx_file.Onnx, "load", fail if broken == "load" else lambda self, folder: None)
    with pytest.raises(RuntimeError, match="disk full"):
        export(trial(MLP), data, packed, tmp_path / "out", ("python", "onnx"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_answers_otherwise_is_an_error_and_leaves_nothing(
    tmp_path: Path, dataset, trial, weights, monkeypatch
) -> None:
    data = dataset("features")
    packed = weights(MLP, data)
    monkeypatch.setattr(
        onnx_file.Onnx, "write", lambda self, subject, folder: (folder / "model.onnx").write_bytes(b"x")
    )
    monkeypatch.setattr(onnx_file.Onnx, "load", lambda self, folder: lambda x: np.zeros((len(x), 3), np.float32) + 9)
    with pytest.raises(ExportError, match="outputs of onnx may differ by") as error:
        export(trial(MLP), data, packed, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_dead_topology_cannot_be_exported(tmp_path: Path, dataset, trial) -> None:
    dead = Topology({"input": op("input"), "output": op("output")}, [])
    with pytest.raises(TopologyError):
        export(trial(dead), dataset("features"), b"", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_differences_are_absolute_below_one_and_relative_above() -> None:
    close = difference(np.float32([1.0, 0.5]), np.float32([1.0, 0.50005]), 1e-4)
    assert close == (pytest.approx(5e-5, rel=1e-2), 1e-4)
    assert difference(np.float32([1000.05]), np.float32([1000.0]), 1e-4) == (pytest.approx(0.05, rel=1e-2), 0.1)
    for found in ([1.0002], [float("nan")]):
        with pytest.raises(ExportError, match="may differ by 0.0001"):
            difference(np.float32(found), np.float32([1.0]), 1e-4)
    with pytest.raises(ExportError, match="must answer with shape"):
        difference(np.zeros((2, 3)), np.zeros((2, 1)), 1e-4)
