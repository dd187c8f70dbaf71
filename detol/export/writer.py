"""Writing the export of a trial: its files, each run again, and a manifest that says what was found."""

import json
import math
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol.errors import UsageError, unknown
from detol.export.destination import check_destination, whole
from detol.graph.codec import to_json
from detol.graph.cost import cost
from detol.graph.draw import svg
from detol.search.recipe import Recipe
from detol.search.records import Trial

if TYPE_CHECKING:
    from detol.export.portable import Portable
    from detol.workers.data.dataset import Dataset

FORMATS = ("onnx", "torch")
"""``onnx``: one file, raw samples in; ``torch``: the state dict of ``detol.graph.build.build`` as safetensors."""

TOLERANCE = 1e-4
"""How far outputs may differ, relative to the largest output (absolute below 1): rounding of float32."""

_ROWS = 2048


def export(
    trial: Trial,
    dataset: "Dataset",
    weights: bytes | None,
    directory: Path,
    formats: Sequence[str] = FORMATS,
    *,
    recipe: Recipe | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a trained network into a new directory, whole or not at all, and return the manifest.

    Always written: ``topology.json``, ``topology.svg`` and the manifest ``export.json`` (digest, data, recipe, costs,
    scores, differences, files, versions). The weights are first checked to belong to the topology, and to score on the
    whole validation split as the trial's last report says (see :mod:`detol.export.score`); the ONNX file is run with
    onnxruntime on up to 2048 validation samples.

    Args:
        trial: its topology is exported, its facts go into the manifest.
        dataset: that it was trained on.
        weights: safetensors bytes as training returned them; ``None`` when they were not kept.
        directory: to write; must not exist or be empty.
        formats: some of ``FORMATS``.
        recipe: that it was trained by, for the manifest.
        about: further facts for the manifest (search, lineage, test score ...).

    Raises:
        UsageError: an unknown format, missing or foreign weights, a destination that is not free.
        ExportError: weights that do not score as the trial did, or a written file that does not answer as the network
            does; nothing is left then.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown("export format", name, FORMATS)
    directory = check_destination(directory)
    if weights is None:
        raise UsageError(
            f"export needs weights, and those of trial {trial.number} ({trial.digest}) were not kept: "
            "`detol export` trains it again"
        )
    topology = trial.candidate.topology
    from detol.export.portable import portable

    network = portable(topology, weights, dataset)
    checked = _Checked(network, dataset, trial, recipe)
    with whole(directory) as folder:
        (folder / "topology.json").write_text(to_json(topology), encoding="utf-8")
        (folder / "topology.svg").write_text(svg(topology), encoding="utf-8")
        if dataset.preprocessing:
            text = json.dumps(dict(dataset.preprocessing), indent=2, default=str)
            (folder / "preprocessing.json").write_text(text, encoding="utf-8")
        if "torch" in formats:
            (folder / "weights.safetensors").write_bytes(weights)
        if "onnx" in formats:
            checked.onnx(folder / "model.onnx", trial.digest)
        manifest = {
            **_facts(trial, dataset, recipe),
            **(about or {}),
            "checks": checked.found,
            "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir())},
            "versions": _versions(),
            "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        text = json.dumps(_finite(manifest), indent=2, allow_nan=False, default=str)
        (folder / "export.json").write_text(text + "\n", encoding="utf-8")
    return manifest


class _Checked:
    """The outputs of the trained network on validation samples, and what was compared with them."""

    def __init__(self, network: "Portable", dataset: "Dataset", trial: Trial, recipe: Recipe | None) -> None:
        from detol.export import score
        from detol.export.onnx_file import run_torch

        rows, task = dataset.validation, dataset.task
        outputs = run_torch(network, rows.x)
        recomputed = score.score(outputs, rows.y, task)
        precision = recipe.precision if recipe else "float32"
        compared = score.compare(trial, recomputed, len(rows.y), spread=dataset.target_std, precision=precision)
        self._network = network
        self._dataset = dataset
        self._samples = rows.x[:_ROWS]
        self._expected = outputs[:_ROWS]
        self.found: dict[str, Any] = {
            "split": "validation",
            "samples": len(self._samples),
            "tolerance": TOLERANCE,
            "torch": score.score(self._expected, rows.y[:_ROWS], task),
            "score": compared,
        }

    def onnx(self, path: Path, digest: str) -> None:
        """Write the ONNX file, run it, compare."""
        from detol.export import onnx_file, score

        rows, task = self._dataset.validation, self._dataset.task
        metadata = {"digest": digest, "data": self._dataset.digest, **onnx_file.labels(self._dataset.classes)}
        onnx_file.write_onnx(self._network, self._samples, path, metadata)
        found = onnx_file.run_onnx(path, self._samples)
        largest = onnx_file.difference(found, self._expected, TOLERANCE)
        self.found["onnx"] = {"max_difference": largest, **score.score(found, rows.y[:_ROWS], task)}


def _facts(trial: Trial, dataset: "Dataset", recipe: Recipe | None) -> dict[str, Any]:
    from dataclasses import asdict

    figures = cost(trial.candidate.topology, dataset.shape, dataset.outputs)
    return {
        "digest": trial.digest,
        "trial": trial.number,
        "state": trial.state.value,
        "origin": trial.candidate.origin.value,
        "decisions": dict(trial.candidate.decisions),
        "epochs": trial.epoch,
        "seed": trial.seed,
        "metrics": dict(trial.reports[-1].metrics) if trial.reports else {},
        "cost": {"params": figures.params, "multiply_adds": figures.multiply_adds, "depth": figures.depth},
        "recipe": {"digest": recipe.digest, **asdict(recipe)} if recipe else None,
        "data": {
            "name": dataset.name,
            "digest": dataset.digest,
            "task": dataset.task,
            "shape": list(dataset.shape),
            "dtype": str(dataset.validation.x.dtype),
            "classes": list(dataset.classes),
            "standardisation": "(x - mean) / std, part of the ONNX graph",
            "mean": dataset.mean.ravel().tolist(),
            "std": dataset.std.ravel().tolist(),
        },
    }


def _finite(value: Any) -> Any:
    """Return the value with what JSON has no number for replaced by ``None``."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _versions() -> dict[str, str]:
    names = ("detol", "torch", "onnx", "onnxruntime", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
