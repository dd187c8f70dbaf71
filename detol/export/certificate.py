"""The certificate: each exported format run again, its answers and scores beside those of the trained network."""

import os
import platform
import statistics
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from detol.export import score
from detol.export.formats import FORMATS, Answer, Format
from detol.export.score import ExportError

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

TOLERANCE = 1e-4
"""How far outputs may differ, relative to the largest output (absolute below 1): rounding of float32."""

_SECONDS = 0.4
_RUNS = 200
_BATCH = 64


class Examiner:
    """Holds what the trained network answers, and compares the exported files with it.

    Args:
        dataset: whose validation split, and test split where there is one, are run.
        expected: what the trained network answers to each split's samples.
    """

    def __init__(self, dataset: "Dataset", expected: Mapping[str, NDArray[Any]]) -> None:
        self._dataset = dataset
        self._expected = expected

    def splits(self) -> dict[str, dict[str, float]]:
        """Return the trained network's score on each split."""
        return {name: self._score(name, outputs) for name, outputs in self._expected.items()}

    def examine(self, name: str, made: Format, folder: Path) -> dict[str, Any]:
        """Run what was written of a format; return its entry in the certificate.

        Raises:
            ExportError: outputs or scores that differ by more than the tolerance.
        """
        answer = made.load(folder)
        entry: dict[str, Any] = {"run_by": made.run_by(), **sizes(name, folder)}
        for split, expected in self._expected.items():
            found = answer(self._dataset.splits()[split].x)
            largest, allowed = difference(found, expected, TOLERANCE, name)
            scores = self._score(split, found)
            self._same(name, split, scores)
            entry[split] = {"samples": len(expected), "max_difference": largest, "allowed": allowed, **scores}
        entry["latency"] = latency(answer, self._dataset.validation.x)
        return entry

    def _score(self, split: str, outputs: NDArray[Any]) -> dict[str, float]:
        return score.score(outputs, self._dataset.splits()[split].y, self._dataset.task)

    def _same(self, name: str, split: str, found: Mapping[str, float]) -> None:
        """Refuse a score that is not the trained network's: one sample on the border of two classes is rounding."""
        rows = len(self._expected[split])
        for metric, value in self._score(split, self._expected[split]).items():
            scale = 1e-3 * max(abs(value), 1e-6 * self._dataset.target_std**2)
            allowed = max(1e-3, (1 + 1e-6) / rows) if metric == "accuracy" else scale
            if not abs(found[metric] - value) <= allowed:
                raise ExportError(
                    f"{name} must score as the trained network does on the {split} split, {metric} {value:.6g} within "
                    f"{allowed:.2g}; it scores {found[metric]:.6g}: nothing was exported"
                )


def difference(
    found: NDArray[Any], expected: NDArray[Any], tolerance: float, name: str = "the exported file"
) -> tuple[float, float]:
    """Return the largest absolute difference of two outputs, and the one that is allowed.

    Raises:
        ExportError: it exceeds ``tolerance`` times the largest output (or 1), or the shapes differ, or it is NaN.
    """
    if found.shape != expected.shape:
        raise ExportError(f"{name} must answer with shape {expected.shape} as the network does, got {found.shape}")
    largest = float(np.max(np.abs(found - expected), initial=0.0))
    allowed = tolerance * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    if not largest <= allowed:
        raise ExportError(
            f"outputs of {name} may differ by {allowed:.2g} from the network's, they differ by {largest:.2g}: "
            "nothing was exported"
        )
    return largest, allowed


def latency(answer: Answer, samples: NDArray[Any]) -> dict[str, Any]:
    """Return milliseconds of one call with 1 and with up to 64 samples: median and quartiles over the calls."""
    found: dict[str, Any] = {"threads": 1}
    for size in dict.fromkeys((1, min(_BATCH, len(samples)))):
        batch = samples[:size]
        for _ in range(3):
            answer(batch)
        times: list[float] = []
        until = time.perf_counter() + _SECONDS
        while len(times) < _RUNS and (len(times) < 10 or time.perf_counter() < until):
            began = time.perf_counter()
            answer(batch)
            times.append(1e3 * (time.perf_counter() - began))
        low, middle, high = statistics.quantiles(times, n=4)
        found[f"batch_{size}"] = {
            "median_ms": round(middle, 4),
            "quartiles_ms": [round(low, 4), round(high, 4)],
            "runs": len(times),
        }
    return found


def sizes(name: str, folder: Path) -> dict[str, Any]:
    """Return the files of a format with their bytes, and the sum."""
    files: dict[str, int] = {}
    for entry in FORMATS[name].files:
        place = folder / entry
        paths = sorted(place.rglob("*")) if place.is_dir() else [place] if place.exists() else []
        files |= {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths if path.is_file()}
    return {"files": files, "bytes": sum(files.values())}


def machine() -> dict[str, Any]:
    """Return what the export ran on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": model, "cores": cores, "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    """Return the versions of what wrote and ran the files."""
    found = {"python": platform.python_version()}
    for name in ("detol", "torch", "onnx", "onnxruntime", "onnxscript", "safetensors", "mlflow", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
