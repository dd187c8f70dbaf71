"""The identity of a network: a versioned digest of the canonical form, and an exact check that does not use it.

networkx's Weisfeiler-Lehman hash changed between releases and takes two 6-cycles for a 12-cycle, so it is no key. Here
a digest is the SHA-256 of the whole canonical form: up to collisions of SHA-256, equal digests are equal networks.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

import networkx as nx

from detol.graph.canon import Graph
from detol.graph.edit import Node, Normal, concatenates, label, normal
from detol.graph.ops import Operation
from detol.graph.topology import Topology

VERSION = "d1"
"""Changes whenever the same network would get another digest."""


def digest(topology: Topology) -> str:
    """Return the identity of the network: ``d1:`` and 40 hexadecimal digits; cached.

    Equal for two topologies exactly when their normal forms (see ``edit.normalise``) are isomorphic: names and the
    order of nodes do not count; operations, multiplicities and the order of the parts of a ``concat`` do.

    Raises:
        TopologyError: as ``normalise``.
    """
    return _canonical(topology)[0]


def canonical_order(topology: Topology) -> tuple[str, ...]:
    """Return the nodes of the normal form in an order that names do not affect, every edge pointing forwards; cached.

    For topologies of equal digest, mapping one order to the other is an isomorphism.
    """
    return _canonical(topology)[1]


def same(a: Topology, b: Topology) -> bool:
    """Return whether two topologies are the same network, by an exact isomorphism check (independent of the digest)."""
    return matching(a, b) is not None


def matching(a: Topology, b: Topology) -> Mapping[str, str] | None:
    """Return an isomorphism of the normal forms (node of ``a`` -> node of ``b``), or None when there is none."""
    if _identical(normal(a), normal(b)):
        return {name: name for name in normal(a).nodes}
    one, other = _networkx(normal(a)), _networkx(normal(b))
    if _census(one) != _census(other):
        return None
    matcher = nx.isomorphism.DiGraphMatcher(one, other, node_match=_equal_nodes, edge_match=_equal_edges)
    return cast("dict[str, str]", matcher.mapping) if matcher.is_isomorphic() else None


def _canonical(topology: Topology) -> tuple[str, tuple[str, ...]]:
    cached = topology.__dict__.get("_canonical")
    if cached is None:
        cached = topology.__dict__["_canonical"] = _compute(normal(topology))
    return cast("tuple[str, tuple[str, ...]]", cached)


def _compute(form: Normal) -> tuple[str, tuple[str, ...]]:
    names = list(form.nodes)
    place = {name: number for number, name in enumerate(names)}
    depths = _depths(form)
    labels = [_label(node) for node in form.nodes.values()]
    looks = [(depths[name], text) for name, text in zip(names, labels, strict=True)]
    ranks = {look: rank for rank, look in enumerate(sorted(set(looks)))}
    roles = {(source, name): role for name in names for source, role in _roles(form, name).items()}
    kinds = {role: rank for rank, role in enumerate(sorted(set(roles.values())))}
    graph = Graph(
        [ranks[look] for look in looks],
        [(place[source], place[target], kinds[role]) for (source, target), role in roles.items()],
    )
    order = sorted(graph.canonical(), key=lambda v: depths[names[v]])  # stable: now every edge points forwards
    written = [[labels[v] for v in order], sorted(kinds, key=kinds.__getitem__), list(graph.edges(order))]
    text = json.dumps(written, separators=(",", ":"))
    return f"{VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:40]}", tuple(names[v] for v in order)


def _label(node: Node) -> str:
    return label(node) if isinstance(node, Operation) else digest(node)


def _depths(form: Normal) -> dict[str, int]:
    """Return the length of the longest path from a node without inputs to each node."""
    depths: dict[str, int] = {}
    waiting = list(form.nodes)
    while waiting:
        name = waiting[-1]
        missing = [source for source, _ in form.terms[name] if source not in depths]
        if missing:
            waiting += missing
            continue
        depths[name] = 1 + max((depths[source] for source, _ in form.terms[name]), default=-1)
        waiting.pop()
    return depths


def _roles(form: Normal, name: str) -> dict[str, tuple[int, ...]]:
    """Return what each source is to a node: its multiplicity in a sum, or its places in a concat."""
    if not concatenates(form.nodes[name]):
        return {source: (0, times) for source, times in form.terms[name]}
    places: dict[str, tuple[int, ...]] = {}
    for slot, (source, _) in enumerate(form.terms[name]):
        places[source] = (*places.get(source, (1,)), slot)
    return places


def _identical(one: Normal, other: Normal) -> bool:
    """Return whether two normal forms have the same names, operations and edges (``==`` takes 1 for True)."""
    if one is other:
        return True
    return one.nodes.keys() == other.nodes.keys() and all(
        one.terms[name] == other.terms[name] and _text(node) == _text(other.nodes[name])
        for name, node in one.nodes.items()
    )


def _text(node: Node) -> object:
    return label(node) if isinstance(node, Operation) else id(node)


def _networkx(form: Normal) -> "nx.DiGraph":
    """Return the normal form for networkx: node attributes ``node``, ``look``; edge attribute ``role``."""
    graph = nx.DiGraph()
    depths = _depths(form)
    for name, node in form.nodes.items():
        text = label(node) if isinstance(node, Operation) else f"cell of {len(node.nodes)} nodes"
        graph.add_node(name, node=node, look=(depths[name], text))
    for name in form.nodes:
        for source, role in _roles(form, name).items():
            graph.add_edge(source, name, role=role)
    return graph


def _census(graph: "nx.DiGraph") -> list[Any]:
    """Return counts that any two isomorphic graphs share."""
    return sorted(
        (data["look"], sorted(d["role"] for *_, d in graph.in_edges(name, data=True)), graph.out_degree(name))
        for name, data in graph.nodes(data=True)
    )


def _equal_nodes(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one["look"] != other["look"]:
        return False
    a, b = one["node"], other["node"]
    return isinstance(a, Operation) or isinstance(b, Operation) or a is b or same(a, b)


def _equal_edges(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["role"] == other["role"])
