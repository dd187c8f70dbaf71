"""Saliency of edges and nodes: what the loss does when a tensor is gated away.

First by Taylor: with a gate g = 1 on an edge's tensor a, dL/dg = sum of a * dL/da (Molchanov et al. 2017, arXiv
1611.06440, eq. 7-8, one gate for the whole tensor); then, for the weakest, by closing the gate and looking. An edge
whose cut leaves others without a use stands for all of them: what counts is where they enter what stays.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from detol.graph.prune import Edge, bypassable, lost_edges, removable_edges
from detol.graph.topology import Topology
from detol.workers.measures.probe import Probe

LOOKED_AT = 48
"""Of the edges, and of the nodes, so many of the weakest are really closed."""


def edges(probe: Probe) -> dict[str, Any]:
    """Return the saliency of each edge that can be cut and of each node that can become an identity.

    ``loss``: mean held-out loss of the whole network. ``edges``: [source, target, saliency, rise], weakest first;
    ``nodes``: [name, saliency, rise] likewise. ``saliency`` is the mean over samples of |dL/dg| in nats (or squared
    error); ``rise`` is by how much the held-out loss rose when the gate was closed, ``null`` where nobody looked.
    """
    wanted = removable_edges(probe.topology, probe.data.shape)
    lost = {edge: lost_edges(probe.topology, [edge]) for edge in wanted}
    ends = {edge: _entering(probe.topology, lost[edge]) for edge in wanted}
    gated = sorted({end for several in ends.values() for end in several})
    names = [name for name in bypassable(probe.topology, probe.data.shape) if name in probe.modules]
    by_edge, by_node = dict.fromkeys(wanted, 0.0), dict.fromkeys(names, 0.0)
    for x, y in probe.seen():
        gates = {edge: x.new_ones((len(x),), requires_grad=True) for edge in gated}
        doors = {name: x.new_ones((len(x),), requires_grad=True) for name in names}

        def gate(source: str, target: str, value: Tensor, gates: dict[Any, Tensor] = gates) -> Tensor:
            found = gates.get((source, target))
            return value if found is None else value * _spread(found, value)

        with probe.gated(gate), probe.changed({name: _mix(door) for name, door in doors.items()}):
            loss = probe.loss(probe.model(x), y)
        every = [*gates.values(), *doors.values()]
        if not every:
            break
        slopes = torch.autograd.grad(loss, every, allow_unused=True)
        known = [torch.zeros(len(x), device=x.device) if slope is None else slope for slope in slopes]
        by_gate = dict(zip(gates, known[: len(gates)], strict=True))
        for edge, several in ends.items():
            slope = torch.stack([by_gate[end] for end in several]).sum(0)
            by_edge[edge] += slope.abs().sum().item() / probe.samples
        for name, slope in zip(doors, known[len(gates) :], strict=True):
            by_node[name] += slope.abs().sum().item() / probe.samples

    whole = probe.held_loss()
    weak_edges = sorted(by_edge, key=lambda edge: (by_edge[edge], edge))
    weak_nodes = sorted(by_node, key=lambda name: (by_node[name], name))
    closed = {edge: _without_edges(probe, lost[edge]) - whole for edge in weak_edges[:LOOKED_AT]}
    open_ = {name: _without_node(probe, name) - whole for name in weak_nodes[:LOOKED_AT]}
    return {
        "loss": _round(whole),
        "plain": _round(probe.plain_loss),
        "edges": [[*edge, _round(by_edge[edge]), _round(closed.get(edge))] for edge in weak_edges],
        "nodes": [[name, _round(by_node[name]), _round(open_.get(name))] for name in weak_nodes],
    }


def _mix(door: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what lets the operation through as far as its door is open, and its input for the rest."""
    return lambda entered, left: entered + (left - entered) * _spread(door, left)


def _spread(gate: Tensor, value: Tensor) -> Tensor:
    return gate.reshape((-1,) + (1,) * (value.ndim - 1))


def _entering(topology: Topology, lost: frozenset[Edge]) -> list[Edge]:
    """Return those of the lost edges that enter a node that stays."""
    stay = {topology.output} | {node for edge in topology.edges if edge not in lost for node in edge}
    return sorted(edge for edge in lost if edge[1] in stay)


def _without_edges(probe: Probe, lost: frozenset[Edge]) -> float:
    with probe.gated(lambda source, target, value: value * 0 if (source, target) in lost else value):
        return probe.held_loss()


def _without_node(probe: Probe, name: str) -> float:
    with probe.changed({name: lambda entered, left: entered}):  # noqa: ARG005  the signature of changes
        return probe.held_loss()


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
