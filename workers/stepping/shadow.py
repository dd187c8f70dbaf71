"""Copies of all weights in a short format, made by one kernel for many of them instead of one for each."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class _Cast(torch.autograd.Function):
    """Tensors in another format; the gradients come back in the first."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
        torch._foreach_copy_(copies, list(tensors))
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        return tuple(copies)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        back = [torch.empty_like(one, dtype=dtype) for one, dtype in zip(gradients, ctx.dtypes, strict=True)]
        torch._foreach_copy_(back, list(gradients))
        return (None, *back)


class Shadow:
    """The weights of convolutions and linear layers in the format that they are multiplied in.

    Autocast does the same weight by weight: in a small network that is a tenth of all kernels.

    Args:
        groups: of weights, float32, that are copied together and whose gradients come together.
        dtype: of the copies; float32 for none.
    """

    def __init__(self, groups: Iterable[Iterable[Tensor]], dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._groups = [list(group) for group in groups] if dtype != torch.float32 else []
        self._group = {weight: index for index, group in enumerate(self._groups) for weight in group}
        self._copies: dict[Tensor, Tensor] = {}

    def renew(self) -> None:
        """Forget the copies: those that are asked for next are of the weights as they are then."""
        self._copies = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        """Return the copy of a weight, through which the gradient reaches it; any other tensor itself.

        A group is copied when the first of its weights is asked for: the engine of autograd goes through what was made
        last first, so the gradients of a group are there before those of the layers in front of it.
        """
        if tensor not in self._group:
            return tensor
        if tensor not in self._copies:
            group = self._groups[self._group[tensor]]
            self._copies |= zip(group, _Cast.apply(self._dtype, *group), strict=True)  # type: ignore[no-untyped-call]
        return self._copies[tensor]
