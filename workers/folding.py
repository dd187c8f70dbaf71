"""What a removed unit did, put into what stays: merged into another unit, or its constant output into a bias."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from detol.errors import TopologyError
from detol.graph.flat import FlatNode, flat
from detol.graph.ops import Operation
from detol.graph.topology import Topology
from detol.graph.unit_map import UnitMap
from detol.graph.units import Axis, Role, Units
from detol.search.records import Transfer

Constants = dict[int, float]
"""The constant output of units, by their number."""

EPS = 1e-5
LAYERS = {"conv": "conv", "sepconv": "pointwise", "linear": "linear"}
"""By kind, the module inside an operation that its norm follows."""
_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "none": lambda x: x,
}


def absorb(
    weights: Mapping[str, Tensor],
    there: Units,
    mapped: UnitMap,
    transfer: Transfer,
    parent: Topology,
    shape: Sequence[int],
) -> dict[str, Tensor]:
    """Return the parent's state with the merged and folded units of a transfer moved into what reads them.

    A constant passes through norms, activations and pooling; through a sum only when all that is added is constant.
    At the border of a padded convolution it is not quite constant, so that folding there is nearly exact alone.

    Args:
        weights: the parent's state; not changed.
        there: the parent's units.
        mapped: which of the parent's nodes the child's are.
        transfer: with ``folded`` and ``merged``.
        parent: its topology.
        shape: of one sample.

    Raises:
        TopologyError: a node or a unit that the parent has not.
    """
    state = dict(weights)
    for name, merges in transfer.merged.items():
        made = _made(name, mapped, there)
        for gone, stays, factor in merges:
            _merge(state, there, _unit(name, made, gone), _unit(name, made, stays), factor)
    folded = {
        mapped.nodes[name]: {_unit(name, _made(name, mapped, there), gone): value for gone, value in pairs}
        for name, pairs in transfer.folded.items()
        if pairs
    }
    if folded:
        _fold(state, there, folded, flat(parent, shape))
    return state


def fold_norms(
    weights: Mapping[str, Tensor],
    there: Units,
    child: Mapping[str, FlatNode],
    parent: Mapping[str, FlatNode],
    nodes: Mapping[str, str],
) -> dict[str, Tensor]:
    """Return the parent's state with its norms put into the layers before them, where the child has layers without.

    A norm in evaluation is a scale and a shift of each unit: the child computes the same.

    Args:
        weights: the parent's state; not changed.
        there: the parent's units.
        child: its nodes.
        parent: its nodes.
        nodes: child's node -> parent's node.
    """
    state = dict(weights)
    for name, old in nodes.items():
        if name not in child or old not in parent or not loses_norm(child[name], parent[old]):
            continue
        module = there.modules[old]
        layer, norm = f"{module}.{LAYERS[parent[old].operation.kind]}", f"{module}.norm"
        scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + EPS).sqrt()
        weight = state[f"{layer}.weight"]
        state[f"{layer}.weight"] = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
        state[f"{layer}.bias"] = state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale
    return state


def loses_norm(child: FlatNode, parent: FlatNode) -> bool:
    """Return whether a node is what its parent's was, but for a norm behind its layer."""
    one, other = child.operation, parent.operation
    if one.kind != other.kind or one.kind not in LAYERS or "pre" in (_order(one), _order(other)):
        return False
    return bool(other["norm"]) and not one["norm"]


def _order(operation: Operation) -> object:
    return dict(operation.parameters).get("order")


def _made(name: str, mapped: UnitMap, there: Units) -> Sequence[int]:
    old = mapped.nodes.get(name, "")
    if old not in there.made:
        raise TopologyError(f"a transfer folds units of {name!r}, which has none in the parent: name a layer")
    return [int(unit) for unit in there.made[old]]


def _unit(name: str, made: Sequence[int], place: int) -> int:
    if not 0 <= place < len(made):
        raise TopologyError(f"a transfer folds unit {place} of {name!r}, which has {len(made)}: count from 0")
    return made[place]


def _merge(state: dict[str, Tensor], there: Units, gone: int, stays: int, factor: float) -> None:
    for axis in there.axes:
        if axis.role is not Role.READS:
            continue
        away, to = np.flatnonzero(axis.units == gone), np.flatnonzero(axis.units == stays)
        if len(away) and len(away) == len(to):
            columns = state[axis.parameter].clone()
            columns[:, to] += factor * columns[:, away]
            state[axis.parameter] = columns


