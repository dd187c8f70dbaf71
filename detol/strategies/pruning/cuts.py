"""What a cut is made from and what it makes; common to all levels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from detol.graph.cost import Cost, cost
from detol.graph.shapes import Shape
from detol.graph.topology import Topology


@dataclass(frozen=True, slots=True)
class Size:
    """What the network is fed and how many values it puts out; with these a topology has a cost."""

    shape: Shape
    outputs: int

    def cost(self, topology: Topology) -> Cost:
        """Return the cost of a topology. Errors as :func:`detol.graph.cost.cost`."""
        return cost(topology, self.shape, self.outputs)


@dataclass(frozen=True, slots=True)
class Cut:
    """A smaller network and how its weights come from its parent's (nodes keep their names).

    Args:
        topology: lowered, in normal form.
        units: by node, the parent's units that it keeps; absent: all.
        folded, merged: as in :class:`~detol.search.records.Transfer`.
    """

    topology: Topology
    units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    folded: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    merged: Mapping[str, tuple[tuple[int, int, float], ...]] = field(default_factory=dict)


Level: TypeAlias = Callable[[Topology, Mapping[str, Any], Size, float, float], Cut | None]
"""From a trained network, what was measured of it, its size, the share to remove (in (0, 1)), and the allowance.

The allowance is how much of what the network has learnt (the loss of knowing only the targets' distribution, less its
own loss) one cut may give up before training goes on. ``None``: there is nothing left that may be cut.
"""


def relative(now: Cost, before: Cost) -> float:
    """Return the size of a network as a share of another's: the mean of parameters and multiply-adds."""
    return (now.params / max(before.params, 1) + now.multiply_adds / max(before.multiply_adds, 1)) / 2


def allowed(measured: Mapping[str, Any], allowance: float) -> float:
    """Return the largest held-out loss that a cut may lead to before training.

    A network that has learnt nothing, or is worse than that, may lose as if a tenth of all there is had been learnt.
    """
    loss, plain = float(measured["loss"]), float(measured["plain"])
    return loss + allowance * max(plain - loss, 0.1 * plain)


def largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest whole number in [low, high] that fits, or ``low - 1``; what is below one that fits, fits."""
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            low = middle + 1
        else:
            high = middle - 1
    return high
