"""Trained weights as safetensors bytes that carry the network's identity: no pickles, nothing executed on loading.

The whole state of a training is in :mod:`detol.workers.state`.
"""

import json
from collections.abc import Mapping

import safetensors
import safetensors.torch
from torch import Tensor, nn

from detol.errors import CheckpointError
from detol.graph.digest import digest
from detol.graph.topology import Topology

FORMAT = "1"


__all__ = ["CheckpointError", "facts", "pack", "pack_state", "unpack", "unpack_optimiser"]

_MEMORY = "optimiser/"
"""Begins the names of tensors that are not the model's: ``optimiser/PARAMETER/KEY``."""


def pack(
    model: nn.Module,
    topology: Topology,
    facts: Mapping[str, str] | None = None,
    optimiser: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> bytes:
    """Return the state of a model with the digest of its topology (and further facts) as metadata.

    ``optimiser``: what the optimiser remembers of each parameter; :func:`unpack_optimiser` gives it back.
    """
    memory = {f"{_MEMORY}{name}/{key}": t for name, state in (optimiser or {}).items() for key, t in state.items()}
    return pack_state({**model.state_dict(), **memory}, topology, facts)


def pack_state(tensors: Mapping[str, Tensor], topology: Topology, facts: Mapping[str, str] | None = None) -> bytes:
    """Return a model's state, given as tensors by name, as :func:`pack` does."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(state, {"format": FORMAT, "digest": digest(topology), **(facts or {})})


def facts(weights: bytes) -> dict[str, str]:
    """Return the metadata of packed weights.

    Raises:
        CheckpointError: bytes that are not packed weights.
    """
    # A safetensors file starts with the length of its JSON header as 8 bytes, little-endian.
    size = int.from_bytes(weights[:8], "little")
    try:
        header = json.loads(weights[8 : 8 + size])
        return dict(header["__metadata__"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointError("these bytes are not weights that detol packed: export or train again") from None


def unpack(weights: bytes, topology: Topology) -> dict[str, Tensor]:
    """Return the tensors of packed weights by name, on the host; without the optimiser's memory.

    Raises:
        CheckpointError: unreadable bytes, or weights of a topology with another digest.
    """
    found = facts(weights).get("digest")
    if found != digest(topology):
        raise CheckpointError(f"the weights are those of {found}, not of {digest(topology)}: load them into their own")
    return {name: tensor for name, tensor in _tensors(weights).items() if not name.startswith(_MEMORY)}


def unpack_optimiser(weights: bytes) -> dict[str, dict[str, Tensor]]:
    """Return the optimiser's memory in packed weights, by parameter and key; empty where it was not packed.

    Raises:
        CheckpointError: unreadable bytes.
    """
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in _tensors(weights).items():
        if name.startswith(_MEMORY):
            parameter, _, key = name.removeprefix(_MEMORY).rpartition("/")
            found.setdefault(parameter, {})[key] = tensor
    return found


def _tensors(weights: bytes) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(weights)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"the weights cannot be read ({error}): train again") from None
