"""Copies of all weights in a short format, made by one kernel for all of them instead of one for each."""

from collections.abc import Iterable, Mapping
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
        weights: float32.
        dtype: of the copies; float32 for none.
    """

    def __init__(self, weights: Iterable[Tensor], dtype: torch.dtype) -> None:
        self._weights = list(weights) if dtype != torch.float32 else []
        self._dtype = dtype

    def fresh(self) -> Mapping[Tensor, Tensor]:
        """Return copies of the weights as they are now, through which gradients reach them."""
        if not self._weights:
            return {}
        return dict(zip(self._weights, _Cast.apply(self._dtype, *self._weights), strict=True))  # type: ignore[no-untyped-call]
