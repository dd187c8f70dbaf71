"""Candidates per GPU-hour from end to end: a search by detol against Optuna around a plain DataLoader loop.

Both try networks of NAS-Bench-201 whose cells hold the same six operations on different edges, so that each candidate
costs the same, and train each for 12 epochs of CIFAR-10 (batch 256, flips and crops, bfloat16). Both are processes of
their own, started one after the other on one device, and everything counts: starting, reading the data, set-up,
training, validation after each epoch, what is kept. ``detol search`` writes its database and keeps weights; Optuna
keeps its study in memory. detol runs with one worker, and with several that share the device; Optuna with one process,
and with several (``--processes``).
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cifar
import torch
from common import arguments, conclude
from plain_loop import Images, Loop, accuracy
from plain_loop import train as plain_train
from step_speed import RECIPE, network

from detol.search.records import Candidate, Origin, Trial

CELL = "303103"
"""Three 3x3 convolutions and a skip; the other cells have the same on other edges."""


def cells(count: int) -> list[str]:
    """Return up to so many cells with the operations of ``CELL`` on other edges: different networks of equal cost."""
    from itertools import permutations

    from detol.errors import TopologyError
    from detol.graph.cost import cost
    from detol.graph.digest import digest

    found: dict[str, str] = {}
    wanted = cost(network(CELL), (3, 32, 32), 10)
    for code in dict.fromkeys("".join(order) for order in permutations(CELL)):
        try:
            if cost(network(code), (3, 32, 32), 10).multiply_adds == wanted.multiply_adds:
                found.setdefault(digest(network(code)), code)
        except TopologyError:  # no way leads through the cell
            continue
    return list(found.values())[:count]


class Listed:
    """A strategy that proposes given cells, one after the other."""

    def __init__(self, codes: Sequence[str]) -> None:
        self._left = list(codes)

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return the next cells."""
        from detol.search_spaces import nasbench201

        now, self._left = self._left[:count], self._left[count:]
        chosen = [nasbench201.decisions(code) for code in now]
        return [Candidate(one, nasbench201.SPACE.decode(one), Origin.SAMPLE) for one in chosen]

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn nothing."""


def detol_search(task: dict[str, Any]) -> dict[str, Any]:
    """Search in this process; return how many candidates were trained, and their scores."""
    import detol

    os.environ["DETOL_STEP"] = task["way"]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = detol.search(
            task["archive"],
            "nasbench201",
            Listed(task["cells"]),
            trials=len(task["cells"]),
            epochs=task["epochs"],
            workers=task["workers"],
            executor=task["executor"],
            device=task["device"],
            stop="none",
            references=False,
            tracking="off",
            options={"recipe": task["recipe"]},
        )
        seconds = time.perf_counter() - began
        os.chdir("/")
    done = [trial for trial in found.trials if trial.state.scored]
    return {
        "candidates": len(done),
        "seconds": seconds,
        "scores": [trial.score for trial in done],
        "trial_seconds": [trial.seconds for trial in done],
        "facts": [{name: trial.extra.get(name, "") for name in ("step", "blocks", "setup_seconds")} for trial in done],
        "failed": [trial.reason for trial in found.trials if not trial.state.scored],
    }


def optuna_search(task: dict[str, Any]) -> dict[str, Any]:
    """Let Optuna try cells by the plain loop in this process."""
    import optuna

    from detol.graph.build import build

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    began = time.perf_counter()
    dataset, _ = cifar.dataset(Path(task["folder"]), task["count"])
    images = Images(dataset.train.x, dataset.train.y, dataset.mean, dataset.std)
    device, loop = task["device"], Loop(processes=task["loaders"], batch=task["recipe"]["batch_size"])

    def objective(trial: "optuna.Trial") -> float:
        code = trial.suggest_categorical("cell", task["cells"])
        torch.manual_seed(trial.number)
        model = build(network(code), dataset.shape, dataset.outputs)
        score = 0.0
        for epoch, _ in enumerate(plain_train(model, images, loop, task["epochs"], trial.number, device)):
            score = accuracy(model, dataset.validation.x, dataset.validation.y, images, device)
            trial.report(score, epoch)
        return score

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    for code in task["cells"]:
        study.enqueue_trial({"cell": code})
    study.optimize(objective, n_trials=len(task["cells"]))
    return {
        "candidates": len(study.trials),
        "seconds": time.perf_counter() - began,
        "scores": [trial.value for trial in study.trials],
    }


def measure(kind: str, tasks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Run tasks side by side, each in a process of its own; return the sums, with the processes' start in the time."""
    context = multiprocessing.get_context("spawn")
    began = time.perf_counter()
    results: Any = context.SimpleQueue()
    running = [context.Process(target=_child, args=(kind, task, results)) for task in tasks]
    for process in running:
        process.start()
    for process in running:
        process.join()
    seconds = time.perf_counter() - began
    found = []
    while not results.empty():
        found.append(results.get())
    if len(found) < len(tasks):
        return {"error": f"{len(tasks) - len(found)} of {len(tasks)} processes failed", "seconds": seconds}
    count = sum(one["candidates"] for one in found)
    more = {name: found[0][name] for name in ("facts", "failed", "trial_seconds") if name in found[0]}
    return {
        "candidates": count,
        "seconds": seconds,
        "per_hour": 3600 * count / seconds,
        "scores": [score for one in found for score in one["scores"]],
        **more,
    }


