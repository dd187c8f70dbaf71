"""Training a winner from scratch on all that is not test data: how good it is, and how much of that is the seed."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from detol.errors import UsageError
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.search.records import Trial

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset


def joined(dataset: "Dataset") -> "Dataset":
    """Return the data set with its validation rows among the training rows, standardised as before."""
    from detol.workers.data.chained import chained
    from detol.workers.data.dataset import Split

    parts = (dataset.train, dataset.validation)
    packed = any(getattr(part.x, "reference", None) for part in parts)  # such may be larger than memory
    x = chained([part.x for part in parts]) if packed else np.concatenate([part.x for part in parts])
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
    from detol.workers.evaluate import evaluate
    from detol.workers.train import Training

    whole = joined(dataset)
    for seed in seeds:
        training = Training(topology, whole, recipe, epochs=epochs, seed=seed, device=device)
        for _ in training.reports():
            pass
        yield evaluate(topology, training.weights(), dataset, "test", device=device)


def retrained(
    trial: Trial, dataset: "Dataset", recipe: Recipe, count: int, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Train a trial's topology from scratch on train plus validation; return its test scores over the seeds.

    Args:
        trial: its topology and epochs.
        dataset: with its test split.
        recipe: how.
        count: how many seeds, >= 1.
        say: told each result.

    Returns:
        ``metric``, ``seeds``, ``values``, ``mean``, ``std`` (of the sample; ``None`` for one seed), ``min``, ``max``,
        ``epochs``.

    Raises:
        UsageError: data without a test split.
    """
    from detol.workers.tensors import use_threads

    if dataset.test is None:
        raise UsageError(f"--retrain measures on a test split, and {dataset.name} has none: leave it out")
    use_threads(1)
    seeds = list(range(1, count + 1))
    metric = "test_accuracy" if dataset.task == "classification" else "test_r2"
    values: list[float] = []
    for seed, metrics in zip(
        seeds, retrain(trial.candidate.topology, dataset, recipe, epochs=trial.epochs, seeds=seeds), strict=True
    ):
        values.append(metrics[metric])
        say(f"trained from scratch with seed {seed} ({len(values)} of {count}): {metric} {values[-1]:.4f}")
    return {
        "metric": metric,
        "seeds": seeds,
        "values": values,
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if count > 1 else None,
        "min": min(values),
        "max": max(values),
        "epochs": trial.epochs,
    }
