"""Normalisation: the one form that all ways of writing the same network share.

Two topologies are the same network when their normal forms are isomorphic; ``digest`` names that class, ``build``,
``shapes`` and ``cost`` work on the normal form, so equal digests mean equal networks, shapes and costs.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from detol.errors import TopologyError
from detol.graph.ops import KINDS, Merge, Operation, op
from detol.graph.topology import Topology

Node: TypeAlias = Operation | Topology
Terms: TypeAlias = Mapping[str, int]

MOST_EDGES = 65_536
"""Sums may flatten to at most this many edges: nested ``x + x`` doubles them each time."""


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal form of a topology.

    Args:
        nodes: operation, or normalised cell, by name; in the order of the original's nodes.
        terms: what enters each node. Of a node that sums: (source, multiplicity), each source once, in the order of
            ``nodes``. Of a node that concatenates: (source, 1) in the order of its parts, sources may repeat.
        contracted: for each live node of the original that is not among ``nodes``, what stands for it: the sum of
            these nodes, with multiplicities.
    """

    nodes: Mapping[str, Node]
    terms: Mapping[str, tuple[tuple[str, int], ...]]
    contracted: Mapping[str, Terms]

    @property
    def dead(self) -> bool:
        """Whether no path leads from the input to the output."""
        return len(self.nodes) == 2 and not any(self.terms.values())


def concatenates(node: Node) -> bool:
    """Return whether a node concatenates its incoming edges (cells and all other kinds sum them)."""
    return isinstance(node, Operation) and KINDS[node.kind].merge is Merge.CONCAT


def label(operation: Operation) -> str:
    """Return the operation as text for the digest: its kind and all meta-parameters as JSON, sorted by name."""
    return f"{operation.kind}{json.dumps(dict(operation.parameters), sort_keys=True)}"


def plain(operation: Operation) -> Operation:
    """Return the one operation that stands for all that compute the same function.

    What has no effect is ``identity``; a kernel of one has no dilation, pooling over one value has no mode, and an
    activation that does nothing comes neither before nor after.
    """
    values = dict(operation.parameters)
    kind = operation.kind
    if (
        (kind == "pool" and values["kernel"] == 1 and values["stride"] == 1)
        or (kind == "dropout" and values["rate"] == 0)
        or (kind == "activation" and values["fn"] == "none")
    ):
        return op("identity")
    if kind == "pool" and values["kernel"] == 1:
        values["mode"] = "avg"
    if kind in ("conv", "sepconv"):
        if values["kernel"] == 1:
            values["dilation"] = 1
        if values["activation"] == "none":
            values["order"] = "post"
    return operation if values == dict(operation.parameters) else Operation(kind, tuple(sorted(values.items())))


def normalise(topology: Topology) -> Topology:
    """Return the normal form as a topology; cached, idempotent, names of the nodes that stay are kept.

    - What lies on no path from input to output is dropped, so is every ``zero``; a dead topology keeps its input and
      its output alone.
    - ``identity`` and ``add`` are contracted: each node but a ``concat`` sums its incoming edges, so an edge from such
      a node becomes edges from all that enter it, multiplicities multiplying. A ``concat`` of one part is an identity.
      Where a part of a ``concat`` is a sum of several, an ``add`` stays, one for each different sum.
    - Cells are normalised inside. A dead cell is a ``zero``, a cell that is one edge is an ``identity``.
    - Operations that compute the same function are written in the same way (see :func:`plain`).
    - Two operations stay two, also when equal, with equal inputs, and without weights: merging equal pools as well
      would make 5,260 classes of the 15,625 cells of NAS-Bench-201 (arXiv 2001.00326), not their 5,425.

    Raises:
        TopologyError: sums flatten to more than ``MOST_EDGES`` edges.
    """
    cached = topology.__dict__.get("_normalised")
    if cached is None:
        form = normal(topology)
        cached = Topology(form.nodes, list(_edges(form)))
        own = Normal(form.nodes, form.terms, {})
        cached.__dict__.update(_normal=own, _normalised=cached)
        topology.__dict__["_normalised"] = cached
    return cast("Topology", cached)


def is_dead(topology: Topology) -> bool:
    """Return whether no path leads from input to output once all ``zero`` operations are gone."""
    return normal(topology).dead


