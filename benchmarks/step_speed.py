"""How fast a training step is: a network of NAS-Bench-201 on CIFAR-10, batch 256, flips and crops, on one device.

Ways that are compared, in one run on one device:

- ``plain``: a DataLoader loop as people write it (``plain_loop.py``), the same network;
- ``eager``: detol with the data resident on the device, operation by operation;
- ``graph``: the whole step as one CUDA graph;
- ``compiled``: that, with the blocks of the network compiled once per worker and shared by all candidates.

Speed is training images per second of whole epochs after the first (validation is on 256 images). Set-up is what a
candidate costs before it runs at that speed: building, recording, compiling; of the first one, and of others that
follow in the same worker. ``--accuracy``: test accuracy after 12 epochs, three seeds, plain (side by side, so not
timed) against the quickest way. Without a GPU graphs are replayed by doing the work again, and nothing is compiled.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cifar
import torch
from common import arguments, conclude, spread
from plain_loop import Images, Loop, accuracy
from plain_loop import train as plain_train

from detol.graph.topology import Topology
from detol.search.recipe import Recipe

CELL = "303103"
"""The space's reference ``residual``: three 3x3 convolutions in a row, and a skip around the last two of them."""
FURTHER = ("303003", "313303", "333132", "232103", "342130", "203303")
"""Cells of other candidates, lighter and heavier; 333132 is the best of the benchmark on CIFAR-10."""
RECIPE = Recipe(
    learning_rate=0.1, warmup=0.0, clip=0.0, batch_size=256, augment="flip,crop", precision="bfloat16", nesterov=True
)
WAYS = ("plain", "eager", "graph", "compiled")
SEEDS = (1, 2, 3)


def network(cell: str) -> Topology:
    """Return the network of a cell."""
    from detol.search_spaces import nasbench201

    return nasbench201.SPACE.decode(nasbench201.decisions(cell))


def resident(dataset: Any, device: str, validation: int | None) -> Any:
    """Return the data set on the device, with so many validation images."""
    from detol.workers.data.dataset import Split
    from detol.workers.tensors import load

    if validation is not None:
        few = dataset.validation
        dataset = replace(dataset, validation=Split(few.x[:validation], few.y[:validation]))
    return load(dataset, device)


@contextlib.contextmanager
def stepping(way: str) -> Iterator[None]:
    """Let trainings step in a way."""
    before = os.environ.get("DETOL_STEP")
    os.environ["DETOL_STEP"] = way
    try:
        yield
    finally:
        os.environ.pop("DETOL_STEP")
        if before is not None:
            os.environ["DETOL_STEP"] = before


def detol_run(cell: str, tensors: Any, recipe: Recipe, epochs: int, seed: int) -> dict[str, Any]:
    """Train a candidate; return the seconds of its set-up and its epochs, and the training itself."""
    from detol.workers.train import Training

    began = time.perf_counter()
    training = Training(network(cell), tensors, recipe, epochs=epochs, seed=seed)
    built = time.perf_counter() - began
    reports = list(training.reports())
    engine = dict(training.engine)
    setup = built + float(engine.get("setup_seconds", 0.0))
    # Where nothing is recorded, the first epoch also warms up.
    return {"setup": setup, "epochs": [r.seconds for r in reports], "engine": engine, "training": training}


def plain_run(cell: str, dataset: Any, loop: Loop, epochs: int, seed: int, device: str) -> tuple[list[float], Any]:
    """Train by the plain loop; return the seconds of its epochs, and the network."""
    from detol.graph.build import build

    torch.manual_seed(seed)
    model = build(network(cell), dataset.shape, dataset.outputs)
    images = Images(dataset.train.x, dataset.train.y, dataset.mean, dataset.std)
    return list(plain_train(model, images, loop, epochs, seed, device)), model


def plain_accuracy(task: tuple[str, str, int, int, str, Loop, int | None]) -> float:
    """Train by the plain loop in a process of its own; return the test accuracy."""
    cell, folder, epochs, seed, device, loop, count = task
    dataset, _ = cifar.dataset(Path(folder), count)
    _, model = plain_run(cell, dataset, loop, epochs, seed, device)
    images = Images(dataset.train.x, dataset.train.y, dataset.mean, dataset.std)
    return accuracy(model, dataset.test.x, dataset.test.y, images, device)


