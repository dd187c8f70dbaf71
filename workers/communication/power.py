"""PowerSGD: of each matrix of the gradient a product of two thin ones is sent.

Vogels et al. 2019, arXiv 1905.13727.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from detol.search.recipe import Recipe
from detol.workers.communication.base import ONE_BUCKET, Communication, flat

if TYPE_CHECKING:
    from detol.workers.optim import Optimiser

SMALLEST_GAIN = 2
"""A matrix is compressed only if that makes it so many times smaller: torch's default."""
EPSILON = 1e-8
"""Added to the norms by which columns are divided: a layer that is dead for a step has a gradient of zeros."""


class PowerSGD(Communication):
    """torch's hook with error feedback and warm start, behind the recipe's warm-up (at least two plain steps).

    torch keeps what it remembers by bucket. Here it is kept by parameter and laid out for the buckets as they are: they
    change after the first step of every process, which would otherwise confuse one that goes on from a checkpoint.

    Args:
        model: the network.
        recipe: of the training.
        rank: of the approximation, >= 1.
    """

    name = "powersgd"
    remembers = True

    def __init__(self, model: nn.Module, recipe: Recipe, rank: int) -> None:
        super().__init__(model, recipe)
        self._rank = rank
        self._errors: dict[int, Tensor] = {}
        self._qs: dict[int, Tensor] = {}
        self._places = {id(parameter): place for place, parameter in enumerate(self.parameters)}
        self._layout: dict[int, list[int]] = {}
        self._state: Any = None

    def options(self, backend: str) -> Mapping[str, Any]:
        """Return one bucket for gloo: the hook's waits within waits would block its two threads with more."""
        return ONE_BUCKET if backend == "gloo" else {}

    def hook(self, called: DistributedDataParallel) -> None:
        """Register torch's hook, what was remembered kept."""
        self._remember()
        self._layout.clear()
        self._state = PowerSGDState(
            called.process_group,
            matrix_approximation_rank=self._rank,
            start_powerSGD_iter=max(2, self._warm),
            min_compression_rate=SMALLEST_GAIN,
            orthogonalization_epsilon=EPSILON,
        )
        self._state.iter = self._step
        called.register_comm_hook(None, lambda _, bucket: self._exchange(bucket))

    def begin(self, step: int, steps: int) -> None:
        """See :meth:`Communication.begin`."""
        super().begin(step, steps)
        if self._state is not None:
            self._state.iter, self._state.start_powerSGD_iter = step, max(2, self._warm)

    def count_step(self) -> None:
        """Count nothing: the exchange does."""

    def memory(self, optimiser: "Optimiser") -> dict[str, Tensor]:  # noqa: ARG002  that is plain
        """Return the errors of compression, and the right factors by which the next one starts."""
        self._remember()
        return {
            **{f"{place}.error": tensor for place, tensor in self._errors.items()},
            **{f"{place}.factor": tensor for place, tensor in self._qs.items()},
        }

    def recall(self, memory: Mapping[str, Tensor], optimiser: "Optimiser") -> None:  # noqa: ARG002  likewise
        """Take over errors and factors."""
        errors = self.placed(memory, "error")
        factors = {}
        for name, tensor in memory.items():
            place, _, what = name.partition(".")
            if what == "factor":
                parameter = self.parameters[int(place)]
                if tensor.shape != self._factor_shape(parameter):
                    raise ValueError(f"factor of parameter {place} has shape {[*tensor.shape]}")
                factors[int(place)] = tensor.to(parameter.device, parameter.dtype)
        self._errors, self._qs = errors, factors
        self._layout.clear()

    def _exchange(self, bucket: Any) -> torch.futures.Future[Tensor]:
        state = self._state
        if state.iter < state.start_powerSGD_iter:
            self.meter.reduced(bucket.buffer().numel() * bucket.buffer().element_size())
        else:
            places = [self._places[id(parameter)] for parameter in bucket.parameters()]
            if self._layout.get(bucket.index()) != places:
                self._lay_out(bucket.index(), places)
            numbers = sum(self._sent(self.parameters[place]) for place in places)
            self.meter.reduced(numbers * bucket.buffer().element_size())
        found: torch.futures.Future[Tensor] = powerSGD_hook(state, bucket)
        return found

    def _remember(self) -> None:
        """Take what torch remembers by bucket over into what is kept by parameter."""
        if self._state is None:
            return
        for index, places in self._layout.items():
            errors, factors = self._state.error_dict.get(index), self._state.q_memory_dict.get(index)
            if errors is None or factors is None:
                continue
            sizes = [self.parameters[place].numel() for place in places]
            for place, part in zip(places, torch.split(errors, sizes), strict=True):
                self._errors[place] = torch.empty_like(self.parameters[place]).detach()
                flat(self._errors[place]).copy_(part)
            order = self._compressed(places)
            shapes = [self._factor_shape(self.parameters[place]) for place in order]
            parts = torch.split(factors, [rows * columns for rows, columns in shapes])
            for place, part, shape in zip(order, parts, shapes, strict=True):
                self._qs[place] = part.detach().clone().view(shape)

    def _lay_out(self, index: int, places: list[int]) -> None:
        """Give torch what is kept of these parameters as the memory of a bucket; nothing kept: it starts anew."""
        self._remember()
        self._layout = {other: held for other, held in self._layout.items() if not set(held) & set(places)}
        self._layout[index] = places
        state = self._state
        for memory in (state.error_dict, state.p_memory_dict, state.q_memory_dict):
            memory.pop(index, None)
        order = self._compressed(places)
        if not all(place in self._errors for place in places) or not all(place in self._qs for place in order):
            return
        state.error_dict[index] = torch.cat([flat(self._errors[place]) for place in places])
        like = self.parameters[places[0]].detach()
        sizes = [self.parameters[place].shape[0] * self._factor_shape(self.parameters[place])[1] for place in order]
        state.p_memory_dict[index] = like.new_empty(sum(sizes))
        state.q_memory_dict[index] = torch.cat([like.new_empty(0), *[self._qs[place].flatten() for place in order]])

    def _compressed(self, places: list[int]) -> list[int]:
        """Return which of a bucket's parameters are compressed, in the order of torch: those of one shape together."""
        by_shape: dict[tuple[int, int], list[int]] = {}
        for place in places:
            rows, columns, _, gains = self._shape(self.parameters[place])
            if gains:
                by_shape.setdefault((rows, columns), []).append(place)
        return [place for same in by_shape.values() for place in same]

    def _shape(self, parameter: Tensor) -> tuple[int, int, int, bool]:
        """Return rows and columns of a parameter as a matrix, the rank for it, and whether it is compressed."""
        rows = parameter.shape[0]
        columns = parameter.numel() // rows
        rank = min(rows, columns, self._rank)
        return rows, columns, rank, (rows + columns) * rank * SMALLEST_GAIN < rows * columns

    def _factor_shape(self, parameter: Tensor) -> tuple[int, int]:
        _, columns, rank, _ = self._shape(parameter)
        return columns, rank

    def _sent(self, parameter: Tensor) -> int:
        """Return how many numbers of a parameter take part in an all-reduce."""
        rows, columns, rank, gains = self._shape(parameter)
        return (rows + columns) * rank if gains else rows * columns
