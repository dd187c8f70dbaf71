"""What the ranks of ``test_sync_norm`` run; loaded by their processes from this file."""

import io

import torch
from torch import nn

from detol.workers.sync_norm import synchronise_norms


def normed(group, cases):
    """Normalise this rank's shard of each case; yield what came of it, as bytes: a tensor would end with its rank."""
    for case in cases:
        written = io.BytesIO()
        torch.save(one(group._connection.norms, group.shard(len(case["x"])), **case), written)
        yield written.getvalue()


def one(ranks, shard, x, slopes, affine=True, momentum=0.1, passes=1):
    """Return outputs and gradients of a shard whose loss is the outputs times some slopes, and the running numbers."""
    norm = fresh(x, affine, momentum)
    norm = synchronise_norms(norm, ranks)
    assert type(norm).__name__ == "SyncNorm"
    mine = x[shard].clone().requires_grad_(True)
    for _ in range(passes):
        y = norm(mine)
    (y * slopes[shard]).sum().backward()
    found = {"y": y.detach(), "x": mine.grad, "mean": norm.running_mean, "variance": norm.running_var}
    return found | {name: p.grad for name, p in norm.named_parameters()}


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
