"""A child's layers fitted, one after the other, to what its parent's layers give: for edits that no rule preserves.

``morph`` keeps a function only where the edit allows it. What it cannot keep is mended from data before the first step:
each layer that has a counterpart is fitted by least squares to the counterpart's output, given what enters it now. That
is the reconstruction of pruned networks (He, Zhang and Sun 2017, arXiv 1707.06168, section 3; asymmetric: the inputs
are those of the changed network) for edits of all kinds. It takes a few forward passes on some samples.
"""

import functools
import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from detol.graph.flat import flat
from detol.graph.shapes import number
from detol.graph.topology import Topology
from detol.graph.unit_map import FRESH
from detol.search.records import Transfer
from detol.workers.counterparts import Wanted, counterparts
from detol.workers.least_squares import Layer, Places, fit
from detol.workers.parent import by_batches
from detol.workers.tensors import Tensors
from detol.workers.transfer import Inherited

SAMPLES = 1024
"""Training samples that are looked at, spread over the split: all ranks see the same. Half do nearly as well."""
VALUES = 2**24
"""Numbers in the largest activation of those samples, at most: fewer large samples are taken, at least ``FEWEST``."""
FEWEST = 64
SAME = 1e-8
"""Share of the variance of the parent's outputs by which a child may differ that computes the same. Rounding makes a
difference of 1e-13, the smallest edit that takes something away 5e-4."""
ROWS = 16_384
"""Places of a layer's output by which it is fitted, at most."""


def reconstruct(
    model: nn.Module,
    topology: Topology,
    taught: nn.Module,
    parent: Topology,
    inherited: Inherited,
    transfer: Transfer,
    data: Tensors,
) -> int:
    """Fit the layers of a child to its parent's, in the order in which they compute; return how many were changed.

    A child that computes what its parent does stays as it is, bit for bit. In another one layers that give what is
    wanted keep their weights, and all norms have the statistics of the samples, as in training.

    Args:
        model: the child with what it inherited, on the device of the data; changed in place.
        topology: the child's.
        taught: the parent as it was trained, on the same device; its norms' statistics are lost.
        parent: its topology.
        inherited: how the child's tensors come from the parent's.
        transfer: which nodes correspond.
        data: that the child is going to be trained on.
    """
    count = min(SAMPLES, max(FEWEST, VALUES // _largest(topology, parent, data)))
    rows = data.some(count).x
    if len(rows) < FEWEST or _same(model, taught, x := data.standardised(rows)):
        return 0
    wanted = counterparts(model, topology, taught, parent, inherited, transfer, data)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    modes = {name: module.training for name, module in model.named_modules()}
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # the samples' statistics stay
    with torch.no_grad():
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


def _largest(topology: Topology, parent: Topology, data: Tensors) -> int:
    """Return how many numbers of a sample are in the largest activation of both, those inside ``mbconv`` too."""
    sizes = [math.prod(data.shape)]
    for node in (*flat(topology, data.shape).values(), *flat(parent, data.shape).values()):
        wider = number(node.operation, "expand") if node.operation.kind == "mbconv" else 1
        sizes.append(max(math.prod(node.before), math.prod(node.after)) * wider)
    return max(sizes)


def _same(model: nn.Module, taught: nn.Module, x: Tensor) -> bool:
    """Return whether two networks compute the same, in evaluation."""
    modes = [module.training for module in model.modules()]
    with torch.no_grad():
        one, other = model.eval()(x).double(), taught.eval()(x).double()
    for module, mode in zip(model.modules(), modes, strict=True):
        module.training = mode
    return bool(((one - other) ** 2).mean() <= SAME * other.var())


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
        if not target.isfinite().all():
            return
        known = rows != FRESH
        changed[0] += fit(layer, inputs[0], places[name], target, known) or bool(wanted[name].norm)
        if wanted[name].norm:
            norm = model.get_submodule(wanted[name].norm)
            assert isinstance(norm, _BatchNorm)
            norm.weight.copy_(torch.where(known, target.std(0), norm.weight))
            norm.bias.copy_(torch.where(known, target.mean(0), norm.bias))

    handles = [model.get_submodule(n).register_forward_pre_hook(functools.partial(before, n)) for n in targets]
    _called(model, x, handles)
    return changed[0]


def _called(network: nn.Module, x: Tensor, handles: list[RemovableHandle]) -> None:
    try:
        network(x)
    finally:
        for handle in handles:
            handle.remove()
