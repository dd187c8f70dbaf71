"""Guided searches whose first rung says little of the end: what promotion costs in accuracy, and saves in epochs.

A training of NAS-Bench-201 has three epochs here: after the first it scores as in the table after 12 epochs, after the
last as after 200. The controller of real searches runs over simulated workers; references are left out, with which the
best is found at once. Each row is a rule: the default, promotion as published, every trial to its end. ``--seconds``
bounds the searches by simulated time (a training takes one second) in place of trials. Left out, with a reason, where
``../shared/data`` is absent.
"""

import csv
import gzip
import os
import statistics
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude

from detol import wire
from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, State
from detol.search.task import Task
from detol.search_spaces.nasbench201 import code
from detol.spaces import catalogue
from detol.strategies.guided import Guided
from detol.tracking.null import NullTracker

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
TABLE = SHARED / "nasbench201.csv.gz"
EPOCHS, WORKERS = 3, 2
RULES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "promote": ("promote", {"rungs": [1]}),
    "promote (as published)": ("promote", {"rungs": [1], "quota": False}),
    "none": ("none", {}),
}


@cache
def scores(data: str) -> dict[str, tuple[float, float]]:
    """Return validation accuracies after 12 and 200 epochs, in [0, 1], by the table's codes."""
    with gzip.open(TABLE, "rt") as file:
        return {
            row["arch_code"]: (float(row[f"{data}_val12"]) / 100, float(row[f"{data}_val200"]) / 100)
            for row in csv.DictReader(file)
        }


class Curves:
    """Answers with a straight line between the two scores of the table (keeps ``simulated.Table``)."""

    def __init__(self, data: str) -> None:
        self._scores = scores(data)

    def answer(self, candidate: Candidate) -> Answer:
        """Return the curve of one training."""
        curve = np.linspace(*self._scores[code(candidate)], EPOCHS)
        return Answer({}, 1.0, [{"val_accuracy": float(score)} for score in curve])


def search(data: str, rule: str, limits: Limits, seed: int) -> tuple[float, int, int]:
    """Return the best final score of a search, how many trials completed, and the epochs it took."""
    space, objective, clock = catalogue.load("nasbench201"), Objective("val_accuracy"), SimulatedClock()
    name, options = RULES[rule]
    trials = int(limits.trials) if np.isfinite(limits.trials) else None
    task = Task(space, Recipe(), "table", EPOCHS, [objective], limits=limits, references=False, reuse="never")
    store = MemoryDatabase().create_search("table", {}, {"digest": "table"}, task.recipe)
    Controller(
        task,
        strategy=Guided(space, seed=seed, references=False),
        stopper=wire.stopper(name, epochs=EPOCHS, objectives=[objective], options=options, trials=trials, seed=seed),
        executor=SimulatedExecutor(Curves(data), clock, WORKERS),
        store=store,
        tracker=NullTracker(),
        keeper=NoWeights(),
        clock=clock,
    ).run()
    ended = list(store.trials())
    done = [trial.curve[-1] for trial in ended if trial.state is State.COMPLETED]
    return max(done, default=0.0), len(done), sum(trial.epoch for trial in ended)


def main() -> None:
    """Search, and report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=48)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=60, help="of each search")
    parser.add_argument("--seconds", type=float, help="simulated ones that bound a search, in place of trials")
    parser.add_argument("--rule", action="append", choices=list(RULES), help="only these; repeat")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.trials = 4, 30
    if not TABLE.exists():
        conclude({"benchmark": "two_fidelities", "left_out": f"{TABLE} is not there"}, options.json)
        return
    limits = Limits(seconds=options.seconds) if options.seconds else Limits(trials=options.trials)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    figures: dict[str, Any] = {"benchmark": "two_fidelities", "quick": options.quick, "n": options.seeds}
    figures |= {"seconds": options.seconds} if options.seconds else {"trials": options.trials}
    with ProcessPoolExecutor() as pool:
        for data, rule in product(("cifar10", "cifar100"), options.rule or RULES):
            found = list(pool.map(partial(search, data, rule, limits), seeds))
            best = [row[0] for row in found]
            figures[f"{data}, {rule}"] = {
                "best": round(statistics.mean(best), 5),
                "standard_error": round(statistics.stdev(best) / len(best) ** 0.5, 5),
                "best_of_the_table": max(last for _, last in scores(data).values()),
                "completed": round(statistics.mean(row[1] for row in found), 1),
                "epochs": round(statistics.mean(row[2] for row in found), 1),
            }
            print(f"{data}, {rule}: {figures[f'{data}, {rule}']}", flush=True)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
