"""Kernels for 3x3 convolutions of few channels, in Triton; imported on GPUs alone.

Libraries cut a convolution into tiles of 64 or more output channels: with 16 channels three quarters of the work is for
nothing. Here a tile is as wide as there are channels. Layout: channels last, so that pixel m of all images together has
its channels at ``m * channels``. The sums are float32.
"""
# ruff: noqa: N803  constants of a kernel are written so

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 128
"""Pixels of a tile."""
PROGRAMS = 396
"""Programs of the weight gradient, three of which share a range of pixels: three for each multiprocessor."""


@triton.jit  # type: ignore[untyped-decorator]
def _convolve(  # type: ignore[no-untyped-def]
    x, w, y, total, height, width, s_in, s_out, s_tap,
    INNER: tl.constexpr, OUTER: tl.constexpr, FLIP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[m, o] = sum over taps t and channels c of x[m + shift(t), c] * w[c, o, t]; FLIP: w[c, o, 8 - t]."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = m < total
    column, row = m % width, (m // width) % height
    c, o = tl.arange(0, INNER), tl.arange(0, OUTER)
    total_sum = tl.zeros((BLOCK, OUTER), tl.float32)
    for tap in tl.static_range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        there = inside & (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
        a = tl.load(x + (m + down * width + right)[:, None] * INNER + c[None, :], mask=there[:, None], other=0.0)
        place = 8 - tap if FLIP else tap
        b = tl.load(w + c[:, None] * s_in + o[None, :] * s_out + place * s_tap)
        total_sum += tl.dot(a, b)
    tl.store(y + m[:, None] * OUTER + o[None, :], total_sum.to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit  # type: ignore[untyped-decorator]
def _weigh(  # type: ignore[no-untyped-def]
    x, g, dw, total, height, width,
    STEPS: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dw[t, o, c] += sum over pixels m of g[m, o] * x[m + shift(t), c], for the three taps t of one row."""
    down = tl.program_id(1) - 1
    c, o = tl.arange(0, INNER), tl.arange(0, OUTER)
    left = tl.zeros((OUTER, INNER), tl.float32)
    middle = tl.zeros((OUTER, INNER), tl.float32)
    right = tl.zeros((OUTER, INNER), tl.float32)
    for step in range(STEPS):
        m = (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        inside = m < total
        column, row = m % width, (m // width) % height
        grad = tl.load(g + m[None, :] * OUTER + o[:, None], mask=inside[None, :], other=0.0)
        there = inside & (row + down >= 0) & (row + down < height)
        at = x + (m + down * width)[:, None] * INNER + c[None, :]
        left += tl.dot(grad, tl.load(at - INNER, mask=(there & (column > 0))[:, None], other=0.0))
        middle += tl.dot(grad, tl.load(at, mask=there[:, None], other=0.0))
        right += tl.dot(grad, tl.load(at + INNER, mask=(there & (column < width - 1))[:, None], other=0.0))
    to = dw + (down + 1) * 3 * OUTER * INNER + o[:, None] * INNER + c[None, :]
    tl.atomic_add(to, left)
    tl.atomic_add(to + OUTER * INNER, middle)
    tl.atomic_add(to + 2 * OUTER * INNER, right)


class Convolution(torch.autograd.Function):
    """A 3x3 convolution of stride 1 with zeros around, without bias: x (B, I, H, W), weight (O, I, 3, 3)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Return (B, O, H, W)."""
        ctx.save_for_backward(x, weight)
        return _run(x, weight, weight.shape[0], flip=False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of x and of the weight, where they are wanted."""
        x, weight = ctx.saved_tensors
        g = gradients[0].contiguous(memory_format=torch.channels_last)
        to_x = _run(g, weight, x.shape[1], flip=True) if ctx.needs_input_grad[0] else None
        return to_x, _to_weight(x, g, weight) if ctx.needs_input_grad[1] else None


def _run(x: Tensor, weight: Tensor, channels: int, *, flip: bool) -> Tensor:
    count, inner, height, width = x.shape
    y = torch.empty((count, channels, height, width), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    total = count * height * width
    s_out, s_in, _, s_tap = weight.stride()
    strides = (s_out, s_in) if flip else (s_in, s_out)
    grid = (triton.cdiv(total, BLOCK),)
    _convolve[grid](
        x, weight, y, total, height, width, *strides, s_tap, INNER=inner, OUTER=channels, FLIP=flip, BLOCK=BLOCK
    )
    return y


def _to_weight(x: Tensor, g: Tensor, weight: Tensor) -> Tensor:
    count, inner, height, width = x.shape
    outer, total = g.shape[1], count * height * width
    steps = max(1, triton.cdiv(total, BLOCK * (PROGRAMS // 3)))
    sums = torch.zeros((3, 3, outer, inner), device=x.device)
    grid = (triton.cdiv(total, BLOCK * steps), 3)
    _weigh[grid](x, g, sums, total, height, width, STEPS=steps, INNER=inner, OUTER=outer, BLOCK=BLOCK)
    return torch.empty_like(weight).copy_(sums.permute(2, 3, 0, 1))


def fits(x: Tensor, weight: Tensor) -> bool:
    """Return whether the kernels compute a convolution: few channels, a short format, channels last."""
    return (
        x.dim() == 4
        and weight.shape[2:] == (3, 3)
        and x.numel() < 2**30  # places are counted in 32 bits
        and weight.shape[0] in (16, 32)
        and weight.shape[1] in (16, 32)
        and x.dtype in (torch.bfloat16, torch.float16)
        and weight.dtype == x.dtype
        and weight.stride(2) == 3 * weight.stride(3)
        and x.is_contiguous(memory_format=torch.channels_last)
    )
