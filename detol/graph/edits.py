"""Edits of the graph itself, for evolution over topologies: insert, remove, rewire, swap, connect, disconnect.

Each is a pure function of a topology and a random generator. It tries its possible edits in random order and returns
the first whose result is another network (another digest), not dead, and accepted. Nodes that an edit leaves on no
path from input to output are dropped, all others keep their names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from detol.errors import TopologyError
from detol.graph.digest import digest
from detol.graph.edit import Node, concatenates, is_dead
from detol.graph.ops import Operation
from detol.graph.topology import Topology

Accept: TypeAlias = Callable[[Topology], bool]
"""A rule of the caller's for results, e.g. that shapes fit or that a limit on parameters holds."""
Change: TypeAlias = tuple[dict[str, Node], list[tuple[str, str]]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit made.

    Args:
        name: of the edit, e.g. ``insert``.
        topology: the result.
        kept: old name -> new name of every node whose operation (or cell) is the same in both; what weights pass by.
        touched: nodes of the result that are new, have another operation, or other incoming edges than before.
    """

    name: str
    topology: Topology
    kept: Mapping[str, str]
    touched: frozenset[str]


def _any(topology: Topology) -> bool:  # noqa: ARG001  all are accepted
    return True


def insert(topology: Topology, rng: np.random.Generator, operations: Sequence[Node], *, accept: Accept = _any) -> Edit:
    """Put a new node with one of the operations on an edge, or on a new branch beside an edge.

    Raises:
        TopologyError: no such edit gives another network that is accepted.
    """

    def changes() -> Iterator[Change]:
        name = _fresh(topology)
        places = [(place, beside) for place in range(len(topology.edges)) for beside in (False, True)]
        for place, beside in _shuffle(places, rng):
            source, target = topology.edges[place]
            for node in _shuffle(operations, rng):
                edges = list(topology.edges)
                edges[place : place + 1 - beside] = [(name, target)]
                yield {**topology.nodes, name: node}, [*edges, (source, name)]

    return _first("insert", topology, changes(), accept)


def remove(topology: Topology, rng: np.random.Generator, *, accept: Accept = _any) -> Edit:
    """Take one node out and join what entered it to what it entered (no edge is doubled by that).

    Raises:
        TopologyError: no such edit gives another network that is accepted.
    """

    def changes() -> Iterator[Change]:
        for name in _shuffle(_inner(topology), rng):
            nodes = {other: node for other, node in topology.nodes.items() if other != name}
            yield nodes, _bypass(topology, name, rng)

    return _first("remove", topology, changes(), accept)


def rewire(topology: Topology, rng: np.random.Generator, *, accept: Accept = _any) -> Edit:
    """Let one edge come from another node (no cycle, no edge doubled); a part of a concat keeps its place.

    Raises:
        TopologyError: no such edit gives another network that is accepted.
    """

    def changes() -> Iterator[Change]:
        moves = [
            (place, source) for place, (_, target) in enumerate(topology.edges) for source in _allowed(topology, target)
        ]
        for place, source in _shuffle(moves, rng):
            edges = list(topology.edges)
            edges[place] = (source, edges[place][1])
            yield dict(topology.nodes), edges

    return _first("rewire", topology, changes(), accept)


def swap(topology: Topology, rng: np.random.Generator, operations: Sequence[Node], *, accept: Accept = _any) -> Edit:
    """Give one node another of the operations.

    Raises:
        TopologyError: no such edit gives another network that is accepted.
    """

    def changes() -> Iterator[Change]:
        for name in _shuffle(_inner(topology), rng):
            for node in _shuffle(operations, rng):
                if node != topology.nodes[name]:
                    yield {**topology.nodes, name: node}, list(topology.edges)

    return _first("swap", topology, changes(), accept)


def connect(topology: Topology, rng: np.random.Generator, *, accept: Accept = _any) -> Edit:
    """Add an edge between two nodes that have none (no cycle); into a concat as its last part.

    Raises:
        TopologyError: no such edit gives another network that is accepted.
    """

    def changes() -> Iterator[Change]:
        pairs = [
            (source, target)
            for target in topology.nodes
            if target != topology.input
            for source in _allowed(topology, target)
        ]
        for edge in _shuffle(pairs, rng):
            yield dict(topology.nodes), [*topology.edges, edge]

    return _first("connect", topology, changes(), accept)


def disconnect(topology: Topology, rng: np.random.Generator, *, accept: Accept = _any) -> Edit:
    """Take one edge away.

    Raises:
        TopologyError: no such edit gives another network that is accepted.
    """

    def changes() -> Iterator[Change]:
        for place in _shuffle(range(len(topology.edges)), rng):
            yield dict(topology.nodes), [*topology.edges[:place], *topology.edges[place + 1 :]]

    return _first("disconnect", topology, changes(), accept)


def _first(name: str, topology: Topology, changes: Iterator[Change], accept: Accept) -> Edit:
    before = digest(topology)
    for nodes, edges in changes:
        rough = Topology(nodes, edges)
        result = Topology(
            {
                other: node
                for other, node in nodes.items()
                if other in rough.live or other in (rough.input, rough.output)
            },
            [(source, target) for source, target in edges if source in rough.live and target in rough.live],
        )
        if is_dead(result) or digest(result) == before or not accept(result):
            continue
        kept = {other: other for other, node in topology.nodes.items() if result.nodes.get(other) == node}
        same = {other for other in kept if sorted(result.sources[other]) == sorted(topology.sources[other])}
        return Edit(name, result, kept, frozenset(result.nodes.keys() - same))
    raise TopologyError(f"{name} finds nothing to change in {topology!r}: try another edit")


def _inner(topology: Topology) -> list[str]:
    return [name for name in topology.nodes if name not in (topology.input, topology.output)]


def _allowed(topology: Topology, target: str) -> list[str]:
    """Return the nodes that may get an edge to ``target``: not after it, and without one yet."""
    after = {target, topology.output}
    for name in topology.order:
        if any(source in after for source in topology.sources[name]):
            after.add(name)
    taken = set(topology.sources[target])
    return [name for name in topology.nodes if name not in after and name not in taken]


def _bypass(topology: Topology, name: str, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return the edges without a node: those out of it come from what entered it, into a concat from one of those."""
    sources = list(dict.fromkeys(topology.sources[name]))
    edges: list[tuple[str, str]] = []
    for source, target in topology.edges:
        if target == name:
            continue
        if source != name:
            edges.append((source, target))
        elif concatenates(topology.nodes[target]):
            edges += [(str(one), target) for one in _shuffle(sources, rng)[:1]]
        else:
            taken = {*topology.sources[target], *(a for a, b in edges if b == target)}
            edges += [(one, target) for one in sources if one not in taken]
    return edges


def _fresh(topology: Topology) -> str:
    number = len(topology.nodes)
    while f"n{number}" in topology.nodes:
        number += 1
    return f"n{number}"


def _shuffle(things: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [things[int(place)] for place in rng.permutation(len(things))]


def describe(edit: Edit) -> str:
    """Return the edit in one line, e.g. ``insert n4: pool``."""
    touched = [
        f"{name}: {node if isinstance(node, Operation) else 'cell'}"
        for name, node in edit.topology.nodes.items()
        if name in edit.touched and edit.kept.get(name) != name
    ]
    return f"{edit.name} {', '.join(touched)}".strip()
