"""The normal form of a topology in numbers: what features and sizes of thousands of topologies are read from.

It agrees with :func:`detol.graph.edit.normal` (a test compares them), makes no topology, and takes a tenth of the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from detol.graph.edit import plain
from detol.graph.ops import KINDS, Merge, Operation
from detol.graph.topology import Topology

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""(source, multiplicity) of what enters a node."""


@dataclass(frozen=True, slots=True)
class Light:
    """Live nodes in topological order: the input first, the output last.

    Args:
        labels: of the nodes, see :func:`name_of`.
        nodes: operations in their plain form; a cell as its own light form.
        terms: what enters each node; of a node that concatenates in the order of its parts.
    """

    labels: tuple[str, ...]
    nodes: "tuple[Operation | Light, ...]"
    terms: tuple[Terms, ...]


_ADD = Operation("add")


@lru_cache(maxsize=4096)
def name_of(operation: Operation) -> str:
    """Return a short label: an operation with what is not default; of a symbol its text, or its name and number."""
    if operation.kind == "symbol":
        value = operation["value"]
        # A number says little without its name; the names of layers would keep equal layers apart.
        return f"{operation['name']}={value}" if isinstance(value, int | float) else str(value)
    return str(operation)


_plain = lru_cache(maxsize=4096)(plain)


def light(topology: Topology) -> Light | None:
    """Return the light form, or ``None`` of a dead topology; kept with the topology."""
    if "_light" not in topology.__dict__:
        topology.__dict__["_light"] = _light(topology)
    found: Light | None = topology.__dict__["_light"]
    return found


def _light(topology: Topology) -> Light | None:
    nodes: list[Operation | Light] = []
    terms: list[Terms] = []
    value: dict[str, Terms] = {}  # what an edge from a live node carries

    def keep(node: Operation | Light, entering: Terms) -> Terms:
        nodes.append(node)
        terms.append(entering)
        return ((len(nodes) - 1, 1),)

    for name in topology.order:
        node = topology.nodes[name]
        parts = [value[source] for source in topology.sources[name] if source in value]
        work = light(node) if isinstance(node, Topology) else _plain(node)
        if name == topology.input:
            value[name] = keep(_plain(node), ()) if isinstance(node, Operation) else ()
        elif not parts or work is None or (isinstance(work, Operation) and work.kind == "zero"):
            continue
        elif isinstance(work, Operation) and KINDS[work.kind].merge is Merge.CONCAT and len(parts) > 1:
            sums: dict[Terms, Terms] = {}
            entering: Terms = ()
            for part in parts:
                if part not in sums:
                    sums[part] = part if part[0][1] == len(part) == 1 else keep(_ADD, part)
                entering += sums[part]
            value[name] = keep(work, entering)
        else:
            total = parts[0] if len(parts) == 1 else _sum(parts)
            value[name] = total if _passes(work) else keep(work, total)
    return None if topology.output not in value else _pruned(nodes, terms)


def _sum(parts: Sequence[Terms]) -> Terms:
    total: dict[int, int] = {}
    for part in parts:
        for source, times in part:
            total[source] = total.get(source, 0) + times
    return tuple(sorted(total.items()))


def _passes(work: Operation | Light) -> bool:
    if isinstance(work, Light):
        return len(work.nodes) == 2 and work.terms[1] == ((0, 1),)
    return work.kind in ("identity", "add") or KINDS[work.kind].merge is Merge.CONCAT


def _pruned(nodes: list[Operation | Light], terms: list[Terms]) -> Light:
    last = next(n for n, node in enumerate(nodes) if isinstance(node, Operation) and node.kind == "output")
    needed = {last}
    for place in range(len(nodes) - 1, -1, -1):
        if place in needed:
            needed.update([source for source, _ in terms[place]])
    order = [*sorted(needed - {last}), last]
    if order != list(range(len(nodes))):
        number = {place: at for at, place in enumerate(order)}
        terms = [tuple([(number[source], times) for source, times in terms[place]]) for place in order]
        nodes = [nodes[place] for place in order]
    labels = tuple(["cell" if isinstance(node, Light) else name_of(node) for node in nodes])
    return Light(labels, tuple(nodes), tuple(terms))
