"""Deep gradient compression: only the largest part of the gradient is sent, and the rest is not forgotten.

Lin et al. 2018, arXiv 1712.01887: gradient sparsification with momentum correction, local gradient clipping, momentum
factor masking and warm-up training.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from detol.search.recipe import Recipe
from detol.workers.communication.base import ONE_BUCKET, Communication, flat

if TYPE_CHECKING:
    from detol.workers.optim import Optimiser

PARTS = 5
"""The warm-up has one part less than this, in which the share falls exponentially: section 3.3 has four epochs with
25 %, 6.25 %, 1.5625 % and 0.4 % of the gradient, and then 0.1 %, which is its fifth power."""


class TopK(Communication):
    """Each rank sends, of each tensor, the ``share`` of largest magnitude of what it has gathered up.

    With velocity u and residual v, both of this rank, and its gradient g clipped to the recipe's norm over the square
    root of the ranks (section 3.2)::

        u <- m u + g + decay w;  v <- v + u                   (eq. 4; with Nesterov momentum v <- v + g + decay w + m u)
        send v where |v| is largest; there v <- 0, u <- 0      (eq. 5: momentum factor masking)

    The mean over the ranks of what was sent is the step that SGD without momentum takes. For optimisers other than SGD
    momentum is not a sum that commutes with sending late: they have error feedback alone (u = g), and keep their own
    momentum and decay.

    Tensors with one axis (norms, biases), and all while the lists of all ranks would be longer than the tensor
    (share >= 1 / ranks), are sent whole; nothing is late then, and their velocity is not masked: a share of 1 is plain
    SGD.

    Args:
        model: the network.
        recipe: of the training.
        share: in (0, 1].
        masking: whether the velocity of what was sent is cleared.
    """

    name = "topk"
    remembers = True

    def __init__(self, model: nn.Module, recipe: Recipe, share: float, *, masking: bool = True) -> None:
        super().__init__(model, recipe)
        self._final, self._masking = share, masking
        self._corrects = recipe.optimiser == "sgd"
        self._velocity: dict[int, Tensor] = {}
        self._residual: dict[int, Tensor] = {}
        self._places = {id(parameter): place for place, parameter in enumerate(self.parameters)}
        self._group: dist.ProcessGroup | None = None

    @property
    def share(self) -> float:
        """The share that is sent in the next step."""
        if self._step >= self._warm:
            return self._final
        return float(self._final ** ((1 + self._step * (PARTS - 1) // self._warm) / PARTS))

    def options(self, backend: str) -> Mapping[str, Any]:  # noqa: ARG002  the same for all
        """Return one bucket: the norm to clip by is that of the whole gradient, and all goes in two messages."""
        return ONE_BUCKET

    def hook(self, called: DistributedDataParallel) -> None:
        """Register the exchange."""
        self._group = called.process_group
        called.register_comm_hook(None, lambda _, bucket: self._exchange(bucket))

    def local(self, recipe: Recipe) -> Recipe:
        """Return the recipe without what is done before sending: clipping, and momentum and decay of SGD."""
        if self._corrects:
            return replace(recipe, clip=0.0, momentum=0.0, nesterov=False, weight_decay=0.0)
        return replace(recipe, clip=0.0)

    def count_step(self) -> None:
        """Count nothing: the exchange does."""

    def adopt(self, optimiser: "Optimiser") -> None:
        """Take over momentum buffers of plain SGD as velocities."""
        if not self._corrects:
            return
        for place, parameter in enumerate(self.parameters):
            velocity = optimiser.inner.state.get(parameter, {}).pop("momentum_buffer", None)
            if velocity is not None:
                self._velocity[place] = velocity

    def memory(self, optimiser: "Optimiser") -> dict[str, Tensor]:  # noqa: ARG002  it remembers nothing of its own
        """Return velocities and residuals."""
        return {
            **{f"{place}.velocity": tensor for place, tensor in self._velocity.items()},
            **{f"{place}.residual": tensor for place, tensor in self._residual.items()},
        }

    def recall(self, memory: Mapping[str, Tensor], optimiser: "Optimiser") -> None:  # noqa: ARG002  likewise
        """Take over velocities and residuals."""
        self._velocity = self.placed(memory, "velocity")
        self._residual = self.placed(memory, "residual")

    def shared(self, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the velocities under the name that they have in plain SGD."""
        return {
            f"{name.removesuffix('.velocity')}.momentum_buffer": tensor
            for name, tensor in memory.items()
            if name.endswith(".velocity")
        }

    @torch.no_grad()
    def _exchange(self, bucket: Any) -> torch.futures.Future[Tensor]:
        buffer, parameters = bucket.buffer(), bucket.parameters()
        width = self.meter.width
        places = [self._places[id(parameter)] for parameter in parameters]
        parts = torch.split(buffer, [parameter.numel() for parameter in parameters])
        # In the order of the network: the bucket's changes after the first step, and with it how sums are rounded.
        gradients = sorted(zip(places, parts, strict=True), key=lambda pair: pair[0])
        if self.recipe.clip:
            limit = self.recipe.clip / math.sqrt(width)
            norm = torch.stack(torch._foreach_norm([gradient for _, gradient in gradients])).norm()
            buffer.mul_((limit / (norm + 1e-6)).clamp(max=1.0))
        share = self.share
        whole: list[tuple[int, Tensor]] = []
        chosen: list[tuple[int, Tensor]] = []
        for place, gradient in gradients:
            self._gather_up(place, gradient)
            some = self.parameters[place].ndim > 1 and share * width < 1
            (chosen if some else whole).append((place, gradient))
        if whole:
            self._send_whole(whole)
        if chosen:
            self._send_largest(chosen, share)
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(buffer)
        return done

    def _gather_up(self, place: int, gradient: Tensor) -> None:
        """Add a step's gradient to what is still to be sent of a parameter."""
        parameter = self.parameters[place]
        if place not in self._residual:
            self._residual[place] = torch.zeros_like(parameter)
        residual = flat(self._residual[place])
        if not self._corrects:
            residual.add_(gradient)
            return
        if place not in self._velocity:
            self._velocity[place] = torch.zeros_like(parameter)
        velocity, momentum = flat(self._velocity[place]), self.recipe.momentum
        if parameter.ndim > 1:
            gradient.add_(flat(parameter), alpha=self.recipe.weight_decay)
        velocity.mul_(momentum).add_(gradient)
        if self.recipe.nesterov:
            residual.add_(gradient).add_(velocity, alpha=momentum)
        else:
            residual.add_(velocity)

    def _send_whole(self, tensors: Sequence[tuple[int, Tensor]]) -> None:
        residuals = [flat(self._residual[place]) for place, _ in tensors]
        message = torch.cat(residuals).div_(self.meter.width)
        dist.all_reduce(message, group=self._group)
        self.meter.reduced(message.numel() * message.element_size())
        parts = torch.split(message, [len(residual) for residual in residuals])
        for (_, gradient), residual, part in zip(tensors, residuals, parts, strict=True):
            gradient.copy_(part)
            residual.zero_()

    def _send_largest(self, tensors: Sequence[tuple[int, Tensor]], share: float) -> None:
        values, indices = [], []
        start = 0
        for place, gradient in tensors:
            residual = flat(self._residual[place])
            count = max(1, math.ceil(share * len(residual)))
            index = residual.abs().topk(count, sorted=False).indices
            values.append(residual[index])
            indices.append(index + start)
            residual[index] = 0
            if self._masking and place in self._velocity:
                flat(self._velocity[place])[index] = 0
            start += len(gradient)
        if start > torch.iinfo(torch.int32).max:
            raise ValueError(f"topk numbers a gradient with 32 bits, got {start} numbers: use powersgd")
        value = torch.cat(values).float()
        # The bits of the indices travel as if they were numbers: one message, which nobody adds up.
        message = torch.cat([value, torch.cat(indices).int().view(torch.float32)])
        parts = [torch.empty_like(message) for _ in range(self.meter.width)]
        dist.all_gather(parts, message, group=self._group)
        self.meter.gathered(message.numel() * message.element_size())
        total = value.new_zeros(start)
        for part in parts:  # in the order of the ranks, so that all get the same sum to the bit
            total.index_add_(0, part[len(value) :].view(torch.int32).long(), part[: len(value)])
        total /= self.meter.width
        sums = torch.split(total, [len(gradient) for _, gradient in tensors])
        for (_, gradient), part in zip(tensors, sums, strict=True):
            gradient.copy_(part)
