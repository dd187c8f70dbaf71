"""ONNX: written from the portable network, and run again with onnxruntime on real samples."""

import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from detol.errors import DetolError
from detol.export.portable import Portable

INPUT = "x"
_BATCH = 256


class ExportError(DetolError):
    """An exported file that does not do what the network does."""


def write_onnx(network: Portable, samples: NDArray[Any], path: Path, metadata: Mapping[str, str]) -> None:
    """Write the network as one ONNX file with a dynamic batch axis.

    Args:
        network: as it leaves detol.
        samples: a few raw samples (n, *shape), n >= 1; only their type and shape matter.
        path: of the file.
        metadata: properties of the model.
    """
    import onnx

    example = torch.from_numpy(np.resize(samples[:2], (2, *samples.shape[1:])))  # a batch of 1 would be taken as fixed
    # The exporter speaks to its developers on import and while it runs: nothing a user could act on.
    with warnings.catch_warnings(), _quiet("torch.onnx", "onnxscript", "onnx_ir"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            input_names=[INPUT],
            output_names=["value" if network.regression else "logits"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.doc_string = "Exported by detol. Input: raw samples; standardisation is part of the graph."
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def run_onnx(path: Path, samples: NDArray[Any]) -> NDArray[np.float32]:
    """Return what the file answers to raw samples (n, *shape), computed by onnxruntime on one thread of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    parts = [session.run(None, {INPUT: samples[at : at + _BATCH]})[0] for at in range(0, len(samples), _BATCH)]
    found: NDArray[np.float32] = np.concatenate(parts)
    return found


@torch.inference_mode()
def run_torch(network: Portable, samples: NDArray[Any]) -> NDArray[np.float32]:
    """Return what the network answers to raw samples (n, *shape)."""
    parts = [network(torch.from_numpy(samples[at : at + _BATCH])) for at in range(0, len(samples), _BATCH)]
    found: NDArray[np.float32] = torch.cat(parts).numpy()
    return found


def difference(found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> float:
    """Return the largest absolute difference of two outputs.

    Raises:
        ExportError: it exceeds ``tolerance`` times the largest output (or 1), or the shapes differ, or it is NaN.
    """
    if found.shape != expected.shape:
        raise ExportError(f"the exported file answers with shape {found.shape}, the network with {expected.shape}")
    largest = float(np.max(np.abs(found - expected), initial=0.0))
    allowed = tolerance * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    if not largest <= allowed:
        raise ExportError(f"outputs of the exported file may differ by {allowed:.2g}, they differ by {largest:.2g}")
    return largest


def labels(names: tuple[str, ...]) -> dict[str, str]:
    """Return the metadata that tells the class names in the order of the logits; none for a regression."""
    return {"classes": json.dumps(list(names))} if names else {}


class _quiet:  # noqa: N801  used as a verb
    """Keeps loggers below errors for a while."""

    def __init__(self, *names: str) -> None:
        self._loggers = [logging.getLogger(name) for name in names]
        self._levels = [logger.level for logger in self._loggers]

    def __enter__(self) -> None:
        for logger in self._loggers:
            logger.setLevel(logging.ERROR)

    def __exit__(self, *error: object) -> None:
        for logger, level in zip(self._loggers, self._levels, strict=True):
            logger.setLevel(level)
