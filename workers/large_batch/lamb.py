"""LAMB: Adam whose every layer moves in proportion to its weights (You et al. 2020, arXiv 1904.00962, algorithm 2)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from detol.workers.large_batch.trust import LayerWise, trust_ratios


class Lamb(LayerWise):
    """Layer-wise adaptive moments.

    For a layer with weights w, gradient g and decay b, at rate r in step t (algorithm 2, with the bias correction of
    Adam and the identity as the scaling function)::

        m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
        u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + b w
        w <- w - r (|w| / |u|) u

    Groups with ``adapted=False`` (norms and biases) have no ratio.

    Args:
        params: as of any optimiser of torch; a group may hold ``weight_decay`` and ``adapted``.
        lr: r, > 0.
        betas: (b1, b2), each in [0, 1).
        eps: > 0.
        weight_decay: b, >= 0.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapted": True})

    def _move(self, group: dict[str, Any], weights: list[Tensor], gradients: list[Tensor]) -> None:
        for weight in weights:
            if "exp_avg" not in self.state[weight]:
                self.state[weight] |= {
                    "step": torch.zeros((), device=weight.device),
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
        steps, first, second = (
            [self.state[weight][key] for weight in weights] for key in ("step", "exp_avg", "exp_avg_sq")
        )
        beta1, beta2 = group["betas"]
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        # In double precision: 1 - 0.999 has three digits less than 0.999.
        counts = [step.double() for step in steps]
        updates = [moment / (1 - beta1**count) for moment, count in zip(first, counts, strict=True)]
        scales = [(moment / (1 - beta2**count)).sqrt_() for moment, count in zip(second, counts, strict=True)]
        torch._foreach_add_(scales, group["eps"])
        torch._foreach_div_(updates, scales)
        torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        if group["adapted"]:
            torch._foreach_mul_(updates, trust_ratios(weights, updates))
        torch._foreach_mul_(updates, group["lr"])
        torch._foreach_sub_(weights, updates)
