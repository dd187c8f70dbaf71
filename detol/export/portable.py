"""The network as it leaves detol: raw samples in, natural units out, nothing to remember beside the file."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from detol.errors import UsageError
from detol.graph.build import build
from detol.graph.topology import Topology
from detol.workers.checkpoint import CheckpointError, unpack

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset


class Portable(nn.Module):
    """Standardisation, network, and the way back to the target's units, in evaluation mode.

    Maps (B, *shape) of the data's own type (uint8 images, else float32) to logits (B, classes), or for a regression to
    values (B,) in the units of the target.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, dataset: "Dataset") -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.from_numpy(dataset.mean.copy()))
        self.register_buffer("std", torch.from_numpy(dataset.std.copy()))
        self.regression = dataset.task == "regression"
        self.target_mean = float(dataset.target_mean)
        self.target_std = float(dataset.target_std)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Map raw samples (B, *shape) to logits (B, classes) or values (B,)."""
        output: Tensor = self.network((x.float() - self.mean) / self.std)
        return output.squeeze(1) * self.target_std + self.target_mean if self.regression else output


def portable(topology: Topology, weights: bytes, dataset: "Dataset") -> Portable:
    """Return the trained network of a topology for raw samples of a data set.

    Raises:
        UsageError: weights of another network, or of data of another shape, or unreadable ones.
    """
    network = build(topology, dataset.shape, dataset.outputs)
    try:
        network.load_state_dict(unpack(weights, topology))
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UsageError(
            f"the weights do not fit a network for {dataset.name} {dataset.shape} ({reason}): name the data they were "
            f"trained on"
        ) from None
    return Portable(network, dataset)


def answers(topology: Topology, weights: bytes, dataset: "Dataset") -> dict[str, NDArray[np.float32]]:
    """Return what the network answers to the samples of each split but the training's, computed as training does.

    Logits (n, classes), or values (n,) in the units of the target; ``validation``, and ``test`` where there is one.
    """
    from detol.search.recipe import Recipe
    from detol.workers.evaluate import forward, restore
    from detol.workers.step import Criterion
    from detol.workers.tensors import load

    data = load(dataset)
    network, natural = restore(topology, weights, data), Criterion(data, Recipe()).natural
    return {
        name: natural(forward(network, data, data.split(name).x)).numpy()
        for name in dataset.splits()
        if name != "train"
    }
