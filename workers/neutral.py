"""Setting new nodes such that they pass on what enters them, or give zeros; and their norms by what enters them."""

from collections.abc import Iterable, Iterator, MutableMapping

import torch
from torch import Tensor, nn

from detol.graph.flat import FlatNode
from detol.graph.units import Units
from detol.workers.folding import LAYERS

State = MutableMapping[str, Tensor]
EPS = 1e-5
"""Of torch's batch norm: its scale is sqrt(variance + EPS)."""


def set_identity(state: State, units: Units, node: str, flat: FlatNode) -> list[str]:
    """Set a node's weights to an identity; return the modules of its norms.

    Args:
        state: of the network, changed in place.
        units: of the network.
        node: one that ``detol.graph.neutral.can_be_identity``.
        flat: the node.
    """
    module, kind, count = units.modules[node], flat.operation.kind, flat.before[0]
    norms = []
    if kind == "norm":
        norms = [module]
    elif kind == "mbconv":
        inner = module + ".depthwise"
        if f"{module}.expand.conv.weight" in state:
            _eye(state, f"{module}.expand.conv.weight", rows=count)
            norms.append(f"{module}.expand.norm")
        _centre(state, f"{inner}.conv.weight", count)
        _eye(state, f"{module}.project.conv.weight", rows=count)
        norms += [f"{inner}.norm", f"{module}.project.norm"]
    else:
        if kind == "sepconv":
            _centre(state, f"{module}.depthwise.weight", count)
        _eye(state, f"{module}.{LAYERS[kind]}.weight", rows=count)
        norms = [f"{module}.norm"] if flat.operation["norm"] else []
        if f"{module}.{LAYERS[kind]}.bias" in state:
            state[f"{module}.{LAYERS[kind]}.bias"][:count] = 0
    for norm in norms:
        state[f"{norm}.weight"][:count] = (state[f"{norm}.running_var"][:count] + EPS).sqrt()
        state[f"{norm}.bias"][:count] = state[f"{norm}.running_mean"][:count]
    return norms


def set_zero(state: State, units: Units, node: str, flat: FlatNode) -> None:
    """Set a node such that it gives zeros: its last norm's scale and shift, or its last layer's weight and bias.

    Arguments as of :func:`set_identity`, for a node that ``detol.graph.neutral.can_be_zero``.
    """
    module, kind = units.modules[node], flat.operation.kind
    if kind == "norm":
        last = module
    elif kind == "mbconv":
        last = f"{module}.project.norm"
    else:
        last = f"{module}.norm" if flat.operation["norm"] else f"{module}.{LAYERS[kind]}"
    state[f"{last}.weight"].zero_()
    state[f"{last}.bias"].zero_()


def _eye(state: State, name: str, rows: int) -> None:
    """Set the first ``rows`` rows to the identity at the middle of the kernel; further columns of them are zero."""
    weight = state[name]
    weight[:rows] = 0
    middle = tuple(size // 2 for size in weight.shape[2:])
    for row in range(rows):
        weight[(row, row, *middle)] = 1


def _centre(state: State, name: str, rows: int) -> None:
    weight = state[name]
    weight[:rows] = 0
    middle: tuple[int, ...] = tuple(size // 2 for size in weight.shape[2:])
    weight[:rows, 0].movedim(0, -1)[middle] = 1


def calibrate(network: nn.Module, norms: Iterable[str], batch: Tensor) -> None:
    """Set norms that start as identities by what enters them, so that they are identities in training as well.

    Batch norm takes the mean and the variance of the batch out; scale and shift put them back (Net2Net, arXiv
    1511.05641, section 2.3). Each norm is set before the next is measured.

    Args:
        network: in which they are; its other buffers stay as they are.
        norms: keys of the modules.
        batch: (B, *shape) samples as the network is trained on, B >= 2.
    """
    mode = network.training
    network.eval()
    with torch.no_grad():
        for name in norms:
            norm = network.get_submodule(name)
            assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
            for entering in _entering(network, norm, batch):
                values = entering.transpose(0, 1).flatten(1).float()
                mean, variance = values.mean(1), values.var(1)
                assert norm.running_mean is not None
                assert norm.running_var is not None
                # Only what is the identity: inner units beyond it are fresh.
                same = torch.isclose(norm.weight, (norm.running_var + EPS).sqrt()) & (norm.bias == norm.running_mean)
                norm.running_mean[same], norm.running_var[same] = mean[same], variance[same]
                norm.weight[same], norm.bias[same] = (variance[same] + EPS).sqrt(), mean[same]
    network.train(mode)


def _entering(network: nn.Module, module: nn.Module, batch: Tensor) -> Iterator[Tensor]:
    seen: list[Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        network(batch)
    finally:
        handle.remove()
    return iter(seen)
