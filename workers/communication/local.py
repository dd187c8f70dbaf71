"""Post-local SGD: after the warm-up the ranks go on alone and average their weights every few steps.

Lin et al. 2020, arXiv 1808.07217, algorithm 2.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.nn.parallel import DistributedDataParallel

from detol.search.recipe import Recipe
from detol.workers.communication.base import Communication

if TYPE_CHECKING:
    from detol.workers.optim import Optimiser


class LocalSGD(Communication):
    """torch's hook for the gradients, and an average of the weights after every ``period`` steps on one's own.

    The ranks also average at the end of each epoch, where the network is measured and may be saved. The optimiser's
    memory stays each rank's own. torch's model averager is not used: it gives every parameter a new place in one flat
    tensor, in which networks with channels last lose their layout.

    Args:
        model: the network.
        recipe: of the training.
        period: steps between two averages, >= 2.
    """

    name = "local_sgd"
    remembers = True

    def __init__(self, model: nn.Module, recipe: Recipe, period: int) -> None:
        super().__init__(model, recipe)
        self._period = period
        self._group: dist.ProcessGroup | None = None
        self._state: Any = None

    def hook(self, called: DistributedDataParallel) -> None:
        """Register torch's hook."""
        self._group = called.process_group
        self._state = PostLocalSGDState(  # type: ignore[no-untyped-call]
            self._group, None, self._warm, post_local_gradient_allreduce=False
        )
        self._state.iter = self._step
        called.register_comm_hook(self._state, post_localSGD_hook)

    def begin(self, step: int, steps: int) -> None:
        """See :meth:`Communication.begin`."""
        super().begin(step, steps)
        if self._state is not None:
            self._state.iter, self._state.start_localSGD_iter = step, self._warm

    def count_step(self) -> None:
        """Count the gradient in the warm-up; behind it average when it is time."""
        alone = self._step - self._warm
        if alone <= 0:
            self.meter.reduced(self.size)
            return
        self.apart = True
        if alone % self._period == 0:
            self.settle()

    @torch.no_grad()
    def settle(self) -> None:
        """Average the weights, unless they are the same already."""
        if not self.apart or self._group is None:
            return
        joined = torch.cat([parameter.flatten() for parameter in self.parameters])
        dist.all_reduce(joined, group=self._group)
        joined /= self.meter.width
        parts = torch.split(joined, [parameter.numel() for parameter in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view(parameter.shape))
        self.meter.reduced(joined.numel() * joined.element_size())
        self.apart = False

    def memory(self, optimiser: "Optimiser") -> dict[str, Tensor]:
        """Return this rank's own memory of the optimiser."""
        return optimiser.tensors()

    def recall(self, memory: Mapping[str, Tensor], optimiser: "Optimiser") -> None:
        """Give the optimiser this rank's own memory back."""
        optimiser.restore(memory)

    def shared(self, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return all of it."""
        return dict(memory)
