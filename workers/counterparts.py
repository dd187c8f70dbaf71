"""What of its parent each layer of a child is fitted to: the counterpart of a layer, or what stood in its place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from detol.graph.correspond import within
from detol.graph.flat import FlatNode, flat
from detol.graph.neutral import Start, starts
from detol.graph.topology import Topology
from detol.graph.units import units
from detol.search.records import Transfer
from detol.workers.folding import LAYERS, loses_norm
from detol.workers.least_squares import can_fit
from detol.workers.tensors import Tensors
from detol.workers.transfer import Inherited

HEAD = "head.linear"
LAST = {**LAYERS, "mbconv": "project.conv"}
"""By kind, the last layer inside an operation."""


@dataclass(frozen=True)
class Wanted:
    """What a layer is fitted to.

    Args:
        source: the parent's module whose output is wanted.
        rows: (outputs,) int64: for each output of the layer the source's, or -1.
        norm: a norm behind the layer that has no counterpart: it is set such that it passes on what is wanted. Empty
            without one.
    """

    source: str
    rows: Tensor
    norm: str = ""


def counterparts(
    model: nn.Module,
    topology: Topology,
    taught: nn.Module,
    parent: Topology,
    inherited: Inherited,
    transfer: Transfer,
    data: Tensors,
) -> dict[str, Wanted]:
    """Return what the child's layers are fitted to, by their names.

    Arguments as of :func:`detol.workers.reconstruct.reconstruct`.

    A layer whose weights come from one of the parent's: that one's output, with what followed it if the norm between
    them is gone. The head: the parent's outputs. The last layer of a new operation that stands in another's place: what
    the other gave.
    """
    modules, theirs = dict(model.named_modules()), dict(taught.named_modules())
    layers = {name for name, module in modules.items() if can_fit(module)}
    found = {name: one for name in layers if (one := _moved(name, inherited, data)) is not None}
    nodes = within(parent, topology, transfer.nodes)
    here, there = (units(one, data.shape, data.outputs).modules for one in (topology, parent))
    laid, old = flat(topology, data.shape), flat(parent, data.shape)
    for path, before in nodes.items():
        layer = f"{here.get(path)}.{LAYERS.get(laid[path].operation.kind)}" if path in laid and before in old else ""
        if layer not in found:
            continue
        if loses_norm(laid[path], old[before]):
            found[layer] = replace(found[layer], source=f"{there[before]}.norm")
        elif loses_norm(old[before], laid[path]):
            found[layer] = replace(found[layer], norm=f"{here[path]}.norm")
    starting = starts(laid, old, nodes)
    fresh = [path for path, start in starting.items() if start is Start.FRESH]
    for path in _replaced(fresh, laid, old, set(nodes.values())):
        layer = f"{here[path]}.{LAST[laid[path].operation.kind]}"
        if layer in layers and there.get(path) in theirs:
            norm = f"{layer.rpartition('.')[0]}.norm"
            rows = torch.arange(laid[path].after[0], device=data.device)
            found[layer] = Wanted(there[path], rows, norm if isinstance(modules.get(norm), _BatchNorm) else "")
    return found


def _moved(name: str, inherited: Inherited, data: Tensors) -> Wanted | None:
    move = inherited.moves.get(f"{name}.weight")
    if move is not None:
        rows = range(move.shape[0]) if move.rows is None else move.rows
        return Wanted(move.source.removesuffix(".weight"), torch.as_tensor(list(rows), device=data.device))
    return Wanted(HEAD, torch.arange(data.outputs, device=data.device)) if name == HEAD else None


def _replaced(
    fresh: list[str], laid: Mapping[str, FlatNode], old: Mapping[str, FlatNode], taken: set[str]
) -> Iterator[str]:
    """Yield the new nodes in the place of one of the parent's that no other node has taken over, as wide as it."""
    for path in fresh:
        free = path in old and path not in taken and laid[path].operation.kind in LAST
        if free and old[path].after[0] == laid[path].after[0]:
            yield path
