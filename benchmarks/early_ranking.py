"""How well accuracy after few epochs ranks networks by their final accuracy: of the weights, and of their average.

The networks are those that a finished search trained to the end, those with the fewest multiply-adds first (``--db``,
``--name``; its splits and recipe, and its curves unless they are of averaged weights), or else samples of a space; they
are trained here where no plain curve is known. Then each is trained again from the same seed for ``--until`` epochs of
the same schedule with ``recipe.averaging``: the weights move as before, but reports are of their average. What is given
is Kendall's tau (b) between accuracy after each epoch and the final one, with 95 % bootstrap intervals over networks,
and how high the three networks stood that end best.
"""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude
from inheritance import SHARED, tensors

from detol import defaults
from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.topology import Topology
from detol.search.recipe import Recipe, make_recipe
from detol.spaces import catalogue
from detol.workers.tensors import Tensors, load, use_threads
from detol.workers.train import Training

LARGEST = 3.0
"""Samples of a space that cost more multiply-adds than so many times its reference are left out."""


@dataclass(frozen=True)
class Network:
    """A network, the seed of its training, and its curve where it is known."""

    topology: Topology
    seed: int
    curve: tuple[float, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where data and recipe come from: a search in a database (its data may lie elsewhere now), or a data set."""

    data: str
    db: str
    name: str
    device: str


@cache
def material(source: Source) -> tuple[Tensors, Recipe]:
    """Return the data on the device and the recipe, once for each process."""
    if not source.db:
        found = tensors(source.data, source.device)
        return found, defaults.recipe(found.kind, found.shape, len(found.train))
    from detol import wire
    from detol.config import Settings
    from detol.prepare import read_data
    from detol.results.query import Query

    with wire.database(source.db, create=False) as database:
        stored = Query(database).settings(source.name)["settings"]
    settings = Settings.from_dict(stored["settings"])
    use_threads(1)
    return load(read_data(replace(settings, data=source.data or settings.data)), source.device), make_recipe(
        stored["recipe"]
    )


def curve(source: Source, network: Network, averaging: float, epochs: int, until: int) -> list[float]:
    """Return validation accuracy after each epoch."""
    found, recipe = material(source)
    recipe = replace(recipe, averaging=averaging)
    training = Training(
        network.topology, found, recipe, epochs=epochs, seed=network.seed, device=source.device, until=until
    )
    return [report.metrics["val_accuracy"] for report in training.reports()]


def known(db: Path, name: str, epochs: int) -> list[Network]:
    """Return the networks that a search trained from scratch to the end, with their curves."""
    from detol import wire

    with wire.database(str(db), create=False) as database:
        trials = database.open_search(name, lock=False).trials()
    whole = [trial for trial in trials if len(trial.curve) == epochs and not trial.inherited]
    whole.sort(key=lambda trial: float(trial.extra["multiply_adds"]))
    return [Network(trial.candidate.topology, trial.seed, tuple(trial.curve)) for trial in whole]


def sampled(space_name: str, data: str, count: int) -> list[Network]:
    """Return different samples of a space that do not cost much more than its first reference."""
    space, rng, about = catalogue.load(space_name), np.random.default_rng(11), tensors(data, "cpu")
    first = space.decode(next(iter(space.references.values())))
    most = LARGEST * cost(first, about.shape, about.outputs).multiply_adds
    found: dict[str, Network] = {}
    while len(found) < count:
        topology = space.decode(space.sample(rng))
        if cost(topology, about.shape, about.outputs).multiply_adds <= most:
            found.setdefault(digest(topology), Network(topology, len(found)))
    return list(found.values())


def ranking(early: Sequence[float], final: Sequence[float]) -> dict[str, Any]:
    """Return Kendall's tau with its interval, and the places at which the three that end best stood, from 1."""
    from scipy.stats import kendalltau

    some, last = np.array(early), np.array(final)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(some), size=(1_000, len(some)))
    taus = [kendalltau(some[rows], last[rows]).statistic for rows in drawn]
    best = np.argsort(-last, kind="stable")[:3]
    return {
        "tau": float(kendalltau(some, last).statistic),
        "interval": [float(q) for q in np.nanquantile(taus, [0.025, 0.975])],
        "places_of_the_best": [1 + int((some > some[one]).sum()) for one in best],
    }


def main() -> None:
    """Train, rank, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--data", default="", help="a file, or a built-in set (default: the search's; fashion_mnist_12k)"
    )
    parser.add_argument("--space", default="image_cell", help="of the samples")
    parser.add_argument("--db", type=Path, help="results database with a finished search, in place of samples")
    parser.add_argument("--name", default="", help="of that search")
    parser.add_argument("--count", type=int, default=24, help="networks")
    parser.add_argument("--epochs", type=int, default=27, help="of the whole schedule")
    parser.add_argument("--until", type=int, default=9, help="epochs that are looked at")
    parser.add_argument("--averaging", type=float, default=0.98)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="trainings side by side")
    options = parser.parse_args()
    if options.quick:
        options.data, options.count, options.epochs, options.until = "digits", 5, 4, 2
    figures: dict[str, Any] = {"benchmark": "early_ranking", "quick": options.quick, "trained_on": options.device}
    if not options.db:
        options.data = options.data or str(SHARED / "fashion_mnist_12k.npz")
    if options.data not in ("", "digits") and not Path(options.data).exists():
        conclude({**figures, "left_out": f"{options.data} is not there"}, options.json)
        return
    source = Source(options.data, str(options.db or ""), options.name, options.device)
    if options.db:
        networks = known(options.db, options.name, options.epochs)[: options.count]
        if material(source)[1].averaging:  # its curves are of averaged weights: the plain ones are trained, too
            networks = [replace(one, curve=()) for one in networks]
    else:
        networks = sampled(options.space, options.data, options.count)
    lengths = (options.epochs, options.until)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        plain = [
            pool.submit(curve, source, one, 0.0, options.epochs, options.epochs) for one in networks if not one.curve
        ]
        averaged = [pool.submit(curve, source, one, options.averaging, *lengths) for one in networks]
        whole = [job.result() for job in plain] or [list(one.curve) for one in networks]
        smooth = [job.result() for job in averaged]
    final = [one[-1] for one in whole]
    rows = []
    for epoch in range(1, options.until + 1):
        row = {"epoch": epoch}
        for label, curves in (("weights", whole), ("average", smooth)):
            row[label] = ranking([one[epoch - 1] for one in curves], final)
        rows.append(row)
        print(json.dumps(row), flush=True)
    figures |= {"networks": options.name or options.data, "n": len(networks), "epochs": options.epochs}
    conclude({**figures, "averaging": options.averaging, "rows": rows, "final": final}, options.json)


if __name__ == "__main__":
    main()
