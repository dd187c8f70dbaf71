"""Features of a topology that a kernel compares: what is on its live paths, and how it is wired.

All are read from the normal form (dead parts and zeros dropped, identities and sums contracted), so they are the same
for every way of writing a network. Path encodings after White et al. 2020 (arXiv 2007.04965), subtree patterns after
Shervashidze et al. 2011 (Weisfeiler-Lehman), as Ru et al. 2021 (arXiv 2006.07556) use them for search.
"""

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detol.embedding.light import Light, Terms, light, name_of
from detol.graph.ops import Operation
from detol.graph.topology import Topology

Floats: TypeAlias = NDArray[np.float32]

BUCKETS = 512
"""Patterns are hashed into so many signed buckets (Weinberger et al. 2009, arXiv 0902.2206)."""
MOST_PATHS = 128
"""Whole paths are features while a graph has at most so many different ones; pieces of paths always are."""
SUBTREES = 2
"""Rounds of subtree patterns: what a node sees up to so many steps behind it."""


@dataclass(frozen=True, slots=True)
class GraphFeatures:
    """What is known of a topology's graph.

    Args:
        patterns: roots of the counts of operations, pairs, paths and subtrees, hashed: float32 (``BUCKETS``,).
        figures: few summary figures by name (depth, nodes, counts of kinds ...); all finite.
    """

    patterns: Floats
    figures: Mapping[str, float]


def graph_features(topology: Topology) -> GraphFeatures:
    """Return the features of a topology and of its cells, each different cell counted once."""
    top = light(topology)
    if top is None:
        return GraphFeatures(np.zeros(BUCKETS, np.float32), {"dead": 1.0})
    patterns = np.zeros(BUCKETS, np.float32)
    figures: dict[str, float] = {}
    waiting, met = [(top, "")], {id(top)}
    for graph, role in waiting:  # grows while it is gone through
        found = _features(graph.labels, graph.terms, role)
        patterns += found.patterns
        for name, value in found.figures.items():
            figures[name] = figures.get(name, 0.0) + value
        _add_quantities(graph, role, figures)
        for node in graph.nodes:
            if isinstance(node, Light) and id(node) not in met:
                met.add(id(node))
                waiting.append((node, "cell/"))
    if len(waiting) > 1:
        figures["cells"] = len(waiting) - 1
    return GraphFeatures(patterns, figures)


@lru_cache(maxsize=4096)
def _features(labels: tuple[str, ...], terms: tuple[Terms, ...], role: str) -> GraphFeatures:
    last = len(labels) - 1
    counts = patterns(labels, terms)
    row = np.zeros(BUCKETS, np.float32)
    for name, count in counts.items():
        code = zlib.crc32((role + name).encode())
        row[code % BUCKETS] += math.sqrt(count) * (1.0 if code & 0x10000 else -1.0)
    deep, paths = [0] * (last + 1), [1.0] + [0.0] * last
    for node in range(1, last + 1):
        deep[node] = max(deep[source] for source, _ in terms[node]) + (node < last)
        paths[node] = min(1e12, sum(paths[source] * times for source, times in terms[node]))
    figures = {
        f"{role}depth": float(deep[last]),
        f"{role}nodes": last - 1.0,
        f"{role}edges": float(sum(map(len, terms))),
        f"{role}log_paths": math.log(paths[last]),
    }
    return GraphFeatures(row, figures)


def patterns(labels: Sequence[str], terms: Sequence[Terms]) -> Mapping[str, int]:
    """Return how often each pattern occurs: ``op:``, ``pair:``, ``path:`` and ``tree``, by labels along live paths.

    Args:
        labels: of the nodes in topological order, the input first and the output last.
        terms: what enters each node.
    """
    last = len(labels) - 1
    counts = Counter(f"op:{label}" for label in labels[1:last])
    for node, entering in enumerate(terms):
        for source, times in entering:
            counts[f"pair:{labels[source]}>{labels[node]}"] += times
    for path, times in _paths(labels, terms).items():
        counts[f"path:{path}"] += times
    codes = [zlib.crc32(label.encode()) for label in labels]
    for step in range(1, SUBTREES + 1):
        codes = [_subtree(code, [(codes[s], times) for s, times in terms[node]]) for node, code in enumerate(codes)]
        counts.update(f"tree{step}:{code}" for code in codes[1:])
    return counts


def _subtree(own: int, below: Sequence[tuple[int, int]]) -> int:
    return zlib.crc32(repr((own, sorted(below))).encode())


def _paths(labels: Sequence[str], terms: Sequence[Terms]) -> Mapping[str, int]:
    """Return how many paths from input to output read each sequence of labels; nothing when there are too many."""
    reading: list[Mapping[str, int]] = [{"": 1}]
    last = len(labels) - 1
    for node in range(1, last + 1):
        found: Counter[str] = Counter()
        for source, times in terms[node]:
            for path, number in reading[source].items():
                found[f"{path}>{labels[node]}" if node < last else path] += number * times
        if len(found) > MOST_PATHS:
            return {}
        reading.append(found)
    return reading[last]


def _add_quantities(graph: Light, role: str, figures: dict[str, float]) -> None:
    for node in graph.nodes[1:-1]:
        if isinstance(node, Operation):
            for name, value in _quantity(node, role):
                figures[name] = figures.get(name, 0.0) + value


@lru_cache(maxsize=4096)
def _quantity(operation: Operation, role: str) -> tuple[tuple[str, float], ...]:
    """Return one for the operation's kind, and the logarithms of its numbers."""
    symbol = operation.kind == "symbol"
    found = [(f"kind:{name_of(operation) if symbol else operation.kind}", 1.0)]
    for name, value in operation.parameters:
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            found.append((f"log_{operation['name'] if symbol else operation.kind}.{name}", math.log(value)))
    return tuple((role + name, value) for name, value in found if value)
