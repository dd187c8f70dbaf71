"""The trust ratio of a layer: how far it may move, measured by how large its weights are."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class LayerWise(Optimizer):
    """An optimiser that moves the weights of a group together, each by its own trust ratio."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step. ``closure``: gives the loss anew, with gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if weights:
                self._move(group, weights, [p.grad for p in weights])
        return loss

    @abstractmethod
    def _move(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None: ...


def trust_ratios(weights: Sequence[Tensor], steps: Sequence[Tensor], factor: float = 1.0) -> list[Tensor]:
    """Return ``factor * |w| / |s|`` for each pair, scalars on their device; 1 where a norm is zero.

    Nothing waits for the device, so that a CUDA graph can hold it.
    """
    found = []
    for weight, step in zip(torch._foreach_norm(list(weights)), torch._foreach_norm(list(steps)), strict=True):
        usable = (weight > 0) & (step > 0)
        found.append(torch.where(usable, factor * weight / torch.where(usable, step, 1.0), 1.0))
    return found
