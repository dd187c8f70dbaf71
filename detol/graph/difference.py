"""What differs between two topologies: nodes and edges that were added, removed or changed.

An exact answer (graph edit distance) costs exponential time. Here the nodes are aligned by repeated assignments: first
by what they compute, where they stand and what they are called, then also by whether their neighbours are aligned
(the idea of IsoRank, Singh, Xu and Berger 2008, doi 10.1073/pnas.0806627105). The best alignment seen counts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from detol.graph.digest import digest
from detol.graph.edit import concatenates
from detol.graph.ops import Operation
from detol.graph.topology import Topology

Node: TypeAlias = Operation | Topology
Marks: TypeAlias = dict[str | tuple[str, str], str]

_ROUNDS = 6
_EQUAL, _ALIKE, _CALLED, _PLACED, _BESIDE = 4.0, 2.0, 1.0, 0.5, 3.0
_LEAST = 1.0
"""Nodes that are less alike than this (another kind, other name, other neighbours) do not correspond."""


@dataclass(frozen=True)
class Change:
    """One node that differs: its name and text on either side, empty where it is not; ``inside``: in which cell."""

    what: str
    inside: str
    before: str
    after: str
    was: str
    becomes: str


@dataclass(frozen=True)
class Difference:
    """How one topology becomes another.

    Args:
        first: marks for drawing the first one (:func:`detol.graph.draw.svg`): removed and changed.
        second: marks for drawing the second one: added and changed.
        changes: the nodes that differ, in the order of the first topology, then what was added.
        edges: how many edges were removed, and how many added.
    """

    first: Mapping[str, Marks]
    second: Mapping[str, Marks]
    changes: tuple[Change, ...]
    edges: tuple[int, int]

    @property
    def none(self) -> bool:
        """Whether nothing differs (as the two are written; for equality of networks compare digests)."""
        return not self.changes and self.edges == (0, 0)


def difference(first: Topology, second: Topology) -> Difference:
    """Return what differs; cells that correspond are compared inside as well, each pair once."""
    marks: tuple[dict[str, Marks], dict[str, Marks]] = ({}, {})
    changes: list[Change] = []
    gone = new = 0
    waiting: list[tuple[str, str, Topology, Topology]] = [("", "", first, second)]
    for key, other, one, two in waiting:
        if key in marks[0] or other in marks[1]:
            continue  # each cell is drawn once
        pairs = align(one, two)
        before: Marks = {}
        after: Marks = {}
        marks[0][key], marks[1][other] = before, after
        removed, added = _edges(one, two, pairs, before, after)
        gone, new = gone + removed, new + added
        for change in _nodes(one, two, pairs):
            changes.append(Change(change[0], key, *change[1:]))
            for name, side in ((change[1], before), (change[2], after)):
                if name:
                    side[name] = change[0]
        for name, partner in pairs.items():
            inner, its = one.nodes[name], two.nodes[partner]
            if isinstance(inner, Topology) and isinstance(its, Topology) and digest(inner) != digest(its):
                waiting.append((digest(inner), digest(its), inner, its))
    return Difference(marks[0], marks[1], tuple(changes), (gone, new))


def align(first: Topology, second: Topology) -> dict[str, str]:
    """Return which nodes of two topologies correspond, by the names of the first; inputs and outputs always do."""
    from scipy.optimize import linear_sum_assignment

    own = _likeness(first, second)
    best: dict[str, str] = {}
    best_quality = -1.0
    names, others = list(first.nodes), list(second.nodes)
    likeness = own
    for _ in range(_ROUNDS):
        rows, columns = linear_sum_assignment(likeness, maximize=True)
        pairs = {names[i]: others[j] for i, j in zip(rows, columns, strict=True) if likeness[i, j] >= _LEAST}
        quality = _quality(first, second, pairs, own)
        if quality <= best_quality:
            break
        best, best_quality = pairs, quality
        likeness = own + _BESIDE * _neighbours(first, second, pairs)
    return {name: best[name] for name in first.order if name in best}


def _likeness(first: Topology, second: Topology) -> "np.ndarray":
    """Return how alike each node of the first is to each of the second, by itself."""
    depths, others = _depths(first), _depths(second)
    return np.array(
        [
            [
                _alike(node, other, called=name == partner) + _PLACED * (1 - abs(depths[name] - others[partner]))
                for partner, other in second.nodes.items()
            ]
            for name, node in first.nodes.items()
        ]
    )


def _alike(one: Node, two: Node, *, called: bool) -> float:
    ends = [
        node.kind if isinstance(node, Operation) and node.kind in ("input", "output") else "" for node in (one, two)
    ]
    if any(ends):
        return 100.0 if ends[0] == ends[1] else -100.0
    bonus = _CALLED if called else 0.0
    if isinstance(one, Topology) or isinstance(two, Topology):
        if isinstance(one, Topology) and isinstance(two, Topology):
            return bonus + (_EQUAL if digest(one) == digest(two) else _ALIKE)
        return bonus
    return bonus + (_EQUAL if one == two else _ALIKE if one.kind == two.kind else 0.0)


def _depths(topology: Topology) -> dict[str, float]:
    """Return where each node stands, from 0 (input) to 1: the longest path to it over the longest of all."""
    depth: dict[str, float] = {}
    for name in topology.order:
        depth[name] = max((depth[source] + 1 for source in topology.sources[name]), default=0.0)
    longest = max(depth.values()) or 1.0
    return {name: value / longest for name, value in depth.items()}


def _neighbours(first: Topology, second: Topology, pairs: Mapping[str, str]) -> "np.ndarray":
    """Return for each two nodes which share of their edges, in and out, lead to nodes that are aligned."""
    one, two = _beside(first), _beside(second)
    aligned = {name: {(pairs[near], way) for near, way in edges if near in pairs} for name, edges in one.items()}
    return np.array(
        [
            [len(aligned[name] & two[partner]) / max(1, len(one[name]), len(two[partner])) for partner in second.nodes]
            for name in first.nodes
        ]
    )


def _beside(topology: Topology) -> dict[str, set[tuple[str, bool]]]:
    found: dict[str, set[tuple[str, bool]]] = {name: set() for name in topology.nodes}
    for source, target in topology.edges:
        found[source].add((target, True))
        found[target].add((source, False))
    return found


def _quality(first: Topology, second: Topology, pairs: Mapping[str, str], own: "np.ndarray") -> float:
    """Return how good an alignment is: alike nodes, and edges that are on both sides."""
    rows = {name: number for number, name in enumerate(first.nodes)}
    columns = {name: number for number, name in enumerate(second.nodes)}
    edges = set(second.edges)
    kept = sum((pairs.get(source), pairs.get(target)) in edges for source, target in set(first.edges))
    return float(sum(own[rows[name], columns[partner]] for name, partner in pairs.items()) + _BESIDE * kept)


def _edges(one: Topology, two: Topology, pairs: Mapping[str, str], before: Marks, after: Marks) -> tuple[int, int]:
    """Mark the edges that are on one side alone or count differently; return how many were removed and added."""
    back = {partner: name for name, partner in pairs.items()}
    times, others = Counter(one.edges), Counter(two.edges)
    removed = added = 0
    for (source, target), count in times.items():
        there = others[pairs.get(source, ""), pairs.get(target, "")] if source in pairs and target in pairs else 0
        if there != count:
            before[source, target] = "changed" if there else "removed"
            removed += max(0, count - there)
    for (source, target), count in others.items():
        there = times[back[source], back[target]] if source in back and target in back else 0
        if there != count:
            after[source, target] = "changed" if there else "added"
            added += max(0, count - there)
    return removed, added


def _nodes(one: Topology, two: Topology, pairs: Mapping[str, str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (what, name before, name after, text before, text after) of each node that differs."""
    for name in one.order:
        node = one.nodes[name]
        if name not in pairs:
            yield "removed", name, "", _text(node), ""
            continue
        partner = pairs[name]
        other = two.nodes[partner]
        parts = [pairs.get(source) for source in one.sources[name]]
        moved = concatenates(node) and parts != list(two.sources[partner]) and set(parts) == set(two.sources[partner])
        if _text(node) != _text(other):
            yield "changed", name, partner, _text(node), _text(other)
        elif moved:
            yield "changed", name, partner, _text(node), f"{_text(other)}, parts in another order"
    back = set(pairs.values())
    for partner in two.order:
        if partner not in back:
            yield "added", "", partner, "", _text(two.nodes[partner])


def _text(node: Node) -> str:
    return f"cell {digest(node)[:11]}" if isinstance(node, Topology) else str(node)
