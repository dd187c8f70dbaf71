"""Gradients sent with 16 bits for each number instead of 32: torch's own hooks."""

from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from detol.workers.communication.base import Communication


class Halves(Communication):
    """``fp16`` (11 bits of precision, up to 65,504) or ``bf16`` (8 bits, the range of float32)."""

    def hook(self, called: DistributedDataParallel) -> None:
        """Register torch's hook, under a name of our own: torch refuses its bf16 by name on gloo, which can do it."""
        chosen = fp16_compress_hook if self.recipe.communication == "fp16" else bf16_compress_hook

        def compress(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
            return cast("torch.futures.Future[Tensor]", chosen(group, bucket))

        called.register_comm_hook(called.process_group, compress)

    def count_step(self) -> None:
        """Count two bytes for each number."""
        self.meter.reduced(sum(2 * p.numel() for p in self.parameters))
