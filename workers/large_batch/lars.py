"""LARS: momentum SGD whose every layer has a rate of its own (You et al. 2017, arXiv 1708.03888, algorithm 1)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from detol.workers.large_batch.trust import LayerWise, trust_ratios

TRUST = 0.001
"""The trust coefficient of the paper."""


class Lars(LayerWise):
    """Layer-wise adaptive rate scaling.

    For a layer with weights w, gradient g, decay b and coefficient c, at rate r (algorithm 1)::

        l = c |w| / (|g| + b |w|);  v <- m v + r l (g + b w);  w <- w - v

    Groups with ``adapted=False`` (norms and biases) have l = 1, as in the author's later work.

    Args:
        params: as of any optimiser of torch; a group may hold ``weight_decay`` and ``adapted``.
        lr: r, > 0.
        momentum: m, in [0, 1).
        weight_decay: b, >= 0.
        trust: c, > 0.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = TRUST,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "adapted": True}
        super().__init__(params, defaults)

    def _move(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        decay = group["weight_decay"]
        directions = torch._foreach_add(gradients, weights, alpha=decay)
        if group["adapted"]:
            norms, large = torch._foreach_norm(gradients), torch._foreach_norm(weights)
            lengths = [norm + decay * size for norm, size in zip(norms, large, strict=True)]
            torch._foreach_mul_(directions, trust_ratios(weights, lengths, group["trust"]))
        torch._foreach_mul_(directions, group["lr"])
        for weight in weights:
            if "momentum_buffer" not in self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        velocities = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_add_(velocities, directions)
        torch._foreach_sub_(weights, velocities)
