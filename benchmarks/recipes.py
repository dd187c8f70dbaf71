"""What settings of the recipe are worth: the same trainings by the default recipe with some settings and with others.

For each data set the references of its space and some samples of it, each with several seeds (of the split and of the
training), are trained for ``--epochs`` with every ``--recipe`` (``"augment=crop"``, ``"optimiser=sgd
learning_rate=0.1"``; by default without and with crops); the first is what the others are compared with. ``--rows``
takes so many training samples of each set, to see what holds for small ones. What is given is the mean difference of
the last validation accuracy over the pairs, with its standard error. Test data are not looked at. Files are those of
``../shared/data`` or of your own.
"""

import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
from common import arguments, conclude
from early_ranking import sampled

from detol import defaults
from detol.graph.topology import Topology
from detol.search.recipe import make_recipe
from detol.spaces import catalogue
from detol.workers.data import read
from detol.workers.data.dataset import Split
from detol.workers.tensors import Tensors, load, use_threads
from detol.workers.train import Training


@dataclass(frozen=True)
class Case:
    """One training: data set, training samples (0: all), name and network, seed, settings, epochs, device."""

    data: str
    rows: int
    name: str
    topology: Topology
    seed: int
    settings: str
    epochs: int
    device: str


@cache
def tensors(data: str, seed: int, device: str, rows: int = 0) -> Tensors:
    """Return a data set, split by a seed, on the device, once for each process."""
    use_threads(1)
    found = read(data, seed=seed)
    if rows:
        few = np.random.default_rng(seed).permutation(len(found.train))[:rows]
        found = replace(found, train=Split(found.train.x[few], found.train.y[few]))
    return load(found, device)


def accuracy(case: Case) -> float:
    """Return the validation accuracy after the last epoch."""
    data = tensors(case.data, case.seed, case.device, case.rows)
    settings = dict(setting.split("=", 1) for setting in case.settings.split())
    recipe = make_recipe(settings, defaults.recipe(data.kind, data.shape, len(data.train)))
    training = Training(case.topology, data, recipe, epochs=case.epochs, seed=case.seed, device=case.device)
    *_, last = training.reports()
    return float(last.metrics["val_accuracy"])


def networks(data: str, count: int) -> dict[str, Topology]:
    """Return the references of the space for a data set, and so many samples of it."""
    space = catalogue.auto(tensors(data, 1, "cpu").kind)
    found = {name: space.decode(decisions) for name, decisions in space.references.items()}
    return found | {f"sample {network.seed}": network.topology for network in sampled(space.name, data, count)}


def compared(first: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """Return the mean difference of pairs with its standard error, and the means."""
    pairs = [b - a for a, b in zip(first, other, strict=True)]
    error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else None
    means = {"first": statistics.mean(first), "other": statistics.mean(other)}
    return {"difference": statistics.mean(pairs), "standard_error": error, **means, "n": len(pairs)}


def main() -> None:
    """Train, compare, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", action="append", help="a file, or a built-in set; repeat (default: digits)")
    parser.add_argument("--recipe", action="append", metavar='"NAME=VALUE ..."', help="settings; repeat")
    parser.add_argument("--rows", type=int, default=0, help="training samples of each set (default: all)")
    parser.add_argument("--count", type=int, default=4, help="samples beside the references")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=27)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.quick:
        options.count, options.seeds, options.epochs = 0, 1, 2
    ways = options.recipe or ["augment=", "augment=crop"]
    figures: dict[str, Any] = {"benchmark": "recipes", "quick": options.quick, "epochs": options.epochs}
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for data in options.data or ["digits"]:
            cases = [
                Case(data, options.rows, name, topology, seed, way, options.epochs, options.device)
                for way in ways
                for name, topology in networks(data, options.count).items()
                for seed in range(1, options.seeds + 1)
            ]
            scores = list(pool.map(accuracy, cases))
            size = len(scores) // len(ways)
            for place, way in enumerate(ways[1:], start=1):
                row = compared(scores[:size], scores[place * size : (place + 1) * size])
                figures[f"{data}, {way or 'as usual'} against {ways[0] or 'as usual'}"] = row
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
