"""Small data sets of each kind, and trials with weights that never were trained but are not trivial."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from detol.graph.build import build
from detol.graph.topology import Topology
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions
from detol.workers.checkpoint import pack
from detol.workers.data.dataset import Dataset, Split


def make_dataset(kind: str, *, task: str = "classification", rows: int = 40) -> Dataset:
    """Return images (uint8), signals or features, drawn from a fixed seed, whose mean and std are far from 0 and 1."""
    rng = np.random.default_rng(0)
    shape = {"image": (3, 8, 8), "signal": (2, 16), "features": (7,)}[kind]

    def split(n: int) -> Split:
        raw = rng.normal(100, 30, (n, *shape))
        x = raw.clip(0, 255).astype(np.uint8) if kind == "image" else raw.astype(np.float32)
        y = rng.integers(0, 3, n) if task == "classification" else rng.normal(50, 5, n).astype(np.float32)
        return Split(x, y)

    broadcast = (shape[0], *(1 for _ in shape[1:]))
    return Dataset(
        name=f"{kind} data",
        kind=kind,
        task=task,
        train=split(rows),
        validation=split(rows + 1),
        test=None,
        classes=("ant", "bee", "cat, small") if task == "classification" else (),
        mean=np.full(broadcast, 100, np.float32),
        std=np.full(broadcast, 30, np.float32),
        digest="x1:0123456789abcdef0123456789abcdef",
        target_mean=0.0 if task == "classification" else 50.0,
        target_std=1.0 if task == "classification" else 5.0,
        preprocessing={"kind": kind},
    )


def make_trial(topology: Topology, **changes: Any) -> Trial:
    candidate = Candidate(Decisions(depth=2), topology, Origin.MUTATE, parents=(1,))
    report = Report(1, {"val_balanced_accuracy": 0.5, "val_loss": float("nan")})
    given = {"reports": (report,), "curve": (0.5,), "scores": (0.5,), **changes}
    return Trial(12, candidate, State.COMPLETED, 1, seed=3, **given)


def make_weights(topology: Topology, dataset: Dataset) -> bytes:
    """Return weights with running statistics that differ from their start, as training leaves them."""
    torch.manual_seed(1)
    network = build(topology, dataset.shape, dataset.outputs)
    network.train()
    x = torch.from_numpy(dataset.train.x).float()
    with torch.no_grad():
        for _ in range(3):
            network((x - torch.from_numpy(dataset.mean)) / torch.from_numpy(dataset.std))
    return pack(network, topology)


@pytest.fixture(autouse=True)
def _quicker_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read onnxscript's 500 functions once, not with every file that is written (0.6 s)."""
    from torch.onnx._internal.exporter._registration import onnxscript_apis

    if not hasattr(_quicker_onnx, "found"):
        _quicker_onnx.found = functools.cache(onnxscript_apis.get_torchlib_ops)
    monkeypatch.setattr(onnxscript_apis, "get_torchlib_ops", _quicker_onnx.found)


@pytest.fixture
def dataset() -> Callable[..., Dataset]:
    return make_dataset


@pytest.fixture
def trial() -> Callable[..., Trial]:
    return make_trial


@pytest.fixture
def weights() -> Callable[[Topology, Dataset], bytes]:
    return make_weights


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
