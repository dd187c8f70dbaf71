"""What the ranks of ``test_sync_norm`` run; loaded by their processes from this file."""

import io

import torch
import torch.distributed as dist
from torch import nn

from detol.workers.sync_norm import synchronise_norms


def normed(group, cases):
    """Normalise this rank's shard of each case; yield what came of it, as bytes: a tensor would end with its rank."""
    ranks = group._connection.norms
    device = "cuda" if dist.get_backend(ranks) == "nccl" else "cpu"
    for case in cases:
        written = io.BytesIO()
        torch.save(one(ranks, group.shard(len(case["x"])), device=device, **case), written)
        yield written.getvalue()


def one(ranks, shard, x, slopes, affine=True, momentum=0.1, passes=1, device="cpu"):
    """Return outputs and gradients of a shard whose loss is the outputs times some slopes, and the running numbers."""
    norm = fresh(x, affine, momentum).to(device)
    norm = synchronise_norms(norm, ranks)
    assert type(norm).__name__ == "SyncNorm"
    mine = x[shard].to(device, copy=True).requires_grad_(True)
    for _ in range(passes):
        y = norm(mine)
    (y * slopes[shard].to(device)).sum().backward()
    found = {"y": y.detach(), "x": mine.grad, "mean": norm.running_mean, "variance": norm.running_var}
    return {name: value.cpu() for name, value in (found | {n: p.grad for n, p in norm.named_parameters()}).items()}


def fresh(x, affine=True, momentum=0.1):
    """Return a batch norm with weights that are not 1 and 0, in the format of the samples, or 32 bit."""
    kind = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d}[x.dim()]
    exact = x.dtype if x.dtype is torch.float64 else torch.float32
    norm = kind(x.shape[1], affine=affine, momentum=momentum, dtype=exact)
    if affine:
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(-1, 2, x.shape[1]))
            norm.bias.copy_(torch.linspace(3, -1, x.shape[1]))
    return norm
