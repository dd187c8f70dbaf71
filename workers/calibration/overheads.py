"""What a training step takes besides its products: values, samples, the optimiser, and starting it all.

Starting is timed on the training loop itself, with networks so small that nothing else counts: two depths tell what a
layer costs from what a step costs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.scaling.work import Work
from detol.search.recipe import Recipe
from detol.workers.calibration.network import noise
from detol.workers.calibration.timing import clock_of, least
from detol.workers.group import Group
from detol.workers.optim import Optimiser
from detol.workers.tensors import load
from detol.workers.train import Training

DEPTHS = (2, 14)
"""Convolutions of the two networks whose steps are timed."""

CLASSES = 4


TINY = (8, 8, 4)
"""Channels, side and samples of those two."""

LENGTHS = {"cpu": (15, 16), "cuda": (4, 128)}
"""Epochs, and steps of each, in which a step is timed. What an epoch takes beside its steps (validation, what ranks
exchange at its end) was as long as three to five steps of a small network on H200s: there only long epochs tell."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """Seconds: of one value of a norm, of other layers, of a sample; of one parameter; of starting a layer, a step.

    ``norm_start`` and ``free_start``: of a norm, another layer, on a GPU, however few values it has.
    """

    norm: float
    free: float
    norm_start: float
    free_start: float
    sample: float
    update: float
    layer: float
    step: float


def overheads(device: torch.device, precision: str) -> Overheads:
    """Return the overheads of a step on a device; ``precision``: of products, as a recipe names it."""
    (norm, norm_start), (free, free_start) = _values(device)
    layer, step = starts(device, precision)
    found = {"norm": norm, "free": free, "norm_start": norm_start, "free_start": free_start}
    return Overheads(**found, sample=_sample(device), update=_update(device), layer=layer, step=step)


def starts(device: torch.device, precision: str) -> tuple[float, float]:
    """Return the seconds of starting a layer, and of what is left of a step, as steps are taken now."""
    shallow, deep = (step_seconds(network(depth), device, precision, *TINY[1:]) for depth in DEPTHS)
    few, many = (len(Work.of(network(depth), (3, 8, 8), CLASSES).layers) for depth in DEPTHS)
    layer = max(0.0, (deep - shallow) / (many - few))
    return layer, max(0.0, shallow - layer * few)


def network(depth: int, channels: int = TINY[0]) -> Topology:
    """Return a chain of convolutions, each with norm and activation."""
    return chain(*[op("conv", channels=channels, kernel=3)] * depth)


def _values(device: torch.device) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return seconds of one value, forwards and backwards, and of none, of batch norm and of an activation.

    In small tensors, as small networks have them; of none: on a GPU alone.
    """
    few, many = (8, 1024) if device.type == "cuda" else (2, 16)
    inputs = [torch.randn(count, 32, 16, 16, device=device) for count in (few, many)]
    inputs = [x.contiguous(memory_format=torch.channels_last).requires_grad_(True) for x in inputs]
    layer = nn.BatchNorm2d(32).to(device)

    def line(work: Callable[[Tensor], Tensor], weights: Sequence[Tensor]) -> tuple[float, float]:
        def run(x: Tensor) -> None:
            torch.autograd.grad(work(x), (x, *weights), torch.ones_like(x))

        short, long = (least(partial(run, x), device) for x in inputs)
        one = max(0.0, long - short) / (inputs[1].numel() - inputs[0].numel())
        start = max(0.0, short - one * inputs[0].numel()) if device.type == "cuda" else 0.0
        return one, start

    return line(layer, tuple(layer.parameters())), line(F.relu, ())


def _sample(device: torch.device) -> float:
    """Return seconds of one number of a sample: gathered from resident rows, made float, standardised."""
    data = load(noise((3, 32, 32), CLASSES, 1024), device)
    rows = torch.randperm(1024, device=device)[: 1024 if device.type == "cuda" else 64]

    def take() -> Tensor:
        return data.standardised(data.train.x[rows])

    return least(take, device) / (len(rows) * 3 * 32 * 32)


def _update(device: torch.device) -> float:
    """Return seconds of one parameter in the optimiser (clip, momentum, decay): a large tensor against a small one."""

    def seconds(size: int) -> float:
        model = nn.Linear(size, size, bias=False).to(device)
        optimiser = Optimiser(model, Recipe())
        gradient = torch.randn_like(model.weight)

        def update() -> None:
            model.weight.grad = gradient
            optimiser.step(1e-6)

        return least(update, device)

    small, large = (1024, 8192) if device.type == "cuda" else (128, 768)
    return max(0.0, seconds(large) - seconds(small)) / (large**2 - small**2)


def step_seconds(
    topology: Topology,
    device: torch.device,
    precision: str,
    side: int,
    samples: int,
    *,
    epochs: int = 0,
    steps: int = 0,
    group: Group | None = None,
    clock: Callable[[], float] | None = None,
) -> float:
    """Return the least seconds of a step of the training loop on made images, validation left out.

    Args:
        topology: of the network.
        device: where.
        precision: of products, as a recipe names it.
        side: of the images.
        samples: of a step.
        epochs: of which the first one warms up, >= 2; 0: as many as the device needs.
        steps: of each; 0: likewise.
        group: of the ranks that train together; alone by default.
        clock: seconds; of this process alone on a CPU, by default.
    """
    usual = LENGTHS[device.type]
    epochs, steps = epochs or usual[0], steps or usual[1]
    data = load(noise((3, side, side), CLASSES, steps * samples), device)
    recipe = Recipe(batch_size=samples, precision=precision)
    training = Training(
        topology,
        data,
        recipe,
        epochs=epochs,
        seed=0,
        device=device.type,
        group=group,
        clock=clock or clock_of(device),
    )
    _, *later = training.reports()
    return min(report.seconds for report in later) / (steps + 1 / samples)
