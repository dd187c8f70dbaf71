"""Batch norm whose statistics are taken over all ranks, on any device that the process group serves.

``torch.nn.SyncBatchNorm`` works on accelerators only; this one also on CPU, by gloo.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm


class _Normal(torch.autograd.Function):
    """Values normalised by the statistics of all ranks, scaled and shifted; one message each way.

    Each rank's samples move every rank's loss, so the sums of the gradients are those of all ranks too.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,  # noqa: A002  the name in torch
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        group: "dist.ProcessGroup",
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        value = _exact(input)
        axes, shape = _others(value)
        count = value.numel() // value.shape[1]
        own = value.sum(axes) / max(1, count)
        centred = value - own.view(shape)
        part = torch.cat([own, centred.square().sum(axes), own.new_full((1,), count)])
        mean, variance, total = _combined(_gathered(part, group))
        beside, rate = own - mean, torch.rsqrt(variance + eps)
        normal = (centred + beside.view(shape)) * rate.view(shape)
        if weight is not None and bias is not None:
            normal = normal * weight.view(shape) + bias.view(shape)
        ctx.save_for_backward(input, weight, own, beside, rate, total)
        ctx.group = group
        ctx.mark_non_differentiable(mean, variance, total)
        return normal.to(input.dtype), mean, variance, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        input, weight, own, beside, rate, total = ctx.saved_tensors  # noqa: A001
        gradient = _exact(gradients[0])
        axes, shape = _others(gradient)
        normal = ((_exact(input) - own.view(shape)) + beside.view(shape)) * rate.view(shape)
        shifts, scales = gradient.sum(axes), (gradient * normal).sum(axes)
        moved = None
        if ctx.needs_input_grad[0]:
            sums = torch.cat([shifts, scales])
            dist.all_reduce(sums, group=ctx.group)
            # Ioffe and Szegedy 2015, section 3, with both terms of the mean and the variance taken together:
            # dL/dx = w / sigma (g - mean(g) - normal mean(g normal)).
            shift, scale = (sums / total).view(2, -1)
            moved = gradient - shift.view(shape) - normal * scale.view(shape)
            moved = (moved * (rate if weight is None else rate * weight).view(shape)).to(input.dtype)
        return moved, *((None, None) if weight is None else (scales, shifts)), None, None


def _exact(values: Tensor) -> Tensor:
    """Return values in 32 bit, or in 64 where they are."""
    return values if values.dtype is torch.float64 else values.float()


def _others(values: Tensor) -> tuple[list[int], list[int]]:
    """Return all axes but that of the channels, and the shape in which a number a channel meets the values."""
    return [0, *range(2, values.dim())], [1, values.shape[1], *[1] * (values.dim() - 2)]


def _gathered(part: Tensor, group: "dist.ProcessGroup") -> Tensor:
    """Return the parts of all ranks, (ranks, numbers), the same to the bit on each.

    By a sum in which each rank has a row of its own: gloo adds up what lies on a GPU too, and a recorded step may hold
    it.
    """
    parts = part.new_zeros((dist.get_world_size(group), len(part)))
    parts[dist.get_rank(group)] = part
    dist.all_reduce(parts, group=group)
    return parts


def _combined(parts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean (C,), variance (C,) and number of samples (1,) of all, from those of parts.

    Chan, Golub and LeVeque 1979 (Stanford STAN-CS-79-773, equations 2.1), for any number of parts: sums of squared
    deviations from each part's own mean add up, and so do n (mean - mean of all)^2. Unlike E[x^2] - E[x]^2 no large
    numbers cancel where the mean is large against the deviation.

    Args:
        parts: (ranks, 2 C + 1): means, sums of squared deviations from them, and how many samples they are of.
    """
    channels = parts.shape[1] // 2
    means, squares, counts = parts[:, :channels], parts[:, channels:-1], parts[:, -1:]
    total = counts.sum(0)
    mean = means[0] + (counts * (means - means[0])).sum(0) / total
    variance = (squares + counts * (means - mean).square()).sum(0) / total
    return mean, variance, total


def _normal(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return normalised values, and of all ranks the mean, the variance and the number of samples."""
    found: tuple[Tensor, Tensor, Tensor, Tensor] = _Normal.apply(*arguments)  # type: ignore[no-untyped-call]
    return found


class SyncNorm(_BatchNorm):
    """Batch norm over the samples of all ranks (Ioffe and Szegedy 2015, arXiv 1502.03167, algorithm 1).

    Input (B, C, ...); weights, buffers and state names as in ``torch.nn.BatchNorm2d``.

    Attributes:
        group: the ranks.
        alone: whether it asks no other rank for now: all see the same samples, or this one alone any.
    """

    group: "dist.ProcessGroup"
    alone = False

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002  the name in torch
        if input.dim() < 2:
            raise ValueError(f"batch norm needs at least 2 axes, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name in torch
        """Normalise with the statistics of all ranks in training, with the running ones in evaluation."""
        if not self.training or self.alone:
            return super().forward(input)
        normal, mean, variance, total = _normal(input, self.weight, self.bias, self.eps, self.group)
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                rate = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
                unbiased = variance * (total / (total - 1).clamp_min(1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), rate)
        return normal


def synchronise_norms(module: nn.Module, group: "dist.ProcessGroup") -> nn.Module:
    """Replace every batch norm inside ``module`` by one over all ranks of ``group``; return the module.

    The parameters and buffers are the same tensors under the same names. Those that are replaced already get the new
    group.
    """
    if isinstance(module, SyncNorm):
        module.group = group
        return module
    if isinstance(module, _BatchNorm):
        norm = SyncNorm(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
        norm.weight, norm.bias = module.weight, module.bias
        norm.running_mean, norm.running_var = module.running_mean, module.running_var
        norm.num_batches_tracked = module.num_batches_tracked
        norm.group = group
        norm.training = module.training
        return norm
    for name, child in module.named_children():
        setattr(module, name, synchronise_norms(child, group))
    return module
