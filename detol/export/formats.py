"""The formats of an export: what each needs, writes, and how it is run again."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from numpy.typing import NDArray

from detol.errors import UsageError, unknown

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from detol.export.portable import Portable
    from detol.search.recipe import Recipe
    from detol.search.records import Trial
    from detol.workers.data.dataset import Dataset

Answer: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
"""From raw samples (n, *shape) to logits (n, classes) or values (n,)."""

DEFAULT = ("onnx", "torch", "python")
"""What is written when nobody says."""


@dataclass
class Subject:
    """What is exported: a trained network with its data.

    Args:
        trial: its topology and facts.
        dataset: that it was trained on.
        network: as it leaves detol, in evaluation mode.
        recipe: that it was trained by; ``None`` when nobody knows.
        title: one line that names it.
        labels: text that formats with metadata carry (digest, classes, preprocessing ...).
    """

    trial: "Trial"
    dataset: "Dataset"
    network: "Portable"
    recipe: "Recipe | None"
    title: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def program(self) -> "ExportedProgram":
        """The network as a program of torch.export with an open batch axis; traced once for all formats."""
        from detol.export.torch_file import trace

        return trace(self.network, self.dataset.validation.x)

    @cached_property
    def source(self) -> tuple[str, Any]:
        """The text of ``model.py`` and its layers."""
        from detol.export.python_file import model_source

        return model_source(self.trial.candidate.topology, self.dataset, self.title)


class Format(Protocol):
    """One format. Files are written into a folder that takes its place when all are checked."""

    def write(self, subject: Subject, folder: Path) -> None:
        """Write the files."""
        ...

    def load(self, folder: Path) -> Answer:
        """Read the files back, and nothing else, and return what runs them."""
        ...

    def run_by(self) -> str:
        """Return what runs them, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A format in the catalogue: where its class is, the libraries that it needs, and what each of its files is."""

    place: str
    needs: tuple[str, ...]
    files: Mapping[str, str]


_WEIGHTS = {"weights.safetensors": "its weights, by the names of the layers in `model.py`"}

FORMATS: Mapping[str, Entry] = {
    "onnx": Entry(
        "detol.export.onnx_file:Onnx",
        ("onnx", "onnxruntime", "onnxscript"),
        {"model.onnx": "ONNX for onnxruntime and the like; the batch axis is open, the classes are metadata"},
    ),
    "torch": Entry(
        "detol.export.torch_file:Torch",
        ("torch", "safetensors"),
        {"model.pt2": "a program of torch: `torch.export.load(...).module()`", **_WEIGHTS},
    ),
    "python": Entry(
        "detol.export.python_file:Python",
        ("torch", "safetensors"),
        {"model.py": "the network as plain Python", **_WEIGHTS, "train.py": "the recipe as a script"},
    ),
    "mlflow": Entry(
        "detol.export.mlflow_folder:Mlflow",
        ("mlflow", "onnx", "onnxruntime", "onnxscript"),
        {"mlflow": "a model of MLflow with signature and input example: `mlflow.pyfunc.load_model`"},
    ),
}


def chosen(names: Sequence[str]) -> list[str]:
    """Return the formats asked for, each once, in the order of the catalogue.

    Raises:
        UsageError: an unknown one, none, or one whose library is not installed.
    """
    for name in names:
        if name not in FORMATS:
            raise unknown("export format", name, FORMATS)
    if not names:
        raise UsageError(f"an export needs a format: --format {','.join(FORMATS)}")
    for name in FORMATS:
        missing = [library for library in FORMATS[name].needs if name in names and not _installed(library)]
        if missing:
            raise UsageError(
                f"--format {name} needs {' and '.join(missing)}, not installed here: pip install {' '.join(missing)}"
            )
    return [name for name in FORMATS if name in names]


def make(name: str) -> Format:
    """Return a format by its name."""
    module, _, kind = FORMATS[name].place.partition(":")
    made: Format = getattr(importlib.import_module(module), kind)()
    return made


def _installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ValueError:  # a module put into sys.modules by hand
        return True