def _fold(
    state: dict[str, Tensor], there: Units, folded: Mapping[str, Constants], nodes: Mapping[str, FlatNode]
) -> None:
    values: dict[str, Constants] = {}
    axes: dict[str, list[Axis]] = {}
    for axis in there.axes:
        if axis.role is Role.READS:
            axes.setdefault(axis.node, []).append(axis)
    for name, node in nodes.items():
        entering = _entering(node, values)
        for axis in axes.get(name, ()):
            _into_bias(state, axis, _inside(state, there, name, node, entering))
        values[name] = {**_through(state, there, name, node, entering), **folded.get(name, {})}
    last = values[next(reversed(list(nodes)))]
    for axis in axes.get("", ()):
        _into_bias(state, axis, last)
    for name, (source, _) in there.projections.items():
        for axis in axes.get(name, ()):
            _into_bias(state, axis, values.get(source, {}))


def _entering(node: FlatNode, values: Mapping[str, Constants]) -> Constants:
    """Return the constants that enter a node: those of a concatenation's parts, or sums of what is constant in all."""
    parts = [{} if source in node.projected else values[source] for source in node.sources]
    if node.operation.kind == "concat":
        return {unit: value for part in parts for unit, value in part.items()}
    if not parts:
        return {}
    return {unit: sum(part[unit] for part in parts) for unit in parts[0] if all(unit in part for part in parts)}


def _through(state: Mapping[str, Tensor], there: Units, name: str, node: FlatNode, entering: Constants) -> Constants:
    """Return the constants that leave a node which does not mix units."""
    kind = node.operation.kind
    if kind == "activation":
        return _activated(entering, str(node.operation["fn"]))
    if kind == "norm":
        return dict(_normed(state, there.modules[name], there.enters[name], entering))
    passing = ("input", "output", "add", "concat", "pool", "global_pool", "flatten", "dropout")
    return entering if kind in passing else {}


def _inside(state: Mapping[str, Tensor], there: Units, name: str, node: FlatNode, entering: Constants) -> Constants:
    """Return the constants where the node's first mixing layer reads them."""
    operation = node.operation
    if dict(operation.parameters).get("order") == "pre":
        entering = _activated(entering, str(operation["activation"]))
    if operation.kind == "sepconv":
        kernels = state[f"{there.modules[name]}.depthwise.weight"].flatten(1).sum(1)
        entering = {
            unit: value * float(kernels[int(np.flatnonzero(there.enters[name] == unit)[0])])
            for unit, value in entering.items()
        }
    return entering


def _activated(values: Constants, name: str) -> Constants:
    return {unit: float(_ACTIVATIONS[name](torch.tensor(value))) for unit, value in values.items()}


def _normed(
    state: Mapping[str, Tensor], module: str, layout: "np.ndarray[tuple[int], np.dtype[np.int64]]", values: Constants
) -> Iterator[tuple[int, float]]:
    for unit, value in values.items():
        place = int(np.flatnonzero(layout == unit)[0])
        mean, variance, scale, shift = (
            float(state[f"{module}.{key}"][place]) for key in ("running_mean", "running_var", "weight", "bias")
        )
        yield unit, (value - mean) / (variance + EPS) ** 0.5 * scale + shift


def _into_bias(state: dict[str, Tensor], axis: Axis, values: Constants) -> None:
    """Add what constants contribute to a layer to its bias, or take it out of the mean of the norm behind it."""
    weight = state[axis.parameter]
    total = torch.zeros(weight.shape[0], dtype=weight.dtype)
    for unit, value in values.items():
        places = np.flatnonzero(axis.units == unit)
        if len(places):
            total += weight[:, places].flatten(1).sum(1) * value
    if not total.any():
        return
    layer = axis.parameter.removesuffix(".weight")
    if f"{layer}.bias" in state:
        state[f"{layer}.bias"] = state[f"{layer}.bias"] + total
    else:
        norm = f"{layer.rpartition('.')[0]}.norm"
        state[f"{norm}.running_mean"] = state[f"{norm}.running_mean"] - total
