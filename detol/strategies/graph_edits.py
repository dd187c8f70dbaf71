"""Mutation of the graph itself, in spaces that can say which decisions a topology comes from.

Most spaces have edits that no single decision makes: a layer put in between moves all layers behind it. A space offers
them by a method ``read(topology) -> Decisions | None`` (:class:`detol.spaces.space.DecisionSpace` has it).
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from detol.errors import SpaceError, TopologyError
from detol.graph.edit import Node
from detol.graph.edits import insert, remove, rewire, swap
from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.search.records import Origin
from detol.spaces.decisions import Decisions
from detol.strategies.base import Told
from detol.strategies.variation import Child, mutation

TRIES = 6
"""Results of an edit that the space is asked to express, before a decision is mutated instead (some ms each)."""


@runtime_checkable
class Readable(SearchSpace, Protocol):
    """A space that finds the decisions of a topology."""

    def read(self, topology: Topology) -> Decisions | None:
        """Return decisions that decode into the same network, or ``None`` when there are none."""
        ...


class _TriedEnoughError(Exception):
    """Ends an edit whose results the space does not express."""


def graph_edit(space: SearchSpace, parent: Callable[[], Told], rng: np.random.Generator) -> Child:
    """Insert, remove, rewire or swap in the parent's graph; mutate a decision when the space cannot express any."""
    drawn = parent()
    decisions = edited(space, drawn.decisions, rng) if isinstance(space, Readable) else None
    if decisions is None:
        return mutation(space, lambda: drawn, rng)
    return Child(decisions, Origin.MUTATE, (drawn.number,))


def edited(space: Readable, decisions: Decisions, rng: np.random.Generator) -> Decisions | None:
    """Return the decisions of an edited graph, or ``None`` when none of ``TRIES`` results stands in the space."""
    topology = space.decode(decisions)
    operations = _operations(topology, space.decode(space.mutate(decisions, rng)))
    found: list[Decisions] = []
    left = TRIES

    def accept(result: Topology) -> bool:
        nonlocal left
        if not left:
            raise _TriedEnoughError
        left -= 1
        read = space.read(result)
        found.extend([read] if read is not None else [])
        return read is not None

    edits: list[Callable[[], object]] = [
        lambda: insert(topology, rng, operations, accept=accept),
        lambda: remove(topology, rng, accept=accept),
        lambda: rewire(topology, rng, accept=accept),
        lambda: swap(topology, rng, operations, accept=accept),
    ]
    try:
        edits[int(rng.integers(len(edits)))]()
    except (TopologyError, SpaceError, _TriedEnoughError):
        return None
    return found[-1]


def _operations(*topologies: Topology) -> list[Node]:
    # in the order of the nodes, so that what is drawn does not depend on hashes
    found: dict[Node, None] = {}
    for topology in topologies:
        ends = (topology.input, topology.output)
        found |= {node: None for name, node in topology.nodes.items() if name not in ends}
    return list(found)
