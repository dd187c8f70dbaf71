"""Timing the steps of one network on one rank, with as many samples as each rank would have at some widths."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch

from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.workers.calibration.timing import clock_of
from detol.workers.data.dataset import Dataset, Split
from detol.workers.tensors import load, use_threads
from detol.workers.train import Training

STEPS, EPOCHS = 4, 5
"""Steps of an epoch, and epochs; the first one warms up."""


def network_seconds(
    topology: Topology, shape: Sequence[int], outputs: int, recipe: Recipe, samples: Iterable[int], *, device: str
) -> dict[int, float]:
    """Return the least seconds of a step of the training loop, by its samples, on noise in the shape of the data.

    Args:
        topology: of the network.
        shape: of one sample.
        outputs: of the network, >= 2.
        recipe: how it trains; the batch size is that of each timing.
        samples: of a step, each >= 2.
        device: where: ``cpu`` or ``cuda``.

    Raises:
        OutOfMemory: so many samples do not fit.
        TopologyError: the network does not fit the shape.
    """
    if device == "cpu":
        use_threads(1)  # as workers do
    place = torch.device(device)
    found = {}
    for count in samples:
        data = load(noise(shape, outputs, STEPS * count), place)
        timed = replace(recipe, batch_size=count, accumulate=1, communication="plain")
        training = Training(topology, data, timed, epochs=EPOCHS, seed=0, device=device, clock=clock_of(place))
        _, *later = training.reports()
        found[count] = min(report.seconds for report in later) / STEPS
    return found


def noise(shape: Sequence[int], outputs: int, rows: int) -> Dataset:
    """Return a data set of noise for a classification, with two rows of validation."""
    rng = np.random.default_rng(0)
    kind = {3: "image", 2: "signal"}.get(len(shape), "features")

    def split(count: int) -> Split:
        if kind == "image":
            x = rng.integers(0, 256, (count, *shape)).astype(np.uint8)
        else:
            x = rng.standard_normal((count, *shape)).astype(np.float32)
        return Split(x, rng.integers(0, outputs, count).astype(np.int64))

    axes = (shape[0], *[1] * (len(shape) - 1))
    middle = 127.0 if kind == "image" else 0.0
    return Dataset(
        name="noise",
        kind=kind,
        task="classification",
        train=split(rows),
        validation=split(2),
        test=None,
        classes=tuple(map(str, range(outputs))),
        mean=np.full(axes, middle, dtype=np.float32),
        std=np.full(axes, 64.0 if kind == "image" else 1.0, dtype=np.float32),
        digest="x1:noise",
    )
