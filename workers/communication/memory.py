"""What the ranks remember, all together, as one checkpoint holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from detol.workers.communication.base import Communication
from detol.workers.group import Group

if TYPE_CHECKING:
    from detol.workers.optim import Optimiser


@dataclass(frozen=True)
class Memory:
    """What all ranks remember.

    Args:
        rows: by name; (ranks, *shape of one rank's tensor), on the host.
        optimiser: what a plain training would go on from: the mean over the ranks, by the optimiser's names.
    """

    rows: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]


NOTHING = Memory({}, {})


def gather(communication: Communication, optimiser: "Optimiser", group: Group) -> Memory:
    """Return what all ranks remember. A collective call where the way ``remembers``; otherwise nothing is sent."""
    if not communication.remembers:
        return NOTHING
    own = communication.memory(optimiser)
    rows = {name: group.gather(tensor.detach()[None]) for name, tensor in sorted(own.items())}
    return Memory(rows, communication.shared({name: mean(row) for name, row in rows.items()}))


def memory_of(rows: Mapping[str, Tensor], rank: int, width: int) -> dict[str, Tensor]:
    """Return what a rank of ``width`` goes on with.

    As many ranks as before: its own, to the bit. Another number: each has the mean, so that the mean over the ranks of
    what is still to be sent is what it was.
    """
    return {name: row[rank] if len(row) == width else mean(row) for name, row in rows.items()}


def mean(row: Tensor) -> Tensor:
    """Return the mean over the ranks; of equal rows to the bit what each holds."""
    first = row[0]
    return first if torch.equal(row, first.expand_as(row)) else row.mean(0)
