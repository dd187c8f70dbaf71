"""Gradients sent with 16 bits for each number instead of 32: torch's own hooks."""

from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from detol.workers.communication.base import Communication


class Halves(Communication):
    """``fp16`` (11 bits of precision, up to 65,504) or ``bf16`` (8 bits, the range of float32)."""

    def hook(self, called: DistributedDataParallel) -> None:
        """Register torch's hook, not by its name: by that torch refuses bf16 on gloo, which can do it."""
        chosen = fp16_compress_hook if self.recipe.communication == "fp16" else bf16_compress_hook
        called.register_comm_hook(called.process_group, lambda group, bucket: chosen(group, bucket))

    def count_step(self) -> None:
        """Count two bytes for each number."""
        self.meter.reduced(sum(2 * p.numel() for p in self.parameters))
