"""``model.pt2``: the program of torch.export; and the weights as safetensors by the names in ``model.py``."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from detol.export.formats import Answer, Subject

if TYPE_CHECKING:
    from torch.export import ExportedProgram

BATCH = 256
"""Samples of one call while an exported file is run again."""

PROGRAM = "model.pt2"


class Torch:
    """A program that ``torch.export.load`` reads without any code of detol, and a safetensors state dict."""

    def write(self, subject: Subject, folder: Path) -> None:
        """Write ``model.pt2`` and ``weights.safetensors``."""
        with quiet():
            torch.export.save(subject.program, folder / PROGRAM, extra_files=dict(subject.labels))
        write_weights(subject, folder)

    def load(self, folder: Path) -> Answer:
        """Read the program back."""
        with quiet():
            return runner(torch.export.load(folder / PROGRAM).module())

    def run_by(self) -> str:
        """Return the version of torch."""
        return f"torch {torch.__version__}"


def trace(network: nn.Module, samples: NDArray[Any]) -> "ExportedProgram":
    """Return a network as a program whose batch axis is open.

    Args:
        network: in evaluation mode.
        samples: raw ones (n, *shape), n >= 1; only their type and shape matter.
    """
    example = torch.from_numpy(np.resize(samples[:2], (2, *samples.shape[1:])))  # a batch of 1 would be taken as fixed
    with quiet(), torch.no_grad():
        return torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))


def runner(network: nn.Module) -> Answer:
    """Return a network as a function of arrays, run in batches."""

    def answer(samples: NDArray[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            parts = [network(torch.from_numpy(samples[at : at + BATCH])) for at in range(0, len(samples), BATCH)]
        found: NDArray[Any] = torch.cat(parts).numpy()
        return found

    return answer


def write_weights(subject: Subject, folder: Path) -> None:
    """Write ``weights.safetensors`` by the names in ``model.py``, with the labels as metadata; only once.

    A kind of operation without Python source leaves the names as they are in ``detol.graph.build``.
    """
    from safetensors.torch import save

    from detol.errors import TopologyError
    from detol.export.python_file import WEIGHTS, state

    path = folder / WEIGHTS
    if path.exists():
        return
    try:
        text, layers = subject.source
        found = state(text, layers, subject.network.network, subject.dataset)
    except TopologyError:
        found = {key: value.contiguous() for key, value in subject.network.network.state_dict().items()}
    path.write_bytes(save(found, dict(subject.labels)))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep exporters from speaking to their developers: nothing a user could act on."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir", "mlflow")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
