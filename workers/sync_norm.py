"""Batch norm whose statistics are taken over all ranks, on any device that the process group serves.

``torch.nn.SyncBatchNorm`` works on accelerators only; this one also on CPU, by gloo.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class _Sum(torch.autograd.Function):
    """Elementwise sum over the ranks; each rank's part moves every rank's loss, so the gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: "dist.ProcessGroup") -> Tensor:
        ctx.group = group
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def _summed(part: Tensor, group: "dist.ProcessGroup") -> Tensor:
    total: Tensor = _Sum.apply(part, group)  # type: ignore[no-untyped-call]
    return total


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
        axes = [0, *range(2, input.dim())]
        value = input.float()
        count = value.new_full((1,), value.numel() / value.shape[1])
        sums = _summed(torch.cat([value.sum(axes), value.square().sum(axes), count]), self.group)
        channels = value.shape[1]
        total = sums[-1]
        mean = sums[:channels] / total
        variance = (sums[channels:-1] / total - mean.square()).clamp_min(0)
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                rate = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
                self.running_mean.lerp_(mean.detach(), rate)
                self.running_var.lerp_(variance.detach() * (total / (total - 1)), rate)
        shape = [1, channels, *[1] * (input.dim() - 2)]
        normal = (value - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal.to(input.dtype)


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
