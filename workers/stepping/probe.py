"""How many samples fit at once: an estimate says where to begin, a measured step says whether it is true."""

from collections.abc import Callable

import torch
from torch import Tensor

from detol.errors import OutOfMemory
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.workers.step import memory_faults, seeded
from detol.workers.stepping import memory
from detol.workers.tensors import Tensors

ATTEMPTS = 12


def largest(topology: Topology, data: Tensors, recipe: Recipe, room: float, peak: Callable[[int], float]) -> int:
    """Return the most samples, up to the recipe's batch, of which a step fits; 0 where not even two do.

    Args:
        topology: of the network.
        data: that it is trained on.
        recipe: how.
        room: bytes that there are.
        peak: measures a step of so many samples in bytes; raises ``OutOfMemory`` where it fails.
    """
    most, best = min(recipe.batch_size, len(data.train)), 0
    count = _by_estimate(topology, data, recipe, room, most)
    for _ in range(ATTEMPTS):
        try:
            needed = peak(count)
        except OutOfMemory:
            most, count = count - 1, (best + count) // 2
        else:
            if needed <= room:
                best = count
            else:
                most = count - 1
            # What does not grow with the samples makes this too small, never too large.
            count = min(most, int(min(most, count * room / needed)))
        if count <= best or count < memory.FEWEST:
            break
    return best


def _by_estimate(topology: Topology, data: Tensors, recipe: Recipe, room: float, most: int) -> int:
    one, two = (memory.estimate(topology, data.shape, data.outputs, recipe, count) for count in (1, 2))
    fixed, each = 2 * one - two, two - one
    return max(memory.FEWEST, int(min(most, (room - fixed) / each)))


def measured(topology: Topology, data: Tensors, recipe: Recipe) -> Callable[[int], float]:
    """Return what measures a step of a network on the device of its data; on a CPU by the tensors that are kept.

    Each call builds the network anew, takes one step and drops everything.
    """

    def peak(count: int) -> float:
        from detol.graph.build import build
        from detol.workers.augment import Augmenter
        from detol.workers.group import Group
        from detol.workers.optim import Optimiser
        from detol.workers.step import Criterion
        from detol.workers.stepping.base import Learner
        from detol.workers.stepping.eager import backward

        device = data.device
        cuda = device.type == "cuda"
        if cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device) if cuda else 0
        with memory_faults(), seeded(device, 0):
            model = build(topology, data.shape, data.outputs).to(device, memory_format=data.layout)  # type: ignore[call-overload]
            parts = (Augmenter("", data.kind), Criterion(data, recipe), Optimiser(model, recipe))
            learner = Learner(model, data, recipe, Group(), *parts)
            samples = torch.arange(count, device=device) % len(data.train)
            kept = _Kept()
            with torch.autograd.graph.saved_tensors_hooks(kept.keep, lambda tensor: tensor):
                backward(learner, samples, None, 1 / count)
            gradients = sum(one.numel() * one.element_size() for one in learner.optimiser.gradients)
            learner.update(recipe.learning_rate)
        if cuda:
            return float(torch.cuda.max_memory_allocated(device) - before)
        state = sum(one.numel() * one.element_size() for one in learner.optimiser.tensors().values())
        weights = sum(one.numel() * one.element_size() for one in model.parameters())
        return float(weights + gradients + state + kept.bytes(without=set(map(_place, model.parameters()))))

    return peak


class _Kept:
    """Counts the memory of tensors that are kept for gradients, each piece once."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}

    def keep(self, tensor: Tensor) -> Tensor:
        self._sizes[_place(tensor)] = tensor.untyped_storage().nbytes()
        # The tensor itself may be its own operation's result: that would hold it, and it the graph, for ever where no
        # backward pass comes to let go of it (memory ran out on the way there).
        return tensor.detach()

    def bytes(self, without: set[int]) -> int:
        return sum(size for place, size in self._sizes.items() if place not in without)


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
