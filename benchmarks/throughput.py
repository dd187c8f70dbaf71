"""How much the machinery costs: trials per second, utilisation, seconds to the first trial, seconds of ``--help``.

1. No-op trials through the controller, Ray's workers, SQLite and the MLflow mirror, with 2 workers. The mirror is a
   process of its own and may lag: the rate of the search and the rate of the mirror are both given.
2. Utilisation of 2 workers with trials of 1 s: consumed worker seconds over workers x wall time from the first start to
   the last end.
3. Seconds from the command ``detol search`` to its first running trial.
4. ``detol --help``.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from common import arguments, conclude, spread

from detol.results.store import Database
from detol.results.weights import NoWeights
from detol.search.clock import RealClock
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Objective, Report
from detol.search.task import Task
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.stopping.never import Never
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker
from detol.tracking.tracker import MlflowTracker
from detol.workers.pool import RayExecutor

WORKERS = 2
SPACE = DecisionSpace("symbols", [Choice(f"choice_{n}", ("a", "b", "c", "d", "e")) for n in range(12)])


def no_op(job: Any, data: Any, *, group: Any, stop: Any) -> Iterator[Report]:
    """Train nothing: one report."""
    yield Report(1, {"val_accuracy": job.seed / 2**31})


def one_second(job: Any, data: Any, *, group: Any, stop: Any) -> Iterator[Report]:
    """Hold a worker for one second."""
    time.sleep(1.0)
    yield Report(1, {"val_accuracy": job.seed / 2**31}, 1.0)


@dataclass
class Run:
    """One measured search: seconds of it from its first trial on, seconds until the mirror had everything."""

    search: float
    mirror: float


def run(entry: Any, trials: int, folder: Path, *, mirror: bool) -> Run:
    """Run a search of trials that train nothing, workers up before the clock starts."""
    recipe, objective = Recipe(), Objective("val_accuracy")
    executor = RayExecutor(None, workers=WORKERS, entry=entry, weights=False)
    try:
        while executor.free() < WORKERS:
            executor.poll(0.1)
        with Database(folder / "results.db") as database:
            store = database.create_search("noop", {"space": "symbols"}, {"digest": "x1:none"}, recipe)
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            tracker: Any = MlflowTracker(uri, "noop", {}, objectives=(objective,)) if mirror else NullTracker()
            task = Task(SPACE, recipe, "x1:none", 1, [objective], limits=Limits(trials=trials))
            controller = Controller(
                task,
                strategy=RandomSearch(SPACE, seed=0),
                stopper=Never(),
                executor=executor,
                store=store,
                tracker=tracker,
                keeper=NoWeights(),
                clock=RealClock(),
            )
            start = time.perf_counter()
            outcome = controller.run()
            searched = time.perf_counter() - start
            assert outcome.tally.trained == trials, outcome
            store.finish()
            tracker.close()
            return Run(searched, time.perf_counter() - start)
    finally:
        executor.close()


def first_trial(folder: Path) -> float:
    """Return seconds from the command to the start of its first trial."""
    command = [sys.executable, "-m", "detol", "search", "--data", "digits", "--space", "tiny", "--trials", "2"]
    command += ["--epochs", "1", "--workers", str(WORKERS), "--db", str(folder / "results.db"), "--name", "first"]
    began = time.time()
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    with Database(folder / "results.db") as database, database.read() as connection:
        started = connection.exec_driver_sql("SELECT min(created) FROM trials").scalar_one()
    return datetime.fromisoformat(started).timestamp() - began


def help_seconds() -> float:
    """Return seconds of ``detol --help``."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "detol", "--help"], check=True, capture_output=True, cwd=tempfile.gettempdir()
    )
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print."""
    options = arguments(__doc__ or "").parse_args()
    trials, repeats, seconds = (300, 1, 10) if options.quick else (2000, 3, 30)
    rates, lone, mirrors, used, starts = [], [], [], [], []
    for _ in range(repeats):
        folder = Path(tempfile.mkdtemp(prefix="detol-"))
        try:
            measured = run(no_op, trials, folder, mirror=True)
            rates.append(trials / measured.search)
            mirrors.append(trials / measured.mirror)
            (folder / "lone").mkdir()
            lone.append(trials / run(no_op, trials, folder / "lone", mirror=False).search)
            (folder / "busy").mkdir()
            busy = run(one_second, WORKERS * seconds, folder / "busy", mirror=True)
            used.append(WORKERS * seconds * 1.0 / (WORKERS * busy.search))
            (folder / "first").mkdir()
            starts.append(first_trial(folder / "first"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    helps = [help_seconds() for _ in range(3 if options.quick else 7)]
    conclude(
        {
            "benchmark": "throughput",
            "quick": options.quick,
            "workers": WORKERS,
            "trials": trials,
            "trials_per_second": spread(rates),
            "trials_per_second_without_mlflow": spread(lone),
            "mirrored_runs_per_second": spread(mirrors),
            "utilisation_with_1_s_trials": spread(used),
            "seconds_to_first_trial": spread(starts),
            "seconds_of_help": spread(helps),
        },
        options.json,
    )


if __name__ == "__main__":
    main()
