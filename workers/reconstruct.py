"""A child's layers fitted, one after the other, to what its parent's layers give: for edits that no rule preserves.

``morph`` keeps a function only where the edit allows it. What it cannot keep is mended from data before the first step:
each layer that has a counterpart is fitted by least squares to the counterpart's output, given what enters it now. That
is the reconstruction of pruned networks (He, Zhang and Sun 2017, arXiv 1707.06168, section 3; asymmetric: the inputs
are those of the changed network) for edits of all kinds. It takes a forward pass of each network on some samples.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from detol.graph.correspond import within
from detol.graph.flat import FlatNode, flat
from detol.graph.neutral import Start, starts
from detol.graph.topology import Topology
from detol.graph.unit_map import FRESH
from detol.graph.units import units
from detol.search.records import Transfer
from detol.workers.folding import LAYERS
from detol.workers.least_squares import Layer, Places, can_fit, fit
from detol.workers.parent import by_batches
from detol.workers.tensors import Tensors
from detol.workers.transfer import Inherited

SAMPLES = 1024
"""Training samples that are looked at, the first: all ranks see the same. Half as many do nearly as well."""
VALUES = 2**22
"""Numbers of which those samples consist, at most: fewer large samples are taken, but no fewer than ``FEWEST``."""
FEWEST = 64
ROWS = 16_384
"""Places of a layer's output by which it is fitted, at most."""
HEAD = "head.linear"
LAST = {**LAYERS, "mbconv": "project.conv"}
"""By kind, the last layer inside an operation."""


@dataclass(frozen=True)
class Wanted:
    """What a layer is fitted to.

    Args:
        source: the parent's module whose output is wanted.
        rows: (outputs,) int64: for each output of the layer the source's, or -1.
        norm: a new norm behind the layer, which is set such that it passes on what is wanted; empty without one.
    """

    source: str
    rows: Tensor
    norm: str = ""


