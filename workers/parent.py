"""A parent's network as it was trained, for what is measured or taken over by looking at what it computes."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from detol.graph.build import build
from detol.graph.topology import Topology
from detol.workers.checkpoint import unpack
from detol.workers.tensors import Tensors


def restored(topology: Topology, weights: bytes, data: Tensors) -> nn.Module:
    """Return a trained network on the device of some data.

    Args:
        topology: its topology.
        weights: as ``Training.weights`` packs them.
        data: that it is going to see.

    Raises:
        CheckpointError: weights of another network.
    """
    return loaded(topology, unpack(weights, topology), data)


def loaded(topology: Topology, state: Mapping[str, Tensor], data: Tensors) -> nn.Module:
    """Return the same of a state dict.

    Raises:
        RuntimeError: it is not one of that topology.
    """
    with torch.random.fork_rng([]):  # weights that are overwritten at once are drawn
        network = build(topology, data.shape, data.outputs)
    network.load_state_dict(dict(state))
    return network.to(data.device, memory_format=data.layout)  # type: ignore[call-overload, no-any-return]


def by_batches(network: nn.Module) -> nn.Module:
    """Let batch norms take the statistics of what enters them, and nothing be dropped; return the same network.

    Statistics that a child inherited belong to other inputs where a layer before them was changed, and the first steps
    of a training mend that.
    """
    network.eval()
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.train()
    return network
