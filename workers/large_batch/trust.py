"""The trust ratio of a layer: how far it may move, measured by how large its weights are."""

from collections.abc import Sequence

import torch
from torch import Tensor


def trust_ratios(weights: Sequence[Tensor], steps: Sequence[Tensor], factor: float = 1.0) -> list[Tensor]:
    """Return ``factor * |w| / |s|`` for each pair, scalars on their device; 1 where a norm is zero.

    Nothing waits for the device, so that a CUDA graph can hold it.
    """
    found = []
    for weight, step in zip(torch._foreach_norm(list(weights)), torch._foreach_norm(list(steps)), strict=True):
        usable = (weight > 0) & (step > 0)
        found.append(torch.where(usable, factor * weight / torch.where(usable, step, 1.0), 1.0))
    return found
