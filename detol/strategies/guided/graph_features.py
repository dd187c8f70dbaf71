"""Features of a topology that a kernel compares: what is on its live paths, and how it is wired.

All features are read from the normal form (dead parts and zeros dropped, identities and sums contracted), so they are
the same for every way of writing a network. Path encodings after White et al. 2020 (arXiv 2007.04965), subtree
patterns after Shervashidze et al. 2011 (Weisfeiler-Lehman) as Ru et al. 2021 (arXiv 2006.07556) use them for search.
"""

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from detol.graph.edit import normal
from detol.graph.ops import Operation
from detol.graph.topology import Topology

MOST_PATHS = 128
"""Whole paths are features while a graph has at most so many different ones; pieces of paths always are."""
SUBTREES = 2
"""Rounds of subtree patterns: what a node sees up to so many steps behind it."""


@dataclass(frozen=True, slots=True)
class GraphFeatures:
    """What is known of a topology's graph.

    Args:
        counts: how often each pattern occurs, by name (``op:...``, ``path:...``, ``pair:...``, ``tree:...``).
        scalars: few summary figures by name; all finite.
    """

    counts: Mapping[str, float]
    scalars: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Graph:
    """Nodes in topological order, the first is the input, the last the output; what enters each, with multiplicity."""

    labels: tuple[str, ...]
    nodes: tuple[Operation | Topology, ...]
    terms: tuple[tuple[tuple[int, int], ...], ...]


def graph_features(topology: Topology) -> GraphFeatures:
    """Return the features of a topology; of its cells as well, each different cell counted once."""
    counts: Counter[str] = Counter()
    scalars: Counter[str] = Counter()
    pending: list[tuple[Topology, str]] = [(topology, "")]
    seen: set[int] = set()
    cells = 0
    while pending:
        graph, role = pending.pop(0)
        light = _light(graph)
        if light is None:
            scalars["dead"] += 1
            continue
        _patterns(light, role, counts)
        _figures(light, role, scalars)
        for node in light.nodes:
            if isinstance(node, Topology) and id(node) not in seen:
                seen.add(id(node))
                cells += 1
                pending.append((node, "cell/"))
    if cells:
        scalars["cells"] = cells
    return GraphFeatures(counts, {name: float(value) for name, value in scalars.items()})


def name_of(node: Operation | Topology) -> str:
    """Return a short label: an operation with what differs from its defaults, a symbol's value, or ``cell``."""
    if isinstance(node, Topology):
        return "cell"
    if node.kind == "symbol":
        value = node["value"]
        # A number says little without its name; names of layers would keep equal layers apart.
        return f"{node['name']}={value}" if isinstance(value, int | float) else str(value)
    return str(node)


def _light(topology: Topology) -> _Graph | None:
    form = normal(topology)
    if form.dead:
        return None
    place: dict[str, int] = {}
    order: list[str] = []
    waiting = {name: len(terms) for name, terms in form.terms.items()}
    after: dict[str, list[str]] = {name: [] for name in form.nodes}
    for name, terms in form.terms.items():
        for source, _ in terms:
            after[source].append(name)
    ready = [name for name, missing in waiting.items() if not missing]
    while ready:
        name = ready.pop()
        place[name] = len(order)
        order.append(name)
        for target in after[name]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    # The output has no successors, so it can stand last without harm.
    output = next(n for n in order if isinstance(node := form.nodes[n], Operation) and node.kind == "output")
    order.remove(output)
    order.append(output)
    place = {name: number for number, name in enumerate(order)}
    nodes = tuple(form.nodes[name] for name in order)
    terms = tuple(tuple((place[source], times) for source, times in form.terms[name]) for name in order)
    return _Graph(tuple(map(name_of, nodes)), nodes, terms)


def _patterns(graph: _Graph, role: str, counts: Counter[str]) -> None:
    labels, last = graph.labels, len(graph.labels) - 1
    for label in labels[1:last]:
        counts[f"{role}op:{label}"] += 1
    for node, terms in enumerate(graph.terms):
        for source, times in terms:
            counts[f"{role}pair:{labels[source]}>{labels[node]}"] += times
    for path, times in _paths(graph).items():
        counts[f"{role}path:{path}"] += times
    codes = [zlib.crc32(label.encode()) for label in labels]
    for step in range(1, SUBTREES + 1):
        codes = [
            _subtree(codes[node], [(codes[s], times) for s, times in graph.terms[node]]) for node in range(last + 1)
        ]
        for node in range(1, last + 1):
            counts[f"{role}tree{step}:{codes[node]}"] += 1


def _subtree(own: int, below: Sequence[tuple[int, int]]) -> int:
    return zlib.crc32(repr((own, sorted(below))).encode())


def _paths(graph: _Graph) -> Mapping[str, int]:
    """Return how many paths from input to output read each sequence of labels; nothing when there are too many."""
    reading: list[dict[str, int]] = [{"": 1}]
    last = len(graph.labels) - 1
    for node in range(1, last + 1):
        found: Counter[str] = Counter()
        for source, times in graph.terms[node]:
            for path, number in reading[source].items():
                found[f"{path}>{graph.labels[node]}" if node < last else path] += number * times
        if len(found) > MOST_PATHS:
            return {}
        reading.append(found)
    return reading[last]


def _figures(graph: _Graph, role: str, scalars: Counter[str]) -> None:
    last = len(graph.labels) - 1
    deep, paths = [0] * (last + 1), [1.0] + [0.0] * last
    for node in range(1, last + 1):
        deep[node] = max(deep[source] for source, _ in graph.terms[node]) + (node < last)
        paths[node] = min(1e12, sum(paths[source] * times for source, times in graph.terms[node]))
    scalars[f"{role}depth"] += deep[last]
    scalars[f"{role}nodes"] += last - 1
    scalars[f"{role}edges"] += sum(len(terms) for terms in graph.terms)
    scalars[f"{role}log_paths"] += math.log(paths[last])
    for node in graph.nodes[1:last]:
        if isinstance(node, Operation):
            scalars[f"{role}kind:{node.kind if node.kind != 'symbol' else name_of(node)}"] += 1
            for name, value in node.parameters:
                if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                    scalars[f"{role}log_{node.kind}.{name}"] += math.log(value)
