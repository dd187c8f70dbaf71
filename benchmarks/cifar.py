"""CIFAR-10 (JPEG copy) for benchmarks: decoded once, read as detol reads any archive; or a stand-in of noise."""

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("DETOL_SHARED", HERE.parents[1] / "shared")) / "data"
NAME = "CIFAR-10 (JPEG copy)"


def archive(folder: Path, count: int | None = None) -> tuple[Path, str]:
    """Return an npz archive of the images in a folder (made where it is not there), and what it holds.

    Args:
        folder: for the archive.
        count: of training images; ``None`` for all 50,000.
    """
    source = SHARED / "cifar10_jpeg_full.npz"
    path = folder / f"cifar10-{count or 'all'}.npz"
    what = NAME if source.exists() else "noise in the shape of CIFAR-10 (../shared/data is absent)"
    if not path.exists():
        np.savez(path, **(_decoded(source, count) if source.exists() else _noise(count or 50_000)))
    return path, what


def _decoded(source: Path, count: int | None) -> dict[str, np.ndarray]:
    found = {}
    with np.load(source) as packed:
        header = packed["header"].tobytes()
        for split in ("train", "test"):
            lengths, body = packed[f"{split}_len"].astype(np.int64), packed[f"{split}_data"]
            ends = np.cumsum(lengths)
            rows = np.arange(len(ends))
            if count is not None:  # as many of each class
                labels = packed[f"{split}_label"]
                each = max(2, (count if split == "train" else count // 5) // 10)
                rows = np.concatenate([np.flatnonzero(labels == one)[:each] for one in np.unique(labels)])
            files = [header + body[ends[row] - lengths[row] : ends[row]].tobytes() for row in rows]
            with ThreadPoolExecutor() as pool:
                found[f"x_{split}"] = np.stack(list(pool.map(_pixels, files, chunksize=256)))
            found[f"y_{split}"] = packed[f"{split}_label"][rows].astype(np.int64)
    return found


def _pixels(file: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(file)))


def _noise(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for split, rows in (("train", count), ("test", max(10, count // 5))):
        found[f"x_{split}"] = rng.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)
        found[f"y_{split}"] = rng.integers(0, 10, rows)
    return found


def dataset(folder: Path, count: int | None = None) -> "tuple[Dataset, str]":
    """Return the data set as detol reads it (a tenth of the training images is its validation split), and its name."""
    from detol.workers.data import read

    path, what = archive(folder, count)
    return read(str(path)), what
