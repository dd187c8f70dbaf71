"""Real data, where it is at hand: what is understood of each set."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from detol.workers.data import Dataset, read

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).parents[4] / "shared" / "data"))

pytestmark = pytest.mark.skipif(
    not (SHARED / "adult-train.csv").is_file(), reason=f"no development data in {SHARED} (set DETOL_SHARED)"
)


def facts(data: Dataset) -> tuple[str, tuple[int, ...], int, list[int]]:
    return data.kind, data.shape, data.outputs, [len(split) for split in data.splits().values()]


@pytest.mark.parametrize(
    ("name", "kind", "shape", "outputs", "rows"),
    [
        ("LetterRecognition.npz", "features", (16,), 26, [12800, 3200, 4000]),
        ("electric_devices.npz", "signal", (1, 96), 7, [5712, 1428, 7511]),
        ("fashion_mnist_12k.npz", "image", (1, 28, 28), 10, [8000, 2000, 2000]),
        ("phoneme.csv", "features", (5,), 2, [3458, 865, 1081]),
    ],
)
def test_understood(name: str, kind: str, shape: tuple[int, ...], outputs: int, rows: list[int]) -> None:
    assert facts(read(SHARED / name)) == (kind, shape, outputs, rows)


def test_letters_keep_their_names() -> None:
    assert read(SHARED / "LetterRecognition.npz").classes == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def test_adult() -> None:
    data = read(SHARED / "adult-train.csv")
    summary = data.describe()
    assert data.classes == ("<=50K", ">50K")
    assert [len(split) for split in data.splits().values()] == [26049, 6512, 16281]
    assert data.test is not None
    assert np.bincount(data.test.y).tolist() == [12435, 3846]  # adult.names: 23.6 % above 50K
    assert summary["test_from"] == "adult-test.csv beside it"
    assert summary["missing"] == 6465  # `grep -o '?' adult-*.csv | wc -l`
    types = [column["type"] for column in summary["columns"]]
    assert [number for number, kind in enumerate(types) if kind == "number"] == [0, 2, 4, 10, 11, 12]
    assert any("full stop" in note for note in summary["notes"])
    x = data.train.x
    assert np.isfinite(x).all()
    hot = x[:, data.std == 1]
    assert set(np.unique(hot)) == {0.0, 1.0}


def test_unpacked_cifar(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(SHARED / "unpack.py"),
        "cifar10-folder",
        str(tmp_path / "cifar"),
        "--per-class",
        "20",
    ]
    subprocess.run(command, check=True)
    data = read(tmp_path / "cifar")
    assert facts(data) == ("image", (3, 32, 32), 10, [160, 40, 200])
    assert data.train.x.dtype == np.uint8
    assert data.classes[:2] == ("airplane", "automobile")
