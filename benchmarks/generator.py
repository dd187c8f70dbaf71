"""The generator strategy on NAS-Bench-201: what it finds in so many trainings, beside random, local search and guided.

Validation accuracy after 200 epochs; each row of the table is a training of its own. The mean over seeds with 95 %
bootstrap intervals. No setting of the generator was chosen on a table.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # seeds run side by side, one a core

from common import arguments, conclude

from detol import wire
from detol.bench import Entry, Protocol, answer, open_table
from detol.search.records import Objective
from detol.spaces import catalogue

STRATEGIES = ("generate", "random", "local_search", "guided")


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--table", default="../shared/data/nasbench201.csv.gz", help="the table (see its README)")
    parser.add_argument("--sets", default="cifar10", help="cifar10, cifar100 or both, with a comma")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=192, help="trainings of a search (AG-Net's budget)")
    parser.add_argument("--processes", type=int, default=0, help="0: one a core")
    options = parser.parse_args()
    seeds, trials = (2, 30) if options.quick else (options.seeds, options.trials)
    space = catalogue.load("nasbench201")
    figures: dict[str, Any] = {"benchmark": "generator", "table": Path(options.table).name, "quick": options.quick}
    figures |= {"seeds": seeds, "trials": trials}
    start = time.perf_counter()
    for name in options.sets.split(","):
        objective = Objective(f"{name}_val200")
        table = open_table(options.table, space, objective, key="arch_code", tests=[f"{name}_test200"])
        entries = [Entry(strategy) for strategy in options.strategies.split(",")]
        found = answer(
            table,
            Protocol(trials=trials),
            entries,
            wire.strategy,
            seeds=seeds,
            processes=options.processes,
            progress=lambda done, of: print(f"{done}/{of} searches", file=sys.stderr, flush=True),
        )
        figures[name] = {row.pop("strategy"): _short(row) for row in found["strategies"]}
    conclude({**figures, "seconds": time.perf_counter() - start}, options.json)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is reported of a strategy."""
    kept = ("seeds", "mean_trainings_to_best", "median_trainings_to_best", "found", "best", "test", "search_seconds")
    intervals = row["intervals"]
    return {key: row[key] for key in kept if key in row} | {
        "interval_best": intervals["best"],
        "interval_trainings_to_best": intervals["mean_trainings_to_best"],
    }


if __name__ == "__main__":
    main()
