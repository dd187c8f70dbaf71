"""What a trained network says of samples, and how good that is."""

import contextlib
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from detol.graph.build import build
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.workers.checkpoint import unpack
from detol.workers.metrics import measure
from detol.workers.step import Criterion, memory_faults, precision
from detol.workers.tensors import Tensors, load

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

EVALUATION_BATCH = 256
"""Samples of a forward pass outside training on a CPU, and the fewest elsewhere."""
MOST_SAMPLES, MOST_VALUES = 4096, 2**23
"""Samples and their values in a forward pass on an accelerator, at most: small ones are bound by their launches."""


@torch.inference_mode()
def forward(model: nn.Module, data: Tensors, x: Tensor, recipe: Recipe | None = None) -> Tensor:
    """Return the outputs (N, outputs), float32, of a network in evaluation mode for raw samples (N, *shape)."""
    model.eval()
    count = passing(data)
    with precision(recipe or Recipe(), data.device), _exactly(recipe is None, data.device):
        parts = [model(data.standardised(part)).float() for part in torch.split(x, count) if len(part)]
    return torch.cat(parts) if parts else x.new_zeros((0, data.outputs), dtype=torch.float32)


def _exactly(wanted: bool, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Let an accelerator multiply float32 as the host does, with all digits: what is measured so is for the record."""
    if device.type != "cuda" or not wanted:
        return contextlib.nullcontext()
    exact: contextlib.AbstractContextManager[None] = torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=False, allow_tf32=False
    )
    return exact


def passing(data: Tensors) -> int:
    """Return how many samples of a data set go through a network at once."""
    if data.device.type == "cpu":
        return EVALUATION_BATCH
    return max(EVALUATION_BATCH, min(MOST_SAMPLES, MOST_VALUES // math.prod(data.shape)))


def restore(topology: Topology, weights: bytes, data: Tensors) -> nn.Module:
    """Return the network of a topology with trained weights, in evaluation mode on the device of the data.

    Raises:
        CheckpointError: weights of another network.
    """
    state = unpack(weights, topology)
    model = build(topology, data.shape, data.outputs)
    model.load_state_dict(state)
    return model.to(data.device, memory_format=data.layout).eval()  # type: ignore[call-overload,no-any-return]


def evaluate(
    topology: Topology, weights: bytes, data: "Dataset | Tensors", split: str = "test", *, device: str = "cpu"
) -> dict[str, float]:
    """Return the metrics of trained weights on a split, by name with its prefix (``test_accuracy``, ``val_r2`` ...).

    Args:
        topology: of the network.
        weights: from :meth:`detol.workers.train.Training.weights`.
        data: with that split; its training split gives the units of a regression.
        split: ``test``, ``validation`` or ``train``.
        device: where to run, unless ``data`` are tensors.

    Raises:
        DataError: data without that split.
        CheckpointError: weights of another network.
    """
    tensors = data if isinstance(data, Tensors) else load(data, device)
    rows = tensors.split(split)
    with memory_faults():
        output = forward(restore(topology, weights, tensors), tensors, rows.x)
        natural = Criterion(tensors, Recipe()).natural(output)
        return measure(tensors.task, natural, rows.y, {"validation": "val_"}.get(split, f"{split}_"))


def predict(
    topology: Topology, weights: bytes, data: "Dataset | Tensors", split: str = "test", *, device: str = "cpu"
) -> NDArray[np.float32]:
    """Return class probabilities (N, classes), or values (N,) in the target's units, for the samples of a split.

    Arguments and errors as in :func:`evaluate`.
    """
    tensors = data if isinstance(data, Tensors) else load(data, device)
    with memory_faults():
        output = forward(restore(topology, weights, tensors), tensors, tensors.split(split).x)
        natural = Criterion(tensors, Recipe()).natural(output)
        if tensors.task == "classification":
            natural = natural.softmax(1)
    result: NDArray[np.float32] = natural.cpu().numpy()
    return result