def _child(kind: str, task: dict[str, Any], results: Any) -> None:
    results.put((detol_search if kind == "detol" else optuna_search)(task))


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--candidates", type=int, default=6, help="of each of detol's searches")
    parser.add_argument("--optuna-candidates", type=int, default=2, help="of each of Optuna's processes")
    parser.add_argument("--workers", default="1,2", help="of detol, searches one after the other")
    parser.add_argument("--processes", default="1,3", help="of Optuna side by side, searches one after the other")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--way", default="compiled", help="DETOL_STEP of the workers")
    parser.add_argument("--executor", help="ray, or inline (the default of --quick)")
    parser.add_argument("--loaders", type=int, default=8, help="processes of each DataLoader")
    parser.add_argument("--count", type=int, help="training images; all by default")
    parser.add_argument("--folder", type=Path, help="where the decoded images are kept")
    options = parser.parse_args()
    if options.quick:
        options.count, options.epochs, options.candidates, options.optuna_candidates = 40, 1, 1, 1
        options.workers, options.processes, options.loaders = "1", "1", 0
    options.executor = options.executor or ("inline" if options.quick else "ray")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        archive, what = cifar.archive(folder, options.count)
        figures = {"data": what, "epochs": options.epochs, "quick": options.quick, **run(options, archive, folder)}
    if options.device == "cuda":
        figures["gpu"] = torch.cuda.get_device_name()
    conclude(figures, options.json)


def run(options: argparse.Namespace, archive: Path, folder: Path) -> dict[str, Any]:
    """Measure all searches, and compare."""
    recipe = {
        "learning_rate": RECIPE.learning_rate,
        "warmup": 0.0,
        "clip": 0.0,
        "batch_size": 8 if options.quick else RECIPE.batch_size,
        "augment": RECIPE.augment,
        "precision": RECIPE.precision if options.device == "cuda" else "float32",
    }
    workers, processes = ([int(n) for n in text.split(",") if n] for text in (options.workers, options.processes))
    codes = cells(options.candidates)
    common = {"device": options.device, "epochs": options.epochs, "recipe": recipe}
    figures: dict[str, Any] = {"cells": codes}
    for number in workers:
        task = {"archive": str(archive), "cells": codes[: options.candidates], "workers": number, "way": options.way}
        name = f"detol_{number}"
        figures[name] = measure("detol", [{**common, **task, "executor": options.executor}])
        print(name, json.dumps(figures[name]), flush=True)
    for number in processes:
        each = options.optuna_candidates
        shares = [[codes[(place * each + one) % len(codes)] for one in range(each)] for place in range(number)]
        task = {"folder": str(folder), "count": options.count, "loaders": options.loaders}
        name = f"optuna_{number}"
        figures[name] = measure("optuna", [{**common, **task, "cells": share} for share in shares])
        print(name, json.dumps(figures[name]), flush=True)
    rates = {
        name: found["per_hour"] for name, found in figures.items() if isinstance(found, dict) and "per_hour" in found
    }
    if {"detol_1", "optuna_1"} <= rates.keys():
        figures["ratio_one_at_a_time"] = rates["detol_1"] / rates["optuna_1"]
    best = [
        max((rate for name, rate in rates.items() if name.startswith(kind)), default=0.0)
        for kind in ("detol", "optuna")
    ]
    if all(best):
        figures["ratio_best"] = best[0] / best[1]
    return figures


if __name__ == "__main__":
    sys.exit(main())
