"""Weights of a trained parent as the initial weights of a child that differs from it by an edit.

A pure function of both topologies, the parent's state, the child's fresh state and the record of the edit. ``match``
copies tensors of equal shape. ``morph`` also cuts and pads them, such that the child computes what its parent did
where the edit allows it: Net2Net (Chen et al. 2016, arXiv 1511.05641) and network morphism (Wei et al. 2016, arXiv
1603.01670).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from detol.errors import unknown
from detol.graph.correspond import within
from detol.graph.flat import flat
from detol.graph.neutral import Start, starts
from detol.graph.topology import Topology
from detol.graph.unit_map import FRESH, Places, UnitMap
from detol.graph.units import HIDDEN, Axis, Role, Units, units
from detol.search.records import Transfer
from detol.workers.folding import absorb, fold_norms
from detol.workers.move import Move
from detol.workers.narrow import kept
from detol.workers.neutral import set_identity, set_zero

RULES = ("match", "morph")
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
SPREAD = 0.2
"""How unevenly what reads a repeated unit is divided, so that its copies learn different things; the sum is exact."""


@dataclass(frozen=True)
class Inherited:
    """What a child starts from.

    Args:
        state: for every key of its state dict.
        share: of its parameters' elements that come from the parent, in [0, 1].
        moves: by key, how its elements come from those of the parent's tensor of the name ``Move.source``.
        identities: modules of norms that started as an identity: their scale is right for evaluation, and for training
            once it has been measured what enters them (:func:`detol.workers.neutral.calibrate`).
    """

    state: Mapping[str, Tensor]
    share: float
    moves: Mapping[str, Move] = field(default_factory=dict)
    identities: tuple[str, ...] = ()


def inherit(
    child: Topology,
    fresh: Mapping[str, Tensor],
    parent: Topology,
    weights: Mapping[str, Tensor],
    transfer: Transfer,
    *,
    shape: Sequence[int],
    outputs: int,
    spread: float = SPREAD,
) -> Inherited:
    """Return the initial state of a child that takes over its parent's weights.

    Args:
        child: its topology.
        fresh: state dict of a freshly built child; it is not changed.
        parent: its topology.
        weights: state dict of the trained parent.
        transfer: which nodes and units correspond, and by which rule.
        shape: of one sample.
        outputs: of both networks.
        spread: see ``SPREAD``; 0 divides evenly, as Net2Wider does (Chen et al. 2016, section 2.2).

    Raises:
        UsageError: another rule.
        TopologyError: a record that does not fit the two topologies.
    """
    if transfer.rule not in RULES:
        raise unknown("rule of a transfer", transfer.rule, RULES)
    morph = transfer.rule == "morph"
    nodes = within(parent, child, transfer.nodes)
    here, there = units(child, shape, outputs), units(parent, shape, outputs)
    laid, before = flat(child, shape), flat(parent, shape)
    starting = starts(laid, before, nodes) if morph else {}
    identities = {name: node.sources for name, node in laid.items() if starting.get(name) is Start.IDENTITY}
    copies = (transfer.units or kept(here, there, nodes, weights)) if morph else {}
    mapped = UnitMap(here, there, nodes, copies, identities)
    olds = weights
    if morph:
        olds = absorb(weights, there, mapped, transfer, parent, shape)
        olds = fold_norms(olds, there, laid, before, nodes)
    state = {name: tensor.detach().cpu().clone() for name, tensor in fresh.items()}
    moves = dict(_moves(state, olds, mapped, morph=morph))
    generator = torch.Generator().manual_seed(0)
    for name, move in moves.items():
        state[name] = move.weights(olds[move.source], state[name], spread, generator)
    norms = [module for name in identities for module in set_identity(state, here, name, laid[name])]
    for name, start in starting.items():
        if start is Start.ZERO:
            set_zero(state, here, name, laid[name])
    own = {name: tensor for name, tensor in state.items() if not name.endswith(BUFFERS)}
    taken = sum(moves[name].taken for name in own if name in moves)
    return Inherited(state, taken / sum(map(Tensor.numel, own.values())), moves, tuple(norms))


def inherit_optimiser(states: Mapping[str, Mapping[str, Tensor]], inherited: Inherited) -> dict[str, dict[str, Tensor]]:
    """Return the state of a child's optimiser from that of its parent's, cut and repeated as the weights are.

    Args:
        states: of the parent's optimiser by name of the parameter: moments, momentum (as large as the parameter), step
            counts (one number).
        inherited: what :func:`inherit` returned.

    Returns:
        By name of the child's parameter, for those whose parent's parameter has a state. Elements without a source are
        zero, so that they start as any new parameter does.
    """
    found: dict[str, dict[str, Tensor]] = {}
    for name, move in inherited.moves.items():
        if move.source in states:
            found[name] = {
                key: move.state(value) if tuple(value.shape) == move.there else value.clone()
                for key, value in states[move.source].items()
            }
    return found


def _moves(
    state: Mapping[str, Tensor], olds: Mapping[str, Tensor], mapped: UnitMap, *, morph: bool
) -> Iterator[tuple[str, Move]]:
    """Yield how each tensor that has a source comes from it."""
    owners = {module: node for node, module in mapped.child.modules.items()}
    here, there = _axes(mapped.child), _axes(mapped.parent)
    for name, tensor in state.items():
        module = name
        while module and module not in owners:
            module = module.rpartition(".")[0]
        node = owners.get(module)
        if node is None or (node and node not in mapped.nodes):
            continue
        source = mapped.parent.modules[mapped.nodes[node] if node else ""] + name.removeprefix(module)
        if source not in olds:
            continue
        shape, old = tuple(tensor.shape), tuple(olds[source].shape)
        if morph and name in here and here[name].keys() == there.get(source, {}).keys() and len(shape) == len(old):
            move = _morph(source, shape, old, here[name], there[source], mapped)
            if move is not None:
                yield name, move
        elif shape == old:
            yield name, Move(source, shape, old)


def _morph(
    source: str,
    shape: tuple[int, ...],
    old: tuple[int, ...],
    here: Mapping[int, Axis],
    there: Mapping[int, Axis],
    mapped: UnitMap,
) -> Move | None:
    """Return the move of a tensor whose axes follow units; ``None`` when nothing of it has a source."""
    if 1 not in here and shape[1:2] != old[1:2]:
        return None  # groups of another size
    rows = _rows(here[0], there[0], mapped)
    columns = mapped.along(here[1].units, there[1].units) if 1 in here else None
    if any(places is not None and (places == FRESH).all() for places in (rows, columns)):
        return None
    return Move(source, shape, old, rows, columns, reads=columns is not None)


def _rows(here: Axis, there: Axis, mapped: UnitMap) -> Places:
    if here.role is Role.WRITES:
        for name in (here.node, here.node + HIDDEN):
            if name in mapped.rows and np.array_equal(mapped.child.made[name], here.units):
                return mapped.rows[name]
    return mapped.along(here.units, there.units)


def _axes(units: Units) -> dict[str, dict[int, Axis]]:
    found: dict[str, dict[int, Axis]] = {}
    for axis in units.axes:
        found.setdefault(axis.parameter, {})[axis.axis] = axis
    return found
