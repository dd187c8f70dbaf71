"""Writing the export of a trial: its files, each run again, a certificate of what was found, and a model card."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from detol.errors import DetolError, UsageError
from detol.export.destination import check_destination, whole
from detol.export.formats import DEFAULT, chosen, make
from detol.graph.codec import to_json
from detol.graph.cost import cost
from detol.graph.draw import mermaid, svg
from detol.search.recipe import Recipe
from detol.search.records import Trial

if TYPE_CHECKING:
    from detol.export.formats import Subject
    from detol.workers.data.dataset import Dataset

CERTIFICATE = "certificate.json"
_SAMPLES = 4


def export(
    trial: Trial,
    dataset: "Dataset",
    weights: bytes | None,
    directory: Path,
    formats: Sequence[str] = DEFAULT,
    *,
    recipe: Recipe | None = None,
    about: Mapping[str, Any] | None = None,
    again: bool = False,
    with_data: bool = False,
) -> dict[str, Any]:
    """Write a trained network into a new directory, whole or not at all, and return the certificate.

    Beside the formats come the topology (JSON, GraphML, SVG, Mermaid), ``preprocessing.json``, ``samples.npy`` (a few
    raw validation samples), ``certificate.json`` and ``README.md``. The weights are first checked to belong to the
    topology, and to score on the validation split as the trial's last report says (see :mod:`detol.export.score`).
    Then each format is read back and run on the whole validation split, and on the test split where there is one:
    outputs and scores must be those of the trained network.

    Args:
        trial: its topology is exported, its facts go into the certificate.
        dataset: that it was trained on.
        weights: safetensors bytes as training returned them; ``None`` when they were not kept.
        directory: to write; must not exist or be empty.
        formats: some of :data:`detol.export.formats.FORMATS`.
        recipe: that it was trained by, for the certificate and ``train.py``.
        about: further facts for the certificate (trial, search, lineage, retrained ...).
        again: whether the weights are of another training than the trial's, which may score otherwise.
        with_data: whether ``data.npz`` is written too, the splits as ``train.py`` reads them.

    Raises:
        UsageError: an unknown format, one whose library is missing, missing or foreign weights, a destination that is
            not free.
        ExportError: weights that do not score as the trial did, or a written file that does not answer as the network
            does; nothing is left then.
    """
    names = chosen(formats)
    directory = check_destination(directory)
    if weights is None:
        raise UsageError(
            f"export needs weights, and those of trial {trial.number} ({trial.digest}) were not kept: --retrain 1 "
            "trains it again"
        )
    subject, examiner, compared = _subject(trial, dataset, weights, recipe, about or {}, again=again)
    topology = trial.candidate.topology
    with whole(directory) as folder:
        _pictures(folder, subject)
        if dataset.preprocessing:
            text = json.dumps(dict(dataset.preprocessing), indent=2, default=str)
            (folder / "preprocessing.json").write_text(text, encoding="utf-8")
        np.save(folder / "samples.npy", dataset.validation.x[:_SAMPLES])
        if with_data:
            _save_data(folder / "data.npz", dataset)
        made = {name: make(name) for name in names}
        for one in made.values():
            one.write(subject, folder)
        from detol.export import card, certificate

        found = {
            "title": subject.title,
            "trial": str(trial.number),
            **_facts(trial, dataset, recipe),
            **(about or {}),
            "tolerance": certificate.TOLERANCE,
            "network": examiner.splits(),
            "score": compared,
            "formats": {name: examiner.examine(name, one, folder) for name, one in made.items()},
            "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()},
            "device": certificate.machine(),
            "versions": certificate.versions(),
            "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        found["cost"] = asdict(cost(topology, dataset.shape, dataset.outputs))
        text = json.dumps(_finite(found), indent=2, allow_nan=False, default=str)
        (folder / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
        found["files"][CERTIFICATE] = len(text) + 1
        (folder / "README.md").write_text(card.card(found), encoding="utf-8")
    return found


def _subject(
    trial: Trial, dataset: "Dataset", weights: bytes, recipe: Recipe | None, about: Mapping[str, Any], *, again: bool
) -> tuple["Subject", Any, dict[str, Any] | None]:
    """Return the network to export, the examiner of its files, and its score beside the recorded one."""
    from detol.export import score
    from detol.export.certificate import Examiner
    from detol.export.formats import Subject
    from detol.export.portable import answers, portable

    network = portable(trial.candidate.topology, weights, dataset)
    expected = answers(trial.candidate.topology, weights, dataset)
    compared = score.compare(
        trial,
        score.score(expected["validation"], dataset.validation.y, dataset.task),
        len(dataset.validation.y),
        spread=dataset.target_std,
        precision=recipe.precision if recipe else "float32",
        again=again,
    )
    ref = about.get("trial", f"trial {trial.number}")
    what = {"classification": "classifier", "regression": "regression"}[dataset.task]
    kind = "tabular" if dataset.kind == "features" else dataset.kind
    title = f"{ref}: a network for {dataset.name} ({kind} {what}), found by detol."
    labels = {
        "digest": trial.digest,
        "data": dataset.digest,
        "task": dataset.task,
        "input": f"raw samples (n, {', '.join(map(str, dataset.shape))}) {dataset.validation.x.dtype}",
        "preprocessing": "standardisation is part of the model; see preprocessing.json for what comes before it",
        **({"classes": json.dumps(list(dataset.classes))} if dataset.classes else {}),
    }
    return Subject(trial, dataset, network, recipe, title, labels), Examiner(dataset, expected), compared


def _pictures(folder: Path, subject: "Subject") -> None:
    from detol.export.graphml import graphml

    topology, shape = subject.trial.candidate.topology, subject.dataset.shape
    try:
        drawn = {"topology.svg": svg(topology, shape), "topology.mmd": mermaid(topology)}
    except (DetolError, KeyError):
        drawn = {}  # a kind that only the user's space knows
    texts = {"topology.json": to_json(topology), "topology.graphml": graphml(topology, shape), **drawn}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _save_data(path: Path, dataset: "Dataset") -> None:
    parts = dataset.splits()
    arrays = {f"{role}_{name}": getattr(part, role) for name, part in parts.items() for role in ("x", "y")}
    if dataset.classes:
        arrays["classes"] = np.array(dataset.classes)
    np.savez_compressed(path, **arrays)


def _facts(trial: Trial, dataset: "Dataset", recipe: Recipe | None) -> dict[str, Any]:
    return {
        "digest": trial.digest,
        "state": trial.state.value,
        "origin": trial.candidate.origin.value,
        "decisions": dict(trial.candidate.decisions),
        "epochs": trial.epoch,
        "epochs_asked": trial.epochs,
        "seed": trial.seed,
        "metrics": dict(trial.reports[-1].metrics) if trial.reports else {},
        "recipe": {"digest": recipe.digest, **asdict(recipe)} if recipe else None,
        "data": {
            "name": dataset.name,
            "digest": dataset.digest,
            "kind": dataset.kind,
            "task": dataset.task,
            "shape": list(dataset.shape),
            "dtype": str(dataset.validation.x.dtype),
            "splits": {name: len(part) for name, part in dataset.splits().items()},
            "classes": list(dataset.classes),
            "standardisation": "(x - mean) / std, part of every exported model",
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
