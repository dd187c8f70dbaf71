"""100,000 trials in bounded memory, and what an ask costs as observations grow: the controller in simulated time.

1. ``soak``: random and guided over a large space (12 choices of 5 symbols, a made-up score) on 64 simulated workers,
   the controller of real searches, its store in SQLite or in memory. Resident memory and real time at each tenth;
   memory grows by what must be remembered of a trial (its identity and decisions, and in memory its record).
2. ``asks``: seconds of one ``ask(1)`` of guided, and of ``ask(16)``, at 100, 1,000 and 10,000 observations, on the
   space of NAS-Bench-201, on the large one, and on the two spaces of images that are searched by training.

What grows faster than the trials would show: ``bytes_per_trial`` of the last tenth against that of the first.
"""

import gc
import math
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import arguments, conclude, spread

from detol import wire
from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.results.memory import MemoryStore
from detol.results.store import Database
from detol.results.weights import NoWeights
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin, State, Trial
from detol.search.task import Task
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.never import Never
from detol.tracking.null import NullTracker

WORKERS = 64
SPACE = DecisionSpace("symbols", [Choice(f"choice_{n}", ("a", "b", "c", "d", "e")) for n in range(12)])
WEIGHTS = np.random.default_rng(0).normal(size=(12, 5))
PAIRS = np.random.default_rng(1).normal(size=(11, 5, 5))


def score(decisions: Decisions) -> float:
    """Return a made-up score in [0, 1]: effects of options and of neighbouring pairs."""
    taken = np.array(["abcde".index(str(option)) for option in decisions.values()])
    total = WEIGHTS[np.arange(12), taken].sum() + PAIRS[np.arange(11), taken[:-1], taken[1:]].sum()
    return 1 / (1 + math.exp(-total / 8))


class _Table:
    def answer(self, candidate: Candidate) -> Answer:
        return Answer({"val_accuracy": score(candidate.decisions)}, 60.0)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def soak(name: str, store: Any, trials: int) -> dict[str, Any]:
    """Run one search of so many trials and return its memory and time at each tenth."""
    marks = [trials * tenth // 10 for tenth in range(1, 11)]
    found: list[dict[str, float]] = []
    objective, clock = Objective("val_accuracy"), SimulatedClock()
    task = Task(SPACE, Recipe(), "none", 1, [objective], limits=Limits(trials=trials), references=False)
    gc.collect()
    began, before = time.perf_counter(), resident()

    def watch(controller: Controller) -> None:
        while marks and controller.tally.trials >= marks[0]:
            gc.collect()
            mark = {"trials": marks.pop(0), "mib": resident() / 2**20, "seconds": time.perf_counter() - began}
            found.append(mark)
            print(f"{name}: {mark['trials']} trials, {mark['mib']:.0f} MiB, {mark['seconds']:.0f} s", file=sys.stderr)

    outcome = Controller(
        task,
        strategy=wire.strategy(name, SPACE, seed=0),
        stopper=Never(),
        executor=SimulatedExecutor(_Table(), clock, WORKERS),
        store=store,
        tracker=NullTracker(),
        keeper=NoWeights(),
        clock=clock,
        watch=watch,
    ).run()
    assert outcome.tally.trials == trials, outcome
    tenth, last = trials / 10, (found[-1]["mib"] - found[-2]["mib"]) * 2**20
    return {
        "strategy": name,
        "trials": trials,
        "start_mib": before / 2**20,
        "marks": found,
        "bytes_per_trial": (found[-1]["mib"] * 2**20 - before) / trials,
        "bytes_per_trial_last_tenth": last / tenth,
        "seconds_per_trial_first_tenth": found[0]["seconds"] / tenth,
        "seconds_per_trial_last_tenth": (found[-1]["seconds"] - found[-2]["seconds"]) / tenth,
    }


def asks(space: Any, observed: int, repeats: int) -> dict[str, Any]:
    """Return how long guided takes for one and for 16 candidates after so many observations."""
    strategy = wire.strategy("guided", space, seed=0, identity=lambda candidate: candidate.decisions)
    rng, told = np.random.default_rng(0), set()
    trials: list[Trial] = []
    while len(trials) < observed:
        decisions = space.sample(rng)
        if decisions not in told:
            told.add(decisions)
            trials.append(_trial(len(trials), Candidate(decisions, space.decode(decisions), Origin.SAMPLE)))
    strategy.tell(trials)
    strategy.ask(1)  # the pool of a small space is laid out once in a process
    times: dict[int, list[float]] = {1: [], 16: []}
    for _ in range(repeats):
        for count, taken in times.items():
            start = time.perf_counter()
            made = strategy.ask(count)
            taken.append(time.perf_counter() - start)
            strategy.tell([_trial(10**6, candidate) for candidate in made])
    return {
        "space": space.name,
        "observed": observed,
        "ask_1_seconds": spread(times[1]),
        "ask_16_seconds": spread(times[16]),
    }


def _trial(number: int, candidate: Candidate) -> Trial:
    value = score(candidate.decisions) if "choice_0" in candidate.decisions else _figure(candidate.decisions)
    return Trial(number, candidate, State.COMPLETED, 1, scores=(value,))


def _figure(decisions: Decisions) -> float:
    return sum("conv" in str(option) for option in decisions.values()) + hash(decisions) % 97 / 500


def main() -> None:
    """Measure, and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--strategy", action="append", help="of the soak; repeat (default: random, guided)")
    parser.add_argument("--store", choices=("sqlite", "memory"), default="sqlite")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--no-asks", action="store_true", help="the soak alone")
    only.add_argument("--no-soak", action="store_true", help="the asks alone")
    options = parser.parse_args()
    trials = 5_000 if options.quick else options.trials
    figures: dict[str, Any] = {"benchmark": "soak", "quick": options.quick, "store": options.store, "workers": WORKERS}
    for name in () if options.no_soak else options.strategy or ("random", "guided"):
        with tempfile.TemporaryDirectory() as folder:
            if options.store == "memory":
                figures[f"soak_{name}"] = soak(name, MemoryStore(), trials)
            else:
                with Database(Path(folder) / "results.db") as database:
                    store = database.create_search(name, {"space": "symbols"}, {"digest": "x1:none"}, Recipe())
                    figures[f"soak_{name}"] = soak(name, store, trials)
    if not options.no_asks:
        counts = (100, 1_000) if options.quick else (100, 1_000, 10_000)
        spaces = (*map(catalogue.load, ("nasbench201", "image_cell", "image_dag")), SPACE)
        figures["asks"] = [asks(space, n, 3 if options.quick else 10) for space in spaces for n in counts]
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
