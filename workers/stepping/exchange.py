"""The exchange of gradients in a recorded step: one all-reduce of all of them, from memory that stays where it is."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Exchange:
    """Sums the gradients of a network over its ranks. Not overlapped with the backward pass: for small networks.

    Args:
        called: the network of this rank, whose group is used.
    """

    def __init__(self, called: DistributedDataParallel) -> None:
        self._group = called.process_group
        self._parameters = [p for p in called.module.parameters() if p.requires_grad]
        sizes = [p.numel() for p in self._parameters]
        self._flat = torch.zeros(sum(sizes), device=self._parameters[0].device)
        parts = zip(self._parameters, self._flat.split(sizes), strict=True)  # type: ignore[no-untyped-call]
        # In the layout of the parameters, which is that of their gradients.
        self._views = [part.as_strided(p.shape, p.stride()) for p, part in parts]

    def __call__(self) -> None:
        """Exchange.

        Raises:
            RuntimeError: a parameter without a gradient: then not all of the memory would be written.
        """
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if len(gradients) < len(self._parameters):
            raise RuntimeError("a parameter has no gradient")
        torch._foreach_copy_(self._views, gradients)
        dist.all_reduce(self._flat, group=self._group)
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.grad = view
