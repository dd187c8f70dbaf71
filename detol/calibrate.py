"""How many epochs a bound in time allows: a few steps of the smallest reference are timed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from detol.config import EPOCHS
from detol.errors import DetolError
from detol.graph.cost import cost
from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.search.recipe import Recipe

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

SHARE = 0.25
"""Of the time of a search that training the smallest reference to its end may take at most."""

LENGTHS = (3, 4, 6, 9, 13, 19, EPOCHS)
"""Epochs that are chosen from: few, so that searches with about the same time share results."""

STEPS = 6
"""Steps of the training that is timed."""


def epochs_within(seconds: float, space: SearchSpace, dataset: "Dataset", recipe: Recipe, *, device: str) -> int:
    """Return the epochs of a training: the most of ``LENGTHS`` that fit, or the fewest.

    Args:
        seconds: of the whole search.
        space: its references are the networks whose cost is known before the search.
        dataset: what is trained on.
        recipe: how.
        device: of the workers.
    """
    found = smallest([space.decode(decisions) for decisions in space.references.values()], dataset)
    if found is None:
        return EPOCHS
    try:
        taken = epoch_seconds(found, dataset, recipe, device=device)
    except DetolError:  # the search will say what is wrong
        return EPOCHS
    return max((epochs for epochs in LENGTHS if epochs <= SHARE * seconds / taken), default=LENGTHS[0])


def smallest(topologies: Sequence[Topology], dataset: "Dataset") -> Topology | None:
    """Return the one with the fewest multiply-adds on these data; ``None`` when none can be built."""
    sized = []
    for place, topology in enumerate(topologies):
        try:
            sized.append((cost(topology, dataset.shape, dataset.outputs).multiply_adds, place))
        except DetolError:
            continue
    return topologies[min(sized)[1]] if sized else None


def epoch_seconds(topology: Topology, dataset: "Dataset", recipe: Recipe, *, device: str) -> float:
    """Return about how many seconds a worker takes for an epoch of a network, from ``STEPS`` steps of it."""
    from detol.workers import devices
    from detol.workers.data.dataset import Split
    from detol.workers.tensors import use_threads
    from detol.workers.train import Training

    use_threads(1)  # as workers do
    rows = min(len(dataset.train), STEPS * recipe.batch_size)
    some = Split(dataset.train.x[:rows], dataset.train.y[:rows])
    few = Split(dataset.validation.x[: recipe.batch_size], dataset.validation.y[: recipe.batch_size])
    where = "cuda" if device != "cpu" and devices.gpus() else "cpu"
    part = replace(dataset, train=some, validation=few, test=None)
    # The first epoch warms up, the second counts; the last is not measured by averaged weights, as most are.
    _, middle, _ = Training(topology, part, recipe, epochs=3, seed=0, device=where).reports()
    return max(middle.seconds, 1e-6) * len(dataset.train) / rows
