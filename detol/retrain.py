"""Training a winner from scratch on all that is not test data: how good it is, and how much of that is the seed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from detol.graph.topology import Topology
from detol.search.recipe import Recipe

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset


def joined(dataset: "Dataset") -> "Dataset":
    """Return the data set with its validation rows among the training rows, standardised as before."""
    from detol.workers.data.dataset import Split

    parts = (dataset.train, dataset.validation)
    x = np.concatenate([part.x for part in parts])
    y = np.concatenate([part.y for part in parts])
    return replace(dataset, train=Split(x, y))


def retrain(
    topology: Topology, dataset: "Dataset", recipe: Recipe, *, epochs: int, seeds: Sequence[int], device: str = "cpu"
) -> Iterator[dict[str, float]]:
    """Train a topology from scratch on train plus validation, once for each seed.

    Args:
        topology: to train.
        dataset: with its test split, which is read once for each seed, after training.
        recipe: how.
        epochs: to the end; nothing stops early.
        seeds: of weights and shuffling.
        device: where.

    Yields:
        The metrics on the test split (``test_accuracy`` ...).
    """
    from detol.workers.train import Training, evaluate

    whole = joined(dataset)
    for seed in seeds:
        training = Training(topology, whole, recipe, epochs=epochs, seed=seed, device=device)
        for _ in training.reports():
            pass
        yield evaluate(topology, training.weights(), dataset, "test", device=device)
