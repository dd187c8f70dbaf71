"""Dynamic scaling of the loss: gradients in float16 are kept away from zero and from infinity."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

FIRST = 2.0**16
GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000
"""Factors, and the steps without an overflow after which the scale grows (Micikevicius et al. 2018, arXiv 1710.03740,
section 3.2; the numbers are torch's)."""
_FACTOR, _GOOD = "loss_scale", "loss_scale_steps"


class LossScale:
    """The scale, on the device: no step waits for it, so a step with it can be recorded.

    Args:
        device: of training.
    """

    def __init__(self, device: torch.device) -> None:
        self._factor = torch.full((), FIRST, device=device)
        self._good = torch.zeros((), dtype=torch.int32, device=device)
        self._one = torch.ones((), device=device)

    def __call__(self, loss: Tensor) -> Tensor:
        """Return the scaled loss."""
        return loss * self._factor

    def unscale(self, gradients: Sequence[Tensor]) -> Tensor:
        """Divide gradients by the scale, in place; return a scalar that is 1 where one of them is not finite."""
        overflow = torch.zeros_like(self._factor)
        if gradients:
            inverse = self._one / self._factor
            torch._amp_foreach_non_finite_check_and_unscale_(list(gradients), overflow, inverse)
        return overflow

    def update(self, overflow: Tensor) -> None:
        """Halve the scale after an overflow; double it after many steps without one."""
        torch._amp_update_scale_(self._factor, self._good, overflow, GROWTH, BACKOFF, INTERVAL)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What changes from step to step."""
        return self._factor, self._good

    def facts(self) -> dict[str, str]:
        """Return its state as texts by name."""
        return {_FACTOR: repr(self._factor.item()), _GOOD: repr(int(self._good.item()))}

    def restore(self, facts: Mapping[str, str]) -> None:
        """Take over what :meth:`facts` gave."""
        if _FACTOR in facts:
            self._factor.fill_(float(facts[_FACTOR]))
            self._good.fill_(int(facts[_GOOD]))