def reconstruct(
    model: nn.Module, topology: Topology, taught: nn.Module, parent: Topology, inherited: Inherited, transfer: Transfer,
    data: Tensors,
) -> int:  # fmt: skip
    """Fit the layers of a child to its parent's, in the order in which they compute; return how many were changed.

    Norms take the statistics of the samples, as in training. Where no layer needs a change the child stays as it is.

    Args:
        model: the child with what it inherited, on the device of the data; changed in place.
        topology: the child's.
        taught: the parent as it was trained, on the same device; its norms' statistics are lost.
        parent: its topology.
        inherited: how the child's tensors come from the parent's.
        transfer: which nodes correspond.
        data: that the child is going to be trained on.
    """
    rows = data.train.x[: min(SAMPLES, max(FEWEST, VALUES // math.prod(data.shape)))]
    if len(rows) < FEWEST:
        return 0
    wanted = dict(_wanted(model, topology, taught, parent, inherited, transfer, data))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    modes = {name: module.training for name, module in model.named_modules()}
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # the samples' statistics stay
    with torch.no_grad():
        x = data.standardised(rows)
        sizes = _sizes(by_batches(model), wanted, x)
        places = {name: Places.drawn(len(x), size, ROWS, data.device) for name, size in sizes.items()}
        targets = _targets(by_batches(taught), wanted, sizes, places, x)
        changed = _fitted(model, wanted, places, targets, x)
    for name, module in model.named_modules():
        module.training = modes[name]
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    if not changed:
        for name, buffer in model.named_buffers():
            buffer.copy_(before[name])
    return changed


def _wanted(
    model: nn.Module, topology: Topology, taught: nn.Module, parent: Topology, inherited: Inherited, transfer: Transfer,
    data: Tensors,
) -> Iterator[tuple[str, Wanted]]:  # fmt: skip
    """Yield what the child's layers are fitted to, by their names.

    A layer whose weights come from one of the parent's: that one's output. The head: the parent's outputs. The last
    layer of a new operation that stands in another's place: what the other gave, before a common activation.
    """
    layers = {name for name, module in model.named_modules() if can_fit(module)}
    theirs = dict(taught.named_modules())
    for name in layers:
        move = inherited.moves.get(f"{name}.weight")
        if move is not None:
            places = range(move.shape[0]) if move.rows is None else move.rows
            yield name, Wanted(move.source.removesuffix(".weight"), torch.as_tensor(list(places), device=data.device))
        elif name == HEAD:
            yield name, Wanted(HEAD, torch.arange(data.outputs, device=data.device))
    nodes = within(parent, topology, transfer.nodes)
    here, there = (units(one, data.shape, data.outputs).modules for one in (topology, parent))
    laid, old = flat(topology, data.shape), flat(parent, data.shape)
    starting, taken = starts(laid, old, nodes), set(nodes.values())
    for path, node in laid.items():
        if path in nodes or starting.get(path) is not Start.FRESH or path not in old or path in taken:
            continue
        layer, channels = f"{here[path]}.{LAST.get(node.operation.kind, '')}", node.after[0]
        if layer not in layers or there.get(path) not in theirs or old[path].after[0] != channels:
            continue
        norm = f"{layer.rpartition('.')[0]}.norm"
        normed = f"{there[path]}.norm"
        source = normed if _same_end(node, old[path]) and normed in theirs else there[path]
        found = norm if isinstance(dict(model.named_modules()).get(norm), _BatchNorm) else ""
        yield layer, Wanted(source, torch.arange(channels, device=data.device), found)


def _same_end(node: FlatNode, old: FlatNode) -> bool:
    """Return whether two operations end with the same activation, behind a norm or nothing."""
    kinds = {node.operation.kind, old.operation.kind}
    if not kinds <= LAYERS.keys():
        return False
    orders = {dict(one.operation.parameters).get("order") for one in (node, old)}
    return "pre" not in orders and node.operation["activation"] == old.operation["activation"]


def _sizes(model: nn.Module, wanted: Mapping[str, Wanted], x: Tensor) -> dict[str, tuple[int, ...]]:
    """Return the sizes of what leaves the layers, channels left out, of those that are called once."""
    seen: dict[str, list[tuple[int, ...]]] = {name: [] for name in wanted}

    def note(name: str, _: nn.Module, __: object, output: Tensor) -> None:
        seen[name].append(tuple(output.shape[2:]))

    handles = [model.get_submodule(n).register_forward_hook(functools.partial(note, n)) for n in wanted]
    _called(model, x[:2], handles)
    return {name: sizes[0] for name, sizes in seen.items() if len(sizes) == 1}


def _targets(
    taught: nn.Module,
    wanted: Mapping[str, Wanted],
    sizes: Mapping[str, tuple[int, ...]],
    places: Mapping[str, Places],
    x: Tensor,
) -> dict[str, Tensor]:
    """Return what is wanted of the layers at their places, (R, C) of the parent's channels."""
    found: dict[str, Tensor] = {}
    readers: dict[str, list[str]] = {}
    for name in sizes:
        readers.setdefault(wanted[name].source, []).append(name)

    def keep(source: str, _: nn.Module, __: object, output: Tensor) -> None:
        for name in readers[source]:
            size = sizes[name]
            if output.ndim != 2 + len(size):
                continue
            # Of another resolution: the mean over what a place covers.
            resized = output if tuple(output.shape[2:]) == size else F.interpolate(output, size=size, mode="area")
            found[name] = places[name].of(resized).clone()

    handles = [
        taught.get_submodule(source).register_forward_hook(functools.partial(keep, source)) for source in readers
    ]
    _called(taught, x, handles)
    return found


def _fitted(
    model: nn.Module,
    wanted: Mapping[str, Wanted],
    places: Mapping[str, Places],
    targets: Mapping[str, Tensor],
    x: Tensor,
) -> int:
    """Let the child compute, each layer fitted when its input is there; return how many were changed."""
    changed = [0]

    def before(name: str, layer: Layer, inputs: tuple[Tensor, ...]) -> None:
        rows = wanted[name].rows
        target = targets[name][:, rows.clamp_min(0)]
        if not fit(layer, inputs[0], places[name], target, rows != FRESH):
            return
        changed[0] += 1
        if wanted[name].norm:
            norm = model.get_submodule(wanted[name].norm)
            assert isinstance(norm, _BatchNorm)
            norm.weight.copy_(target.std(0))
            norm.bias.copy_(target.mean(0))

    handles = [model.get_submodule(n).register_forward_pre_hook(functools.partial(before, n)) for n in targets]
    _called(model, x, handles)
    return changed[0]


def _called(network: nn.Module, x: Tensor, handles: list[RemovableHandle]) -> None:
    try:
        network(x)
    finally:
        for handle in handles:
            handle.remove()
