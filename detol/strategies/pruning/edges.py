"""Edges and nodes of the graph: the weakest are cut, nodes with an own shape on both sides become identities."""

from collections.abc import Mapping
from typing import Any

from detol.graph.prune import without_edges, without_node
from detol.graph.topology import Topology
from detol.strategies.pruning.cuts import Cut, Size, allowed, relative

WEIGHTLESS = 0.01
"""What an edge that saves nothing counts as saving, as a share of the network: a simpler graph is some gain."""


def cut(topology: Topology, measured: Mapping[str, Any], size: Size, share: float, allowance: float) -> Cut | None:
    """Cut up to a share of the edges and nodes that can go, least loss for what it saves first.

    ``measured`` comes from the measure ``edges``. Arguments and result as ``cuts.Level`` says. What
    the single cuts cost is taken to add up, so at most the allowance is spent (and at least one cut is made if one
    alone keeps it).
    """
    before = size.cost(topology)
    found = []
    for item in (*measured["edges"], *measured["nodes"]):
        *name, saliency, rise = item
        left = _without(topology, name, size)
        if left is None:
            continue
        loss = max(float(saliency if rise is None else rise), 0.0)
        found.append((loss / (WEIGHTLESS + 1 - relative(size.cost(left), before)), loss, name))
    found.sort()
    budget = allowed(measured, allowance) - float(measured["loss"])
    result, spent, made = topology, 0.0, 0
    for _, loss, name in found:
        if made >= max(1, int(share * len(found))):
            break
        left = _without(result, name, size) if spent + loss <= budget else None
        if left is not None:
            result, spent, made = left, spent + loss, made + 1
    return Cut(result) if made else None


def _without(topology: Topology, name: list[str], size: Size) -> Topology | None:
    if len(name) == 1:
        return without_node(topology, size.shape, name[0]) if name[0] in topology.nodes else None
    edge = (name[0], name[1])
    return without_edges(topology, size.shape, [edge]) if edge in topology.edges else None