def speed(way: str, options: argparse.Namespace, dataset: Any, tensors: Any, recipe: Recipe, loop: Loop) -> Any:
    """Measure one way."""
    count = len(dataset.train)
    if way == "plain":
        seconds, _ = plain_run(options.cell, dataset, loop, options.epochs, 1, options.device)
        return {"images_per_second": rates(count // loop.batch * loop.batch, seconds)}
    with stepping(way):
        first = detol_run(options.cell, tensors, recipe, options.epochs, 1)
        # Eager steps need no set-up beyond the building of the network.
        further = FURTHER[: options.further] if way != "eager" else ()
        others = [detol_run(cell, tensors, recipe, 1, 1) for cell in further]
    if options.profile:
        profile(options.cell, tensors, recipe, way)
    return {
        "images_per_second": rates(count, first["epochs"]),
        "first_setup_seconds": first["setup"],
        "further_setup_seconds": spread([other["setup"] for other in others]) if others else None,
        "engine": first["engine"],
        "further_engines": [other["engine"].get("step", "") for other in others],
    }


def rates(images: int, seconds: Sequence[float]) -> dict[str, Any]:
    """Return images per second of the epochs after the first (of the only one, where there is one)."""
    return spread([images / one for one in seconds[1:] or seconds])


def profile(cell: str, tensors: Any, recipe: Recipe, way: str) -> None:
    """Print which kernels an epoch's steps spend their time in."""
    from detol.workers.train import Training

    activities = [torch.profiler.ProfilerActivity.CPU]
    if tensors.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with stepping(way):
        training = Training(network(cell), tensors, recipe, epochs=3, seed=1)
        reports = training.reports()
        next(reports)
        with torch.profiler.profile(activities=activities) as found:
            next(reports)
    key = "self_device_time_total" if tensors.device.type == "cuda" else "self_cpu_time_total"
    print(found.key_averages().table(sort_by=key, row_limit=30, max_name_column_width=70), flush=True)


def accuracies(options: argparse.Namespace, dataset: Any, tensors: Any, recipe: Recipe, plain: list[float]) -> Any:
    """Train three seeds by detol; return the test accuracies beside those of the plain loop."""
    from detol.workers.evaluate import evaluate

    ours, seconds = [], []
    way = [way for way in options.ways.split(",") if way != "plain"][-1]
    with stepping(way):
        for seed in SEEDS[: options.seeds]:
            began = time.perf_counter()
            run = detol_run(options.cell, tensors, recipe, options.accuracy, seed)
            seconds.append(time.perf_counter() - began)
            weights = run["training"].weights()
            found = evaluate(network(options.cell), weights, dataset, "test", device=options.device)
            ours.append(found["test_accuracy"])
            print(way, seed, ours[-1], f"{seconds[-1]:.1f} s", flush=True)
    return {
        "epochs": options.accuracy,
        "plain": {"mean": statistics.fmean(plain), **spread(plain)} if plain else "left out (--no-plain)",
        "detol": {"mean": statistics.fmean(ours), **spread(ours), "way": way},
        "detol_seconds": spread(seconds),
    }


def measure(options: argparse.Namespace, dataset: Any, tensors: Any, recipe: Recipe, loop: Loop, folder: Path) -> Any:
    """Measure all that was asked for; while the plain loop trains for its accuracy only compilers run beside it."""
    figures: dict[str, Any] = {}
    ways = options.ways.split(",")

    def take(way: str) -> None:
        figures[way] = speed(way, options, dataset, tensors, recipe, loop)
        print(way, json.dumps(figures[way]), flush=True)

    if "plain" in ways:
        take("plain")
    seeds = SEEDS[: options.seeds] if options.accuracy else ()
    about = (str(folder), options.accuracy)
    tasks = [(options.cell, *about, seed, options.device, loop, options.count) for seed in seeds if options.plain]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, len(tasks)), mp_context=context) as pool:
        began = time.perf_counter()
        pending = [pool.submit(plain_accuracy, task) for task in tasks]
        if "compiled" in ways:
            with stepping("compiled"):
                first = detol_run(options.cell, tensors, recipe, 1, 1)
            figures["first_compilation_seconds"] = first["setup"]
            print("compiled", first["engine"], f"{time.perf_counter() - began:.1f} s", flush=True)
        plain = [one.result() for one in pending]
        if plain:
            print("plain, side by side", plain, f"{time.perf_counter() - began:.1f} s", flush=True)
    for way in ways:
        if way != "plain":
            take(way)
    if options.accuracy:
        figures["accuracy"] = accuracies(options, dataset, tensors, recipe, plain)
    return figures


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cell", default=CELL, help="six digits, as in tables of NAS-Bench-201")
    parser.add_argument("--ways", default=",".join(WAYS), help="which of them, the quickest last")
    parser.add_argument("--epochs", type=int, default=4, help="of each measurement, the first not counted")
    parser.add_argument("--further", type=int, default=len(FURTHER), help="further candidates whose set-up is measured")
    parser.add_argument("--accuracy", type=int, default=0, help="epochs of the comparison of accuracies; 0: none")
    parser.add_argument("--no-plain", dest="plain", action="store_false", help="compare with accuracies known already")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--processes", type=int, default=8, help="of the plain loop's DataLoader")
    parser.add_argument("--precision", default=RECIPE.precision)
    parser.add_argument("--profile", action="store_true", help="print the kernels of each of detol's ways")
    parser.add_argument("--folder", type=Path, help="where the decoded images are kept")
    parser.add_argument("--count", type=int, help="training images; all by default")
    options = parser.parse_args()
    loop, recipe = Loop(processes=options.processes), RECIPE
    if options.quick:
        options.count, options.epochs, options.further = 40, 2, 1
        options.seeds, options.accuracy = 1, min(options.accuracy, 1)
        loop, recipe = Loop(processes=0, batch=16), replace(RECIPE, batch_size=16)
        # A processor without instructions for bfloat16 takes ten times as long by it.
        options.precision = options.precision if options.device == "cuda" else "float32"
    recipe = replace(recipe, precision=options.precision)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        dataset, what = cifar.dataset(folder, options.count)
        tensors = resident(dataset, options.device, 256)
        figures: dict[str, Any] = {
            "data": what,
            "images": len(dataset.train),
            "cell": options.cell,
            "batch": recipe.batch_size,
            "gpu": torch.cuda.get_device_name() if options.device == "cuda" else None,
            "quick": options.quick,
        }
        figures |= measure(options, dataset, tensors, recipe, loop, folder)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
