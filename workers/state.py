"""The whole state of a training at an epoch boundary as safetensors bytes: where another worker goes on, to the bit.

What is state: the weights and buffers, their average where one is kept, the optimiser's memory of each parameter, how
many epochs are over, and the curve so far. What is not, because it follows from these: the learning rate and the
sampler (functions of the epoch, the seed and the length of the schedule), and every random generator (each epoch has
its own, made from the seed, the epoch and the rank). The ranks of a group agree on all of it at an epoch boundary,
where the running statistics of batch norm have just been averaged: one checkpoint serves them all. What each rank
remembers for itself to exchange gradients (see :mod:`detol.workers.communication`) is gathered from all. Nothing is
pickled, nothing executed on loading.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import safetensors
import safetensors.torch
from torch import Tensor, nn

from detol.errors import CheckpointError
from detol.graph.digest import digest
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.search.records import Report
from detol.workers.checkpoint import facts
from detol.workers.communication.memory import NOTHING, Memory
from detol.workers.optim import Optimiser

KIND = "training"
FORMAT = "1"
_MODEL, _OPTIMISER, _COMMUNICATION, _AVERAGE = "model.", "optimiser.", "communication.", "average."


@dataclass(frozen=True)
class Stamp:
    """Whose state it is: only the same training may go on from it.

    Args:
        topology: digest of the network.
        recipe: digest of the recipe.
        seed: of the training.
        epochs: length of its schedule.
    """

    topology: str
    recipe: str
    seed: int
    epochs: int

    @classmethod
    def of(cls, topology: Topology, recipe: Recipe, seed: int, epochs: int) -> "Stamp":
        """Return the stamp of a training."""
        return cls(digest(topology), recipe.digest, seed, epochs)

    def facts(self) -> dict[str, str]:
        """Return it as metadata; the digest stands under the same name as in weights alone."""
        return {
            "digest": self.topology,
            "recipe": self.recipe,
            "seed": str(self.seed),
            "epochs": str(self.epochs),
        }


@dataclass(frozen=True)
class Saved:
    """A training's state, read back: epochs over, the curve so far, tensors by name (on the host).

    Those of ``communication`` have the ranks as a further first axis.
    """

    epoch: int
    reports: tuple[Report, ...]
    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    communication: Mapping[str, Tensor]
    average: Mapping[str, Tensor]


def save(
    model: nn.Module,
    optimiser: Optimiser,
    stamp: Stamp,
    reports: Sequence[Report],
    more: Mapping[str, str],
    memory: Memory = NOTHING,
    average: Mapping[str, Tensor] = {},
) -> bytes:
    """Return the state after the last of ``reports`` as bytes.

    Args:
        model: of the training.
        optimiser: likewise.
        stamp: likewise.
        reports: the curve, at least one.
        more: facts that its weights alone carry, too.
        memory: what each rank remembers for the exchange of gradients.
        average: the averaged weights, where the recipe has some.
    """
    tensors = {f"{_MODEL}{name}": detached(tensor) for name, tensor in model.state_dict().items()}
    state = {**optimiser.tensors(), **memory.optimiser}
    tensors |= {f"{_OPTIMISER}{name}": detached(tensor) for name, tensor in state.items()}
    tensors |= {f"{_COMMUNICATION}{name}": detached(tensor) for name, tensor in memory.rows.items()}
    tensors |= {f"{_AVERAGE}{name}": detached(tensor) for name, tensor in average.items()}
    curve = [[report.epoch, dict(report.metrics), report.seconds] for report in reports]
    about = {"format": FORMAT, "kind": KIND, "epoch": str(reports[-1].epoch), "curve": json.dumps(curve)}
    return safetensors.torch.save(tensors, {**more, **stamp.facts(), **about})


def is_state(weights: bytes) -> bool:
    """Return whether packed bytes are the whole state of a training, not weights alone.

    Raises:
        CheckpointError: bytes that are neither.
    """
    return facts(weights).get("kind") == KIND


def read_any(checkpoint: bytes, topology: Topology) -> Saved:
    """Return a saved state of whatever training of a topology.

    Raises:
        CheckpointError: bytes that are cut short or no checkpoint of a training, or one of another topology.
    """
    found = _facts(checkpoint)
    try:
        stamp = Stamp(digest(topology), found["recipe"], int(found["seed"]), int(found["epochs"]))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not say whose it is ({error}): start again") from None
    return read(checkpoint, stamp)


def read(checkpoint: bytes, stamp: Stamp) -> Saved:
    """Return a saved state for the training with this stamp.

    Raises:
        CheckpointError: bytes that are cut short or no checkpoint of a training, or one of another training.
    """
    found = _facts(checkpoint)
    for name, wanted in stamp.facts().items():
        if found.get(name) != wanted:
            raise CheckpointError(
                f"the checkpoint is of another training: its {name} is {found.get(name)}, not {wanted}; start again"
            )
    tensors = _tensors(checkpoint)
    try:
        curve = tuple(Report(int(epoch), metrics, seconds) for epoch, metrics, seconds in json.loads(found["curve"]))
        epoch = int(found["epoch"])
        if not curve or curve[-1].epoch != epoch or not 1 <= epoch <= stamp.epochs:
            raise ValueError(f"epoch {epoch} of {stamp.epochs}")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's curve cannot be read ({error}): start again") from None
    parts = (_MODEL, _OPTIMISER, _COMMUNICATION, _AVERAGE)
    return Saved(epoch, curve, *(_part(tensors, prefix) for prefix in parts))


def _facts(checkpoint: bytes) -> dict[str, str]:
    found = facts(checkpoint)
    if found.get("kind") != KIND or found.get("format") != FORMAT:
        raise CheckpointError("these bytes are not a checkpoint of a training that this detol can read: start again")
    return found


def _tensors(checkpoint: bytes) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(checkpoint)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"the checkpoint cannot be read ({error}): start again") from None


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def detached(tensor: Tensor) -> Tensor:
    """Return a tensor of its own on the host, contiguous."""
    # Clones, since tensors that share memory (a parameter used twice) are refused.
    return tensor.detach().cpu().contiguous().clone()
