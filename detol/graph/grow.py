"""Growth: edits that make a network larger and keep its function, given its trained weights.

Widening (Net2WiderNet) and deepening (Net2DeeperNet): Chen et al. 2016, arXiv 1511.05641. An edit is a topology and the
record by which :func:`detol.workers.transfer.inherit` takes the weights over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from detol.errors import TopologyError
from detol.graph.edit import Node, normal
from detol.graph.flat import flat
from detol.graph.neutral import Start, starts
from detol.graph.ops import Operation
from detol.graph.resize import WIDTHS, resized
from detol.graph.topology import Topology
from detol.graph.units import Units, units


@dataclass(frozen=True, slots=True)
class Growth:
    """A larger network, and how it comes from the smaller one.

    Args:
        name: of the edit: ``widen`` or ``deepen``.
        place: the layers that were widened, or the node that is new.
        topology: the larger network.
        nodes: child's node -> parent's node, for ``records.Transfer.nodes``.
        units: child's node -> the parent's unit that each of its units is a copy of, for ``records.Transfer.units``.
    """

    name: str
    place: tuple[str, ...]
    topology: Topology
    nodes: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def wideable(found: Units) -> Iterator[tuple[str, ...]]:
    """Yield the groups of layers that can be widened together: tied layers whose units all are free.

    Tied layers are aligned: as many units each, the n-th of one tied to the n-th of all others.
    """
    for group in found.groups:
        layers = tuple(n for n in group if n in found.operations and found.operations[n].kind in WIDTHS)
        aligned = all(np.array_equal(found.made[name], found.made[group[0]]) for name in group)
        if layers and aligned and all(found.free(name) for name in group):
            yield layers


def widen(
    topology: Topology,
    shape: Sequence[int],
    outputs: int,
    layers: Sequence[str],
    more: int,
    rng: np.random.Generator,
) -> Growth:
    """Repeat some units of a group of tied layers, each at most once more.

    Args:
        topology: to widen.
        shape: of one sample.
        outputs: of the network.
        layers: one of the groups of :func:`wideable`.
        more: units to add, in [1, as many as there are].
        rng: draws which are repeated.

    Raises:
        TopologyError: ``layers`` cannot be widened, ``more`` is out of its range, or the layers would become as wide as
            another that they are projected to.
    """
    found = units(topology, shape, outputs)
    if tuple(layers) not in set(wideable(found)):
        raise TopologyError(f"layers {tuple(layers)} cannot be widened together: take one of the groups of wideable")
    count = len(found.made[layers[0]])
    if not 1 <= more <= count:
        raise TopologyError(f"a layer of {count} units is widened by 1 to {count}, got {more}")
    copies = (*range(count), *sorted(map(int, rng.choice(count, more, replace=False))))
    child = resized(topology, shape, dict.fromkeys(layers, count + more))
    if _joints(units(child, shape, outputs)) != _joints(found):
        raise TopologyError(f"with {count + more} units, {layers[0]!r} would be joined otherwise: add fewer units")
    same = {path: path for path in flat(topology, shape)}
    return Growth("widen", tuple(layers), child, same, dict.fromkeys(layers, copies))


def _joints(found: Units) -> set[tuple[str, tuple[str, ...], bool]]:
    """Return what is projected, to where, and whether by weights (otherwise it is pooled alone)."""
    return {(source, targets, name in found.made) for name, (source, targets) in found.projections.items()}


def deepen(
    topology: Topology,
    shape: Sequence[int],
    operations: Sequence[Operation],
    rng: np.random.Generator,
) -> Growth:
    """Put one new layer on an edge as an identity, or on a branch beside an edge as a zero; at random.

    Args:
        topology: to deepen, cells included (a cell used several times is deepened at one of its places).
        shape: of one sample.
        operations: to choose from.
        rng: draws place and operation.

    Raises:
        TopologyError: no operation can start neutrally at any place.
    """
    places = list(deepenings(topology, operations))
    for drawn in rng.permutation(len(places)):
        made = neutral(topology, places[int(drawn)], shape)
        if made is not None:
            return made
    raise TopologyError(f"none of the operations can be an identity or a zero anywhere in {topology!r}: add others")


@dataclass(frozen=True, slots=True)
class Deepening:
    """Where a new node may stand: in the cell at ``path``, on edge number ``edge`` or ``beside`` it."""

    path: str
    edge: int
    beside: bool
    operation: Operation

    def target(self, topology: Topology) -> str:
        """Return the node that the edge enters, by its name in its cell."""
        inside = topology
        for name in _names(topology, self.path):
            found = inside.nodes[name]
            assert isinstance(found, Topology)
            inside = found
        return inside.edges[self.edge][1]


def deepenings(topology: Topology, operations: Sequence[Operation], path: str = "") -> Iterator[Deepening]:
    """Yield every place for a new node, in the network and in its cells; not all of them start neutrally."""
    live = normal(topology).nodes.keys() | normal(topology).contracted.keys()
    for number, (source, target) in enumerate(topology.edges):
        if source in live and target in live:
            for operation in operations:
                for beside in (False, True):
                    yield Deepening(path, number, beside, operation)
    for name, node in topology.nodes.items():
        if isinstance(node, Topology) and name in live:
            yield from deepenings(node, operations, f"{path}{name}/")


def neutral(topology: Topology, place: Deepening, shape: Sequence[int]) -> Growth | None:
    """Return the topology with a new node at a place, or ``None`` where it could not start without a change."""
    child, name = _inserted(topology, place, "")
    try:
        after, before = flat(child, shape), flat(topology, shape)
    except TopologyError:
        return None
    nodes = {path: path for path in before if path in after}
    if len(nodes) < len(before) or any(after[p].before != before[p].before for p in nodes):
        return None
    starting = starts(after, before, nodes)
    if starting.get(name, Start.FRESH) is Start.FRESH or len(after) != len(before) + 1:
        return None
    return Growth("deepen", (name,), child, nodes)


def _names(topology: Topology, path: str) -> list[str]:
    """Return the names of the cells that a path (``OUTER/INNER/``) leads through."""
    found: list[str] = []
    while path:
        name = next(n for n, node in topology.nodes.items() if isinstance(node, Topology) and path.startswith(f"{n}/"))
        inner = topology.nodes[name]
        assert isinstance(inner, Topology)
        found, topology, path = [*found, name], inner, path.removeprefix(f"{name}/")
    return found


def _inserted(topology: Topology, place: Deepening, path: str) -> tuple[Topology, str]:
    nodes: dict[str, Node] = dict(topology.nodes)
    if place.path != path:
        name = _names(topology, place.path.removeprefix(path))[0]
        inner = nodes[name]
        assert isinstance(inner, Topology)
        nodes[name], new = _inserted(inner, place, f"{path}{name}/")
        return Topology(nodes, topology.edges), new
    number = len(nodes)
    while f"g{number}" in nodes:
        number += 1
    new = f"g{number}"
    source, target = topology.edges[place.edge]
    edges = list(topology.edges)
    edges[place.edge : place.edge + 1 - place.beside] = [(new, target)]
    return Topology({**nodes, new: place.operation}, [*edges, (source, new)]), path + new
