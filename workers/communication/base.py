"""Plain all-reduce, and the base of all other ways to exchange."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from detol.search.recipe import Recipe
from detol.workers.communication.meter import Meter

if TYPE_CHECKING:
    from detol.workers.optim import Optimiser

ONE_BUCKET: Mapping[str, Any] = {"bucket_cap_mb": 1 << 20}
"""Lets DistributedDataParallel hand over all gradients at once, when the last of them is there."""


class Communication:
    """Gradients are averaged by all-reduce, overlapped with the backward pass: what DistributedDataParallel does.

    Of one training on one rank; all ranks make the same calls in the same order. ``attach`` may be called again, for
    another group of ranks around the same network: what is remembered stays.

    Args:
        model: the network; its parameters are known by their place among those that are trained.
        recipe: of the training.

    Attributes:
        name: in recipes.
        remembers: whether each rank remembers something of its own from step to step: then a checkpoint is made by all
            ranks together.
        apart: whether the ranks' weights differ at present.
        meter: what was sent.
    """

    name = "plain"
    remembers = False

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.recipe = recipe
        self.meter = Meter()
        self.apart = False
        self._step = self._warm = 0

    def options(self, backend: str) -> Mapping[str, Any]:  # noqa: ARG002  of those that need other buckets
        """Return what DistributedDataParallel is made with; ``backend``: gloo or nccl."""
        return {}

    def attach(self, called: DistributedDataParallel) -> None:
        """Take over the exchange of gradients of a wrapped network."""
        self.meter.width = called.process_group.size()
        self.hook(called)

    def hook(self, called: DistributedDataParallel) -> None:
        """Register a hook; plain all-reduce has none."""

    def local(self, recipe: Recipe) -> Recipe:
        """Return the recipe of this rank's optimiser: without what is done as part of the exchange."""
        return recipe

    def adopt(self, optimiser: "Optimiser") -> None:
        """Take over from the optimiser's memory what is this way's own, after that was restored or inherited."""

    def begin(self, step: int, steps: int) -> None:
        """Say which step of so many of the whole training comes next, from 0; at the start and within an epoch.

        In the steps of the recipe's warm-up gradients matter most and change fastest: there, ways that lose something
        lose less, or nothing.
        """
        self._step, self._warm = step, int(self.recipe.warmup * steps)

    def stepped(self) -> None:
        """Count a step that the optimiser has taken, and exchange what is due after it."""
        self._step += 1
        if self.meter.width > 1:
            self.meter.steps += 1
            self.count_step()

    def count_step(self) -> None:
        """Count what was sent in a step, where the hook does not."""
        self.meter.reduced(self.size)

    def settle(self) -> None:
        """Make the weights of all ranks the same; at the end of an epoch."""

    def memory(self, optimiser: "Optimiser") -> dict[str, Tensor]:  # noqa: ARG002  of those that change its state
        """Return what this rank remembers, by name."""
        return {}

    def recall(self, memory: Mapping[str, Tensor], optimiser: "Optimiser") -> None:
        """Take over what :meth:`memory` gave; names that are not there are as at the start.

        Raises:
            ValueError: names or shapes that do not fit the network.
        """

    def shared(self, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002  likewise
        """Return what of a memory (the mean over the ranks) belongs to an optimiser, by its names."""
        return {}

    @property
    def size(self) -> int:
        """Bytes of the gradient."""
        return sum(p.numel() * p.element_size() for p in self.parameters)

    def placed(self, memory: Mapping[str, Tensor], key: str) -> dict[int, Tensor]:
        """Return the tensors called ``PLACE.key`` by place, on the devices and in the layout of the parameters.

        Raises:
            ValueError: a place or a shape that does not fit.
        """
        found = {}
        for name, tensor in memory.items():
            place, _, what = name.partition(".")
            if what != key:
                continue
            if not place.isdigit() or int(place) >= len(self.parameters):
                raise ValueError(f"the network has no parameter {place}")
            parameter = self.parameters[int(place)]
            if tensor.shape != parameter.shape:
                raise ValueError(f"{key} of parameter {place} has shape {[*tensor.shape]}, not {[*parameter.shape]}")
            found[int(place)] = torch.empty_like(parameter).detach().copy_(tensor)
        return found


def flat(tensor: Tensor) -> Tensor:
    """Return a dense tensor as one axis in the order of its memory, sharing it: that of gradients in buckets."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))
