"""What is exported works where detol is not: environments that hold only what the files say they need."""

import re
import subprocess
import sys
import venv
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from detol.export.portable import portable
from detol.export.python_file import execute, state
from detol.export.writer import export
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.checkpoint import unpack
from detol.workers.train import Training

NETWORK = chain(op("conv", channels=4, stride=2), op("squeeze_excite"), op("conv", channels=6, groups=2))
MLP = chain(op("linear", features=6, activation="tanh"))
UNNORMED = chain(op("linear", features=6, activation="tanh", norm=False))


def clean(folder: Path, *names: str) -> Path:
    """Make an environment that holds these distributions and what they need, by links; return its Python."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another system
        for top in {file.parts[0] for file in found.files or ()} - {".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
        needs = [one for one in found.requires or () if "extra ==" not in one]
        waiting += [re.split(r"[ ;<>=!~\[(]", one)[0] for one in needs]
    return folder / "bin" / "python"


def run(python: Path, *words: str, cwd: Path) -> str:
    done = subprocess.run([str(python), *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_model_and_training_run_where_detol_is_not_installed(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("image")
    out = tmp_path / "out"
    export(trial(NETWORK), data, weights(NETWORK, data), out, ("onnx", "python"), recipe=Recipe(), with_data=True)
    python = clean(tmp_path / "torch", "torch", "numpy", "safetensors")
    assert run(python, "-c", "import importlib.util as i; print(i.find_spec('detol'))", cwd=tmp_path) == "None\n"
    said = run(python, str(out / "model.py"), str(out / "samples.npy"), cwd=tmp_path).splitlines()
    with torch.no_grad():
        logits = portable(NETWORK, weights(NETWORK, data), data)(torch.from_numpy(data.validation.x[:4]))
    assert said == [data.classes[int(best)] for best in logits.argmax(1)]
    said = run(python, str(out / "train.py"), str(out / "data.npz"), "--epochs", "2", cwd=tmp_path).splitlines()
    assert [line.split()[:2] for line in said] == [["epoch", "1"], ["epoch", "2"]]
    trained = safetensors.torch.load_file(tmp_path / "retrained.safetensors")
    assert trained.keys() == safetensors.torch.load_file(out / "weights.safetensors").keys()

    python = clean(tmp_path / "onnx", "numpy", "onnxruntime")
    code = (
        "import numpy, onnxruntime, sys; s = onnxruntime.InferenceSession(sys.argv[1] + '/model.onnx');"
        "print(s.run(None, {'x': numpy.load(sys.argv[1] + '/samples.npy')})[0].argmax(1).tolist())"
    )
    assert run(python, "-I", "-c", code, str(out), cwd=tmp_path) == f"{logits.argmax(1).tolist()}\n"


def test_nothing_of_detol_is_imported_by_the_sources(tmp_path: Path, dataset, trial, weights) -> None:
    data = dataset("features")
    export(trial(MLP), data, weights(MLP, data), tmp_path / "out", ("python",), recipe=Recipe())
    for name in ("model.py", "train.py"):
        text = (tmp_path / "out" / name).read_text()
        assert set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)) <= {
            "argparse",
            "math",
            "model",
            "numpy",
            "pathlib",
            "safetensors",
            "sys",
            "torch",
        }


RECIPES = {
    "sgd, cosine": ("classification", Recipe(clip=0.5, label_smoothing=0.1, warmup=0.3, weight_decay=0.05)),
    "sgd without momentum": ("regression", Recipe(momentum=0.0, schedule="constant", warmup=0.0, clip=0.0)),
    "adamw, one cycle": (
        "regression",
        Recipe(optimiser="adamw", learning_rate=0.02, schedule="one_cycle", weight_decay=0.1),
    ),
    "lars, falling in steps": ("classification", Recipe(optimiser="lars", learning_rate=5.0, schedule="step")),
    "lamb, growing batches, topk": (
        "classification",
        Recipe(optimiser="lamb", schedule="grow_batch", communication="topk", max_batch=500, label_smoothing=0.1),
    ),
    "micro-batches, linear scaling": ("regression", Recipe(base_batch=16, warmup=0.5, accumulate=3, clip=1.0)),
}


@pytest.mark.parametrize("case", RECIPES)
def test_the_script_trains_by_the_rules_of_the_recipe(
    tmp_path: Path, dataset, trial, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """From the same weights, each epoch one batch of all samples: after five the weights are the same."""
    task, recipe = RECIPES[case]
    topology = UNNORMED if recipe.accumulate > 1 else MLP  # norms see micro-batches, of which each draws its own
    data = dataset("features", task=task)
    ours = Training(topology, data, recipe, epochs=5, seed=0)
    first = {name: value.clone() for name, value in ours.model.state_dict().items()}
    for _ in ours.reports():
        pass
    out = tmp_path / "out"
    export(replace(trial(topology), epochs=5), data, ours.weights(), out, ("python",), recipe=recipe, with_data=True)
    text, layers = (out / "model.py").read_text(), _layers(topology, data)
    before = portable(topology, ours.weights(), data)
    before.network.load_state_dict(first)
    begin = state(text, layers, before.network, data)

    model = ModuleType("model")
    vars(model).update(execute(text))
    monkeypatch.setitem(sys.modules, "model", model)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", str(out / "data.npz")])
    script = execute((out / "train.py").read_text(), str(out / "train.py"))
    script["start"] = lambda network: network.load_state_dict(begin)
    script["main"]()
    found = safetensors.torch.load_file(tmp_path / "retrained.safetensors")
    after = portable(topology, ours.weights(), data)
    after.network.load_state_dict(unpack(ours.weights(), topology))
    expected = state(text, layers, after.network, data)
    assert not np.allclose(begin["head.weight"], expected["head.weight"], atol=1e-2)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=2e-5, rtol=1e-4, err_msg=name)


def _layers(topology: Any, data: Any) -> Any:
    from detol.export.python_file import model_source

    return model_source(topology, data, "")[1]


def test_the_script_shifts_signals_by_at_most_an_eighth(dataset) -> None:
    from detol.export.train_script import train_source

    text = train_source(Recipe(augment="crop"), dataset("signal"), 3, 0)
    script = execute(text.replace("from model import Network", "Network = None"))
    x = torch.arange(1.0, 33.0).repeat(200, 2, 1)
    torch.manual_seed(0)
    padded = torch.nn.functional.pad(x, (4, 4), mode="replicate")
    windows = {tuple(padded[0, 0, start : start + 32].tolist()) for start in range(9)}
    changed = script["crop"](x)
    assert torch.equal(changed[:, 0], changed[:, 1])
    assert {tuple(one.tolist()) for one in changed[:, 0]} == windows


@pytest.mark.parametrize("augment", ["flip", "crop", "flip,crop"])
def test_augmentation_of_the_script_keeps_shapes_and_pixels(dataset, augment: str) -> None:
    from detol.export.train_script import train_source

    text = train_source(Recipe(augment=augment, precision="bfloat16"), dataset("image"), 3, 0)
    assert "torch.autocast(device, dtype=torch.bfloat16)" in text
    source = text.replace("from model import Network", "Network = None")
    script = execute(source)
    x = torch.randint(1, 255, (50, 3, 8, 8), dtype=torch.uint8)
    torch.manual_seed(0)
    for name in augment.split(","):
        changed = script[name](x)
        assert (changed.shape, changed.dtype) == (x.shape, x.dtype)
        assert not torch.equal(changed, x)
        if name == "flip":
            mirrored = (changed == x.flip(-1)).flatten(1).all(1)
            assert torch.equal(changed[~mirrored], x[~mirrored])
        else:
            assert set(changed.unique().tolist()) <= {0, *x.unique().tolist()}
            assert torch.equal(changed[:, :, 1:-1, 1:-1].sum() > 0, torch.tensor(True))