def normal(topology: Topology) -> Normal:
    """Return the normal form with what was contracted; cached. Errors as :func:`normalise`."""
    cached = topology.__dict__.get("_normal")
    if cached is None:
        cached = topology.__dict__["_normal"] = _normal(topology)
    return cast("Normal", cached)


def _normal(topology: Topology) -> Normal:
    nodes = {name: _simplest(node) for name, node in topology.nodes.items()}
    live = _live(topology, nodes)
    stands: dict[str, Terms] = {}  # for each live node: the sum of kept nodes that an edge from it carries
    inputs: dict[str, list[tuple[str, int]]] = {}
    adds: dict[frozenset[tuple[str, int]], str] = {}  # one ``add`` for each different sum that enters a concat
    for name in topology.order:
        if name not in live:
            continue
        sources = [source for source in topology.sources[name] if source in live]
        node = nodes[name]
        if _contracts(node, len(sources)):
            stands[name] = _sum(stands[source] for source in sources)
            continue
        if concatenates(node):
            inputs[name] = [(_part(source, stands[source], inputs, adds), 1) for source in sources]
        else:
            inputs[name] = list(_sum(stands[source] for source in sources).items())
        stands[name] = {name: 1}
    inputs.setdefault(topology.input, [])
    inputs.setdefault(topology.output, [])
    parts = set(adds.values())
    kept = {name: op("add") if name in parts else node for name, node in nodes.items() if name in inputs}
    place = {name: number for number, name in enumerate(kept)}
    terms = {
        name: tuple(inputs[name] if concatenates(node) else sorted(inputs[name], key=lambda term: place[term[0]]))
        for name, node in kept.items()
    }
    if sum(times for entering in terms.values() for _, times in entering) > MOST_EDGES:
        raise TopologyError(f"sums flatten to more than {MOST_EDGES:,} edges: nest fewer sums of a tensor with itself")
    return Normal(kept, terms, {name: sums for name, sums in stands.items() if name not in kept})


def _simplest(node: Node) -> Node:
    """Return the plain operation, or the normalised cell, or what a trivial cell amounts to."""
    if isinstance(node, Operation):
        return plain(node)
    inner = normal(node)
    if inner.dead:
        return op("zero")
    if len(inner.nodes) == 2 and inner.terms[node.output] == ((node.input, 1),):
        return op("identity")
    return normalise(node)


def _live(topology: Topology, nodes: Mapping[str, Node]) -> set[str]:
    """Return the nodes on a path from input to output that passes no zero; empty when there is none."""
    zeros = {name for name, node in nodes.items() if isinstance(node, Operation) and node.kind == "zero"}
    ahead: set[str] = {topology.input}
    for name in topology.order:
        if name not in zeros and any(source in ahead for source in topology.sources[name]):
            ahead.add(name)
    live: set[str] = set()
    waiting = [topology.output] if topology.output in ahead else []
    while waiting:
        name = waiting.pop()
        if name not in live:
            live.add(name)
            waiting.extend(source for source in topology.sources[name] if source in ahead)
    return live


def _contracts(node: Node, parts: int) -> bool:
    """Return whether a node only passes on the sum of what enters it (``parts``: how many edges do)."""
    return isinstance(node, Operation) and (
        node.kind in ("identity", "add") or (KINDS[node.kind].merge is Merge.CONCAT and parts == 1)
    )


def _sum(sums: Iterable[Terms]) -> Terms:
    total: Counter[str] = Counter()
    for terms in sums:
        total.update(terms)
    return total


def _part(
    source: str,
    terms: Terms,
    inputs: dict[str, list[tuple[str, int]]],
    adds: dict[frozenset[tuple[str, int]], str],
) -> str:
    """Return the node that is one part of a concat: the source's only term, or an ``add`` that holds its sum."""
    if sum(terms.values()) == 1:
        return next(iter(terms))
    name = adds.setdefault(frozenset(terms.items()), source)
    inputs[name] = list(terms.items())
    return name


def _edges(form: Normal) -> Iterator[tuple[str, str]]:
    for name, terms in form.terms.items():
        for source, times in terms:
            for _ in range(times):
                yield source, name
