"""Units of a network: records of which axis of which parameter follows which of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detol.graph.ops import Operation

Layout: TypeAlias = NDArray[np.int64]
"""The unit at each position of an axis."""

HIDDEN = ":hidden"
"""Ends the name of the inner units of a node."""


class Role(StrEnum):
    """What a parameter does along an axis that follows units."""

    WRITES = "writes"
    """Computes the unit: rows of a weight, its bias."""
    CARRIES = "carries"
    """Changes the unit alone: norms, depthwise kernels, gates."""
    READS = "reads"
    """Sums over units: columns of a weight."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of one parameter (or buffer): the unit at each of its positions.

    Args:
        node: whose parameter it is; empty for the head.
        parameter: key in the state dict.
        axis: which one, from 0.
        units: at each position.
        role: what the parameter does with them.
    """

    node: str
    parameter: str
    axis: int
    units: Layout
    role: Role


@dataclass(frozen=True, slots=True)
class Reader:
    """Where the units of one node stand along an axis.

    Args:
        parameter: key in the state dict.
        axis: which one, from 0.
        positions: (units, n): those of each unit; n > 1 after flattening, or where a tensor enters twice.
        role: READS, or CARRIES for what must be cut alike.
    """

    parameter: str
    axis: int
    positions: NDArray[np.int64]
    role: Role

    @property
    def offset(self) -> int:
        """The first position of the first unit (behind what was concatenated before it)."""
        return int(self.positions[0, 0])

    @property
    def repeat(self) -> int:
        """Positions of each unit."""
        return int(self.positions.shape[1])


@dataclass(frozen=True)
class Units:
    """The units of a network.

    Args:
        made: by node, the units that it makes. Equal numbers, in one node or in several, are tied.
        enters: by node, those at each position of the tensor that enters it (after merging).
        leaves: by node, those of the tensor that leaves it.
        operations: by node, those that are operations (no cells, no projections).
        projections: by projection, the node it reads and the nodes that its result enters (a cell's output and input).
        axes: of all parameters and buffers.
        modules: by node (an operation or a projection), the key of its module; ``""`` is the head.
        fixed: units whose number cannot be changed: the data's channels, the outputs, what enters or leaves grouped
            convolutions (but depthwise ones) and kinds without a rule in :data:`detol.graph.unit_rules.RULES`.
    """

    made: Mapping[str, Layout]
    enters: Mapping[str, Layout]
    leaves: Mapping[str, Layout]
    operations: Mapping[str, Operation]
    projections: Mapping[str, tuple[str, tuple[str, ...]]]
    axes: tuple[Axis, ...]
    modules: Mapping[str, str]
    fixed: frozenset[int]

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Nodes (projections among them) whose units are tied, directly or through others; each node once."""
        first: dict[int, str] = {}
        parent = {name: name for name in self.made}

        def root(name: str) -> str:
            while parent[name] != name:
                name = parent[name]
            return name

        for name, units in self.made.items():
            for unit in map(int, units):
                other = first.setdefault(unit, name)
                parent[root(name)] = root(other)
        found: dict[str, list[str]] = {}
        for name in self.made:
            found.setdefault(root(name), []).append(name)
        return tuple(map(tuple, found.values()))

    def group(self, node: str) -> tuple[str, ...]:
        """Return the nodes tied to one, itself among them."""
        return next(group for group in self.groups if node in group)

    def free(self, node: str) -> bool:
        """Return whether the number of a node's units may be changed."""
        return self.fixed.isdisjoint(self.made[node].tolist())

    def writers(self, node: str) -> tuple[tuple[str, int], ...]:
        """Return (parameter, axis) of what computes the units of a node: axis 0 of its weight and its bias."""
        made = self.made[node]
        return tuple(
            (axis.parameter, axis.axis)
            for axis in self.axes
            if axis.role is Role.WRITES and axis.node == node.removesuffix(HIDDEN) and np.array_equal(axis.units, made)
        )

    def readers(self, node: str) -> tuple[Reader, ...]:
        """Return where the units of a node stand in parameters that read or carry them, its own norm among these."""
        made = self.made[node]
        found = []
        for axis in self.axes:
            if axis.role is Role.WRITES:
                continue
            places = [np.flatnonzero(axis.units == unit) for unit in made]
            if places and len(places[0]) and len({len(place) for place in places}) == 1:
                found.append(Reader(axis.parameter, axis.axis, np.stack(places), axis.role))
        return tuple(found)

    def without(self, gone: Iterable[int]) -> dict[str, tuple[int, ...]]:
        """Return, for each node that loses units when ``gone`` are removed, those it keeps (counted from 0).

        It is what ``records.Transfer.units`` holds. Hidden units are not among them.
        """
        lost = np.array(sorted(set(gone)), dtype=np.int64)
        kept = {
            name: np.flatnonzero(~np.isin(units, lost))
            for name, units in self.made.items()
            if np.isin(units, lost).any()
        }
        return {name: tuple(map(int, places)) for name, places in kept.items()}
