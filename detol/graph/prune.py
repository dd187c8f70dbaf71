"""Cuts of a lowered network (see :mod:`detol.graph.lower`): edges, nodes and units, the result always valid.

A cut never changes the shape of a tensor that another layer has learnt to read, except by the units it names; so what
stays can take its weights over.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from detol.errors import TopologyError
from detol.graph.edit import is_dead, normalise
from detol.graph.ops import Operation
from detol.graph.plan import plan
from detol.graph.topology import Topology
from detol.graph.units import Units

Edge = tuple[str, str]
WIDTHS = {"conv": "channels", "sepconv": "channels", "linear": "features"}
"""The meta-parameter that is the number of units, by kind."""


def prunable(found: Units) -> tuple[str, ...]:
    """Return the nodes whose units can be removed: none is fixed, and a meta-parameter says how many there are."""
    return tuple(
        name
        for name in found.made
        if name in found.operations and found.operations[name].kind in WIDTHS and found.free(name)
    )


def without_units(topology: Topology, found: Units, gone: Iterable[int]) -> Topology:
    """Return the network without some units, all that is tied to them (depthwise convolutions too) made narrower.

    Args:
        topology: lowered.
        found: its units.
        gone: numbers of the units.

    Raises:
        TopologyError: a unit that is fixed, or a node that would lose all its units.
    """
    lost = set(gone)
    nodes = dict(topology.nodes)
    for name, kept in found.without(lost).items():
        if not kept or not found.free(name):
            raise TopologyError(f"node {name!r} keeps at least one unit, and those that are fixed: cut fewer")
        operation = found.operations[name]
        nodes[name] = operation.replace(**{WIDTHS[operation.kind]: len(kept)})
    for name, operation in found.operations.items():
        if depthwise(operation) and not lost.isdisjoint(map(int, found.enters[name])):
            count = int((~np.isin(found.enters[name], list(lost))).sum())
            nodes[name] = operation.replace(channels=count, groups=count)
    return Topology(nodes, topology.edges)


def depthwise(operation: Operation) -> bool:
    """Return whether a convolution treats each channel by itself."""
    return (
        operation.kind == "conv"
        and operation["groups"] not in (1, None)
        and operation["groups"] == operation["channels"]
    )


def removable_edges(topology: Topology, shape: Sequence[int]) -> tuple[Edge, ...]:
    """Return the edges that can be cut, each by itself, with all that is dead then."""
    edges = dict.fromkeys(topology.edges)
    return tuple(edge for edge in edges if without_edges(topology, shape, [edge]) is not None)


def without_edges(topology: Topology, shape: Sequence[int], gone: Iterable[Edge]) -> Topology | None:
    """Return the normal form without some edges (all their repeats) and without what is dead then.

    Args:
        topology: lowered, in normal form.
        shape: of one sample.
        gone: the edges.

    Returns:
        ``None`` when nothing would be left, or a layer would get another shape than it has learnt to read.
    """
    lost = set(gone)
    return _kept(topology, shape, [edge for edge in topology.edges if edge not in lost])


def lost_edges(topology: Topology, gone: Iterable[Edge]) -> frozenset[Edge]:
    """Return the edges that go when some are cut: these, and all on no path from input to output any more."""
    cut = set(gone)
    left = Topology(topology.nodes, [edge for edge in topology.edges if edge not in cut])
    stay = {edge for edge in left.edges if left.live.issuperset(edge)}
    return frozenset(topology.edges) - stay


def bypassable(topology: Topology, shape: Sequence[int]) -> tuple[str, ...]:
    """Return the nodes that can become an identity: what leaves them has the shape that enters, and all fits then."""
    made = plan(topology, shape)
    names = [step.name for step in made.steps[1:-1] if not step.concat and step.before == step.after]
    return tuple(name for name in names if without_node(topology, shape, name) is not None)


def without_node(topology: Topology, shape: Sequence[int], name: str) -> Topology | None:
    """Return the normal form with an identity in the place of a node; ``None`` as for :func:`without_edges`."""
    return _kept(topology, shape, list(_bypass(topology, name)), {name})


def _bypass(topology: Topology, name: str) -> Iterator[Edge]:
    for source, target in topology.edges:
        if source == name:
            yield from ((before, target) for before in topology.sources[name])
        elif target != name:
            yield source, target


def _kept(topology: Topology, shape: Sequence[int], edges: list[Edge], removed: Iterable[str] = ()) -> Topology | None:
    left = set(removed)
    result = Topology({name: node for name, node in topology.nodes.items() if name not in left}, edges)
    if is_dead(result):
        return None
    result = normalise(result)
    try:
        made = plan(result, shape)
    except TopologyError:
        return None
    # A concatenation may get narrower, its readers then lose inputs; in a sum that would make a new projection.
    if any(term.before[0] != term.after[0] for term in made.projections):
        return None
    old = {step.name: step for step in plan(topology, shape).steps}
    same = all(
        step.before[1:] == old[step.name].before[1:] and step.after[1:] == old[step.name].after[1:]
        for step in made.steps
    )
    return result if same else None
