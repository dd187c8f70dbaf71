"""One convolution or linear layer fitted to outputs that are wanted of it: ridge regression about its own weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Convolution: TypeAlias = nn.Conv1d | nn.Conv2d | nn.Conv3d
Layer: TypeAlias = Convolution | nn.Linear

RIDGE = 1e-3
"""Of the mean square of a layer's inputs. From 1e-4 to 1e-2 it makes no difference to what a child knows."""
CLOSE = 1e-4
"""Share of its variance by which each output may miss what is wanted of it for a layer to be left as it is."""
TINY = 1e-12
"""Mean square up to which an output that is always the same may miss it."""
LARGEST = 4608
"""Inputs of one output (512 channels of 3x3) beyond which a layer is left as it is: solving takes their cube."""
CHUNK = 2048
"""Rows that are laid out at once."""


def can_fit(module: nn.Module) -> bool:
    """Return whether a module is a layer that can be fitted."""
    if isinstance(module, nn.Linear):
        return module.in_features <= LARGEST
    return (
        isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
        and module.weight[0].numel() <= LARGEST
    )


@dataclass(frozen=True)
class Places:
    """Places of a layer's output: R of them.

    Args:
        samples: (R,) int64.
        axes: for each axis behind the channels (R,) int64; none of a linear layer.
    """

    samples: Tensor
    axes: tuple[Tensor, ...] = ()

    @classmethod
    def drawn(cls, count: int, size: Sequence[int], most: int, device: torch.device) -> "Places":
        """Return all places of ``count`` samples of some size, or ``most`` of them at random, always the same."""
        total = count * math.prod(size)
        flat = torch.arange(total)
        if total > most:
            flat = torch.randperm(total, generator=torch.Generator().manual_seed(0))[:most]
        found = torch.unravel_index(flat.to(device), (count, *size))
        return cls(found[0], tuple(found[1:]))

    def of(self, values: Tensor) -> Tensor:
        """Return what is at the places: (B, C, ...) -> (R, C)."""
        return values.movedim(1, -1)[(self.samples, *self.axes)]

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int) -> "Places":
        """Return a chunk of the places."""
        end = start + CHUNK
        return Places(self.samples[start:end], tuple(axis[start:end] for axis in self.axes))


def fit(layer: Layer, entering: Tensor, places: Places, wanted: Tensor, rows: Tensor) -> bool:
    """Set a layer's weights such that its output is as near as can be to what is wanted; return whether they changed.

    Minimises |Y - X W|^2 + ridge |W - W0|^2 over the weights W of the rows, X and Y about their means (He, Zhang and
    Sun 2017, arXiv 1707.06168, eq. 1, second step, for whole layers). The mean is put into the bias; where there is
    none, what follows has to take it out (a norm, or a further layer).

    Args:
        layer: one that :func:`can_fit`; its weights W0 are changed in place.
        entering: (B, C, ...) its input.
        places: R places of its output.
        wanted: (R, outputs) at those places.
        rows: (outputs,) bool: outputs of which something is wanted.
    """
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    outputs, weight, count = layer.weight.shape[0], layer.weight.detach(), len(places)
    start = weight.reshape(groups, outputs // groups, -1).transpose(1, 2).double()
    chosen = rows.reshape(groups, 1, -1)
    zero = torch.zeros((), dtype=torch.float64, device=weight.device)
    square, product, seen, aimed, energy = zero, zero, zero, zero, zero
    aim, padded = wanted.double().reshape(count, groups, -1).transpose(0, 1), _padded(layer, entering)
    for at in range(0, count, CHUNK):
        x = _laid_out(layer, padded, places.part(at)).double().reshape(-1, groups, start.shape[1]).transpose(0, 1)
        y = aim[:, at : at + CHUNK]
        square, product = square + x.transpose(1, 2) @ x, product + x.transpose(1, 2) @ y
        seen, aimed, energy = seen + x.sum(1), aimed + y.sum(1), energy + (y * y).sum(1)
    seen, aimed = seen[:, None] / count, aimed[:, None] / count
    square = square - count * seen.transpose(1, 2) @ seen
    product = product - count * seen.transpose(1, 2) @ aimed
    total = energy[:, None] - count * aimed**2
    missed = total - 2 * (start * product).sum(1, keepdim=True) + (start * (square @ start)).sum(1, keepdim=True)
    if layer.bias is not None:
        missed = missed + count * (seen @ start + layer.bias.double().reshape(groups, 1, -1) - aimed) ** 2
    if not bool(((missed > CLOSE * total + TINY * count) & chosen).any()):
        return False  # also where something is not a number
    ridge = RIDGE * square.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-9)
    lhs = square + ridge[:, None, None] * torch.eye(square.shape[1], dtype=square.dtype, device=square.device)
    factor, failed = torch.linalg.cholesky_ex(lhs)
    found = start + torch.cholesky_solve(product - square @ start, factor)
    if failed.any() or not torch.isfinite(found).all():
        return False
    found = torch.where(chosen, found, start)
    with torch.no_grad():
        layer.weight.copy_(found.transpose(1, 2).reshape(weight.shape))
        if layer.bias is not None:
            bias = (aimed - seen @ found).reshape(outputs).to(layer.bias.dtype)
            layer.bias.copy_(torch.where(rows, bias, layer.bias))
    return True


def _padded(layer: Layer, entering: Tensor) -> Tensor:
    """Return the input with the zeros around it that a convolution sees."""
    if isinstance(layer, nn.Linear):
        return entering
    assert not isinstance(layer.padding, str)
    return F.pad(entering, [side for size in reversed(layer.padding) for side in (size, size)])


def _laid_out(layer: Layer, padded: Tensor, places: Places) -> Tensor:
    """Return what a layer multiplies at some places: (R, C, *kernel), or (R, C) of a linear one."""
    if isinstance(layer, nn.Linear):
        return places.of(padded)
    offsets = torch.cartesian_prod(*map(torch.arange, layer.kernel_size)).reshape(-1, len(layer.kernel_size))
    parts = []
    for offset in offsets.tolist():
        axes = zip(places.axes, layer.stride, offset, layer.dilation, strict=True)
        at = tuple(axis * stride + shift * dilation for axis, stride, shift, dilation in axes)
        parts.append(Places(places.samples, at).of(padded))
    return torch.stack(parts, dim=-1)
