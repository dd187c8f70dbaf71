"""What an autoencoder reads and writes: a topology taken apart into graphs of operations, and put together again.

A topology with cells is several graphs: the outer one, in which a symbol stands for each different cell, and one for
each cell. So a cell that is used fifteen times is read once, and written once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from detol.embedding.light import Terms
from detol.errors import TopologyError
from detol.graph.digest import canonical_order, digest
from detol.graph.edit import concatenates, normal
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology

MOST_TIMES = 5
"""Multiplicities of an edge that can be written: 0 ... ``MOST_TIMES`` - 1."""
CELL = "cell"


@dataclass(frozen=True, slots=True)
class Graph:
    """The normal form of one level in the canonical order: equal networks have equal graphs.

    Args:
        nodes: operations, the input first and the output last; a cell is a ``symbol`` named ``cell``, by its number.
        terms: (source, multiplicity) of what enters each node; of a ``concat`` in the order of its parts.
    """

    nodes: tuple[Operation, ...]
    terms: tuple[Terms, ...]

    def __len__(self) -> int:
        """Return how many nodes it has."""
        return len(self.nodes)


def graph_of(topology: Topology) -> Graph:
    """Return a topology without cells as a graph.

    Raises:
        TopologyError: it has cells.
    """
    form = normal(topology)
    names = [name for name in canonical_order(topology) if name != topology.output]
    place = {name: number for number, name in enumerate([*names, topology.output])}
    nodes, terms = [], []
    for name in place:
        node = form.nodes[name]
        if not isinstance(node, Operation):
            raise TopologyError(f"node {name!r} is a cell: take the topology apart first")
        nodes.append(node)
        entering = tuple((place[source], times) for source, times in form.terms[name])
        terms.append(entering if concatenates(node) else tuple(sorted(entering)))
    return Graph(tuple(nodes), tuple(terms))


def topology_of(graph: Graph, cells: Sequence[Topology] = ()) -> Topology:
    """Return the topology that a graph describes; its symbols for cells are replaced by ``cells``.

    Raises:
        TopologyError: it is no topology (no output, several inputs ...), or names a cell that is not there.
    """
    nodes: dict[str, Operation | Topology] = {}
    for number, node in enumerate(graph.nodes):
        nodes[f"n{number}"] = _restored(node, cells)
    edges = [
        (f"n{source}", f"n{target}")
        for target, entering in enumerate(graph.terms)
        for source, times in entering
        for _ in range(times)
    ]
    return Topology(nodes, edges)


def _restored(node: Operation, cells: Sequence[Topology]) -> "Operation | Topology":
    number = cell_number(node)
    if number is None:
        return node
    if not 0 <= number < len(cells):
        raise TopologyError(f"a graph names cell {number}, there are {len(cells)}")
    return cells[number]


def take_apart(topology: Topology) -> tuple[Graph, ...]:
    """Return the outer graph, then that of each different cell in the order of their first use; cells hold no cells.

    Cells that change nothing, or join nothing, count as well, though the normal form has them not: so all networks of
    a space of cells are taken apart alike.

    Raises:
        TopologyError: a cell holds cells.
    """
    found = {name: digest(node) for name, node in topology.nodes.items() if isinstance(node, Topology)}
    cells = {found[name]: node for name, node in topology.nodes.items() if isinstance(node, Topology)}
    ranks = {key: rank for rank, key in enumerate(sorted(cells))}
    numbers = {name: ranks[key] for name, key in found.items()}
    order, outer = _outer(_numbered(topology, numbers))
    keys = sorted(cells)
    return (outer, *(graph_of(cells[keys[rank]]) for rank in order))


@lru_cache(maxsize=1024)
def _outer(ranked: Topology) -> tuple[tuple[int, ...], Graph]:
    """Return the ranks of the cells in the order of their first use, and the outer graph with cells by that order.

    Cells are opaque here, so that those which the normal form would drop are kept, each in its place. Networks of a
    space of cells share few outer graphs: they are remembered.
    """
    numbers = {name: rank for name, node in ranked.nodes.items() if (rank := cell_number(node)) is not None}
    used = [numbers[name] for name in canonical_order(ranked) if name in numbers]
    order = tuple(dict.fromkeys([*used, *sorted(numbers.values())]))
    slots = {rank: slot for slot, rank in enumerate(order)}
    return order, graph_of(_numbered(ranked, {name: slots[rank] for name, rank in numbers.items()}))


def cell_number(node: "Operation | Topology") -> int | None:
    """Return which cell a symbol stands for; ``None`` of any other node."""
    if not isinstance(node, Operation) or node.kind != "symbol" or node["name"] != CELL:
        return None
    value = node["value"]
    return value if isinstance(value, int) else None


def _numbered(topology: Topology, numbers: Mapping[str, int]) -> Topology:
    """Return a topology in which symbols stand for cells."""
    nodes: dict[str, Operation | Topology] = {}
    for name, node in topology.nodes.items():
        nodes[name] = op("symbol", name=CELL, value=numbers[name]) if name in numbers else node
    return Topology(nodes, topology.edges)


def put_together(graphs: Sequence[Graph]) -> Topology:
    """Return the topology of an outer graph and its cells: the inverse of :func:`take_apart`, up to names.

    Raises:
        TopologyError: as :func:`topology_of`.
    """
    return topology_of(graphs[0], [topology_of(graph) for graph in graphs[1:]])
