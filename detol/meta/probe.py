"""A few fixed networks, trained for one epoch: how they rank tells what a data set asks of a network.

Landmarking (Pfahringer et al. 2000, "Meta-learning by landmarking various learning algorithms") with networks for
learners. They see at most ``ROWS`` samples, so that all of them take a second or so.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from detol.errors import DetolError
from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.recipe import Recipe

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

ROWS, VALIDATED = 1_024, 512
"""Training and validation samples, evenly over the rows."""
WORK = 6e10
"""Multiply-adds of a probe's training at most; one that needs more is left out."""
RECIPE = Recipe(optimiser="adamw", learning_rate=3e-3, weight_decay=1e-2, schedule="constant", batch_size=32)


def probes(kind: str) -> tuple[Topology, ...]:
    """Return the fixed networks for a kind of data: narrow, wide, deep, with and without convolutions."""
    dense = (
        chain(op("flatten"), op("linear", features=32)),
        chain(op("flatten"), op("linear", features=32, activation="tanh")),
        chain(op("flatten"), op("linear", features=256)),
        chain(op("flatten"), op("linear", features=32), op("linear", features=32), op("linear", features=32)),
    )
    if kind == "features":
        return (
            *dense,
            chain(op("flatten"), op("linear", features=128, norm=True), op("linear", features=128, norm=True)),
        )
    stem = op("conv", kernel=3, channels=16, stride=2)
    return (
        *dense[:3],
        chain(stem, op("global_pool")),
        chain(op("conv", kernel=5, channels=32, stride=2), op("pool", mode="max", kernel=3, stride=2), op("flatten")),
        chain(stem, op("conv", kernel=3, channels=32), op("global_pool")),
        chain(stem, op("conv", kernel=3, channels=32, stride=2), op("flatten"), op("linear", features=64)),
    )


def probe_scores(dataset: "Dataset", *, seed: int = 0) -> Mapping[str, float]:
    """Return the score of each probe on validation samples after one epoch, more is better, by its digest.

    The score is the negative validation loss: unlike an accuracy it tells networks apart after so few steps. Probes
    that do not fit the data, diverge, or would take longer than some seconds are left out.
    """
    from detol.workers.data.dataset import Split
    from detol.workers.train import Training

    def some(split: Split, most: int) -> Split:
        rows = np.linspace(0, len(split) - 1, min(len(split), most)).astype(np.intp)
        return Split(split.x[rows], split.y[rows])

    part = replace(dataset, train=some(dataset.train, ROWS), validation=some(dataset.validation, VALIDATED), test=None)
    found: dict[str, float] = {}
    for network in probes(dataset.kind):
        try:
            if 3 * len(part.train) * cost(network, dataset.shape, dataset.outputs).multiply_adds > WORK:
                continue
            *_, last = Training(network, part, RECIPE, epochs=1, seed=seed, device="cpu").reports()
        except DetolError:
            continue
        found[digest(network)] = -float(last.metrics["val_loss"])
    return found
