"""A topology: a frozen directed acyclic graph of operations with one input and one output.

It *has* a graph (networkx), it is not one: nothing can change it, so it can be a key, be sent, and be stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from types import MappingProxyType

import networkx as nx

from detol.errors import TopologyError
from detol.graph.ops import Operation, op


class Topology:
    """A frozen directed acyclic graph; operations on nodes, tensors on edges, one ``input`` and one ``output`` node.

    A node's operation may itself be a topology: a *cell*, a motif stored once and used many times.
    Several edges into a node are merged as its kind says (summed, or concatenated in the order of ``edges``; an
    ``output`` and a cell sum); an edge given twice counts twice.

    Args:
        nodes: operation or cell by node name, in any order.
        edges: pairs (from, to) of node names. For nodes that concatenate, their order is the order of the parts.

    Raises:
        TopologyError: no or several inputs or outputs, an edge to an unknown node, a cycle, an edge into the input or
            out of the output.

    A node that lies on no path from input to output is allowed (normalisation drops it), so is a topology without any
    path (*dead*: its digest is defined, it cannot be built).
    """

    __slots__ = ("__dict__", "edges", "nodes")

    nodes: Mapping[str, "Operation | Topology"]
    edges: tuple[tuple[str, str], ...]

    def __init__(self, nodes: Mapping[str, "Operation | Topology"], edges: Iterable[Sequence[str]]) -> None:
        object.__setattr__(self, "nodes", MappingProxyType(dict(nodes)))
        object.__setattr__(self, "edges", tuple((source, target) for source, target in edges))
        self._check()

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a topology is frozen (caches live in ``__dict__`` and set themselves)."""
        raise AttributeError(f"a topology is frozen: cannot set {name}")

    def _check(self) -> None:
        for kind in ("input", "output"):
            found = [name for name, node in self.nodes.items() if isinstance(node, Operation) and node.kind == kind]
            if len(found) != 1:
                raise TopologyError(f"a topology has exactly one {kind} node, got {found or 'none'}")
        for source, target in self.edges:
            for end in (source, target):
                if end not in self.nodes:
                    raise TopologyError(f"edge {source!r} -> {target!r}: there is no node {end!r}")
            if target == self.input or source == self.output:
                raise TopologyError(f"edge {source!r} -> {target!r}: nothing enters the input or leaves the output")
        if len(self.order) < len(self.nodes):
            cycle = " -> ".join(str(edge[0]) for edge in nx.find_cycle(self.graph))
            raise TopologyError(f"a topology has no cycles, got {cycle}")

    @cached_property
    def input(self) -> str:
        """Name of the input node."""
        return self._only("input")

    @cached_property
    def output(self) -> str:
        """Name of the output node."""
        return self._only("output")

    def _only(self, kind: str) -> str:
        return next(n for n, node in self.nodes.items() if isinstance(node, Operation) and node.kind == kind)

    @cached_property
    def graph(self) -> "nx.MultiDiGraph":
        """The frozen networkx graph: node attribute ``op``; edge attribute ``slot``, its place among ``edges``."""
        graph = nx.MultiDiGraph()
        for name, node in self.nodes.items():
            graph.add_node(name, op=node)
        for slot, (source, target) in enumerate(self.edges):
            graph.add_edge(source, target, slot=slot)
        return nx.freeze(graph)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Node names in an order in which every edge points forwards; ties by the order of ``nodes``."""
        names = list(self.nodes)
        place = {name: number for number, name in enumerate(names)}
        missing = [0] * len(names)
        ahead: list[list[int]] = [[] for _ in names]
        for source, target in self.edges:
            missing[place[target]] += 1
            ahead[place[source]].append(place[target])
        ready = [number for number, count in enumerate(missing) if not count]  # sorted, so already a heap
        found: list[str] = []
        while ready:  # own code, for every topology that is made runs it
            number = heappop(ready)
            found.append(names[number])
            for after in ahead[number]:
                missing[after] -= 1
                if not missing[after]:
                    heappush(ready, after)
        return tuple(found)

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """For each node, the nodes its incoming edges come from, in the order of ``edges`` (repeats kept)."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, target in self.edges:
            found[target].append(source)
        return MappingProxyType({name: tuple(names) for name, names in found.items()})

    @cached_property
    def live(self) -> frozenset[str]:
        """Nodes on a path from input to output; empty when there is no such path."""
        ahead = nx.descendants(self.graph, self.input) | {self.input}
        behind = nx.ancestors(self.graph, self.output) | {self.output}
        found = ahead & behind
        return frozenset(found) if self.output in ahead else frozenset()

    def forget(self) -> None:
        """Drop what was computed of it (it is computed again when asked for): most of what a kept topology takes."""
        self.__dict__.clear()

    def __eq__(self, other: object) -> bool:
        """Return whether names, operations and edges are the same. For equality of networks compare digests."""
        if not isinstance(other, Topology):
            return NotImplemented
        return dict(self.nodes) == dict(other.nodes) and self.edges == other.edges

    def __hash__(self) -> int:
        """Hash what ``__eq__`` compares; cached, for cells are hashed with every topology that holds them."""
        cached: int | None = self.__dict__.get("_hash")
        if cached is None:
            cached = self.__dict__["_hash"] = hash((frozenset(self.nodes.items()), self.edges))
        return cached

    def __repr__(self) -> str:
        """Return e.g. ``Topology(7 nodes, 9 edges)``."""
        return f"Topology({len(self.nodes)} nodes, {len(self.edges)} edges)"

    def _repr_svg_(self) -> str:
        """Return its drawing: a notebook shows it in place of the line above."""
        from detol.graph.draw import svg

        return svg(self)

    def __reduce__(
        self,
    ) -> tuple[type["Topology"], tuple[dict[str, "Operation | Topology"], tuple[tuple[str, str], ...]]]:
        """Pickle by constructor, so that caches do not travel."""
        return Topology, (dict(self.nodes), self.edges)


def chain(*layers: "Operation | Topology") -> Topology:
    """Return the topology input -> layers[0] -> layers[1] ... -> output; the nodes are called 1, 2, ..."""
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    nodes.update({str(number): layer for number, layer in enumerate(layers, start=1)})
    nodes["output"] = op("output")
    names = list(nodes)
    return Topology(nodes, list(pairwise(names)))
