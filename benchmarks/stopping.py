"""Stopping rules on 341 real learning curves: epochs spent, how often the best is found, and regret.

The curves are those of NAS-Bench-NLP (Klyuchnikov et al. 2020): validation loss of recurrent cells on WikiText-2 over
50 epochs. In each of 200 random orders some of them arrive as the trials of a search: the real controller over the
simulated executor, the rule as ``--stop`` names it, the best five finished at the end unless the rule ends them, the
winner the best that completed. ``full`` trains all to the end, ``synchronous halving`` (eta 3 from 1 epoch, each rung
rounded up) is a reference that waits for all trials at each rung and so cannot serve a strategy that learns.

The settings of the curve rule were chosen on random halves of the curves, 170 each, and then on other orders of all of
them; the orders reported were looked at once before the last changes. The curves are not held out. ``--half`` runs on
one half (``HALF_SEED``) alone. No trial is spared for
the audit but in the row that says so.
"""

import gzip
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude
from listed import Listed

from detol import wire
from detol.bench.statistics import interval
from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.search.rehearse import NOBODY
from detol.search.task import Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.tracking.null import NullTracker

EPOCHS = 50
HALF_SEED = 12345
SEED = 2026
LOSS = Objective("val_loss", minimise=True)


@dataclass(frozen=True)
class Row:
    """A rule in the comparison: as ``--stop`` and ``--set stop.KEY`` name it; ``earlier``: curves of other cells."""

    label: str
    stop: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    earlier: int = 0


ROWS = (
    Row("full", "none"),
    Row("stop form (asha, default grace)", "asha"),
    Row("stop form (asha, grace 1)", "asha", {"grace": 1}),
    Row("synchronous halving"),
    Row("promote", "promote"),
    Row("promote (as published)", "promote", {"quota": False}),
    Row("hyperband", "hyperband"),
    Row("pasha", "pasha"),
    Row("curve", "curve"),
    Row("promote+curve", "promote+curve"),
    Row("promote+curve (promotion as published)", "promote+curve", {"quota": False}),
    Row("hyperband+curve", "hyperband+curve"),
    Row("promote+curve, audit 5 %", "promote+curve", {"audit_share": 0.05}),
    Row("promote+curve, 40 earlier curves", "promote+curve", earlier=40),
)
QUICK = ("full", "synchronous halving", "stop form (asha, default grace)", "promote", "promote+curve")


class Curves:
    """The losses (n, 50), and a table of them for the simulated executor."""

    def __init__(self, path: str) -> None:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            cells = json.load(file)
        found = [cell["val_losses"] for cell in cells]
        kept = [losses for losses in found if len(losses) == EPOCHS and np.isfinite(losses).all()]
        self.losses = np.array(kept)
        choice = Choice("curve", tuple(range(len(kept))))
        self.space = DecisionSpace("curves", [choice], build=lambda d: chain(op("linear", features=d["curve"] + 1)))
        self.candidates = [
            Candidate(Decisions(curve=i), self.space.decode(Decisions(curve=i)), Origin.SAMPLE)
            for i in range(len(kept))
        ]

    def answer(self, candidate: Candidate) -> Answer:
        """Return the curve of a candidate; each epoch takes one second."""
        losses = self.losses[candidate.decisions["curve"]]
        return Answer({}, float(EPOCHS), [{"val_loss": float(loss)} for loss in losses])

    def trial(self, index: int) -> Trial:
        """Return a curve as a completed trial of an earlier search."""
        reports = tuple(Report(epoch, {}) for epoch in range(1, EPOCHS + 1))
        curve = tuple(float(-loss) for loss in self.losses[index])
        return Trial(-1 - index, NOBODY, State.COMPLETED, EPOCHS, reports=reports, curve=curve, scores=curve[-1:])


def halving(losses: np.ndarray) -> tuple[int, float]:
    """Return epochs and best loss of synchronous successive halving with eta 3 from 1 epoch."""
    alive, spent, rung, before = np.arange(len(losses)), 0, 1, 0
    while True:
        spent += len(alive) * (rung - before)
        if rung == EPOCHS:
            return spent, float(losses[alive, -1].min())
        keep = math.ceil(len(alive) / 3)
        alive = alive[np.argsort(losses[alive, rung - 1], kind="stable")[:keep]]
        before, rung = rung, min(3 * rung, EPOCHS)


def search(curves: Curves, order: Sequence[int], row: Row, workers: int, rest: Sequence[int]) -> dict[str, float]:
    """Run one search over curves in an order; ``rest`` are cells of earlier searches."""
    losses = curves.losses[list(order)]
    best = float(losses[:, -1].min())
    if not row.stop:
        spent, found = halving(losses)
        return {"epochs": spent, "found": found == best, "regret": found - best}
    clock = SimulatedClock()
    rule = wire.stopper(
        row.stop,
        epochs=EPOCHS,
        options={"audit_share": 0, **row.options},
        objectives=(LOSS,),
        trials=len(order),
        earlier=[curves.trial(index) for index in rest[: row.earlier]],
    )
    store = MemoryDatabase().create_search("s", {}, {"digest": "x1:0"}, Recipe())
    Controller(
        Task(curves.space, Recipe(), "x1:0", EPOCHS, [LOSS], limits=Limits(trials=len(order)), references=False),
        strategy=Listed([curves.candidates[index] for index in order]),
        stopper=rule,
        executor=SimulatedExecutor(curves, clock, workers),
        store=store,
        tracker=NullTracker(),
        keeper=NoWeights(),
        clock=clock,
    ).run()
    trials = store.trials()
    completed = [trial for trial in trials if trial.state is State.COMPLETED]
    found = min((-trial.score for trial in completed), default=math.inf)
    return {
        "epochs": sum(trial.epoch for trial in trials),
        "found": found == best,
        "regret": found - best,
        "completed": len(completed),
    }


_curves: Curves | None = None  # shared with the processes of the pool, which are forks


def _one(work: tuple[list[int], Row, int, list[int]]) -> dict[str, float]:
    assert _curves is not None
    order, row, workers, rest = work
    return search(_curves, order, row, workers, rest)


def share_interval(hits: int, n: int) -> list[float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z, p = 1.96, hits / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return [round((middle + sign * half) / (1 + z * z / n), 4) for sign in (-1, 1)]


def summary(runs: Sequence[Mapping[str, float]], trials: int) -> dict[str, Any]:
    """Return the figures of one row."""
    epochs = np.array([run["epochs"] for run in runs], dtype=float)
    hits = sum(bool(run["found"]) for run in runs)
    low, high = interval(epochs)
    regret = [run["regret"] for run in runs]
    figures = {
        "saves": round(trials * EPOCHS / float(epochs.mean()), 2),
        "saves_95": [round(trials * EPOCHS / high, 2), round(trials * EPOCHS / low, 2)],
        "epochs": round(float(epochs.mean()), 1),
        "found": hits / len(runs),
        "found_95": share_interval(hits, len(runs)),
        "regret_mean": round(float(np.mean(regret)), 5),
        "regret_max": round(float(np.max(regret)), 4),
        "n": len(runs),
    }
    if "completed" in runs[0]:
        figures["completed"] = round(float(np.mean([run["completed"] for run in runs])), 1)
    return figures


def main() -> None:
    """Run the rows and print the figures."""
    global _curves
    parser = arguments(__doc__ or "")
    parser.add_argument("--curves", default="../shared/data/nlp_wikitext2_curves.json.gz", help="the curves' file")
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--trials", type=int, action="append", help="trials of a search; repeat (default 100 and 50)")
    parser.add_argument("--workers", type=int, action="append", help="simulated workers; repeat (default 1 and 4)")
    parser.add_argument("--row", action="append", help="only these, by label; repeat")
    parser.add_argument(
        "--half", choices=("all", "chosen", "unseen"), default="all", help="which curves are drawn from"
    )
    parser.add_argument("--processes", type=int, default=0, help="0: one a core")
    options = parser.parse_args()
    if not Path(options.curves).exists():
        sys.exit(f"no such file: {options.curves} (see ../shared/data/README.md); --curves FILE")
    _curves = Curves(options.curves)
    orders = 10 if options.quick else options.orders
    wanted = options.row or (QUICK if options.quick else [row.label for row in ROWS])
    halves = np.random.default_rng(HALF_SEED).permutation(len(_curves.losses))
    pools = {"all": np.arange(len(halves)), "chosen": halves[:170], "unseen": halves[170:]}
    pool = pools[options.half]
    figures: dict[str, Any] = {
        "curves": len(_curves.losses), "drawn_from": options.half, "orders": orders, "quick": options.quick,
    }  # fmt: skip
    processes = options.processes or len(os.sched_getaffinity(0))
    start = time.perf_counter()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as workers_:
        for trials in options.trials or (100, 50):
            rng = np.random.default_rng([SEED, trials])
            drawn = [rng.permutation(pool) for _ in range(orders)]
            for row in (row for row in ROWS if row.label in wanted):
                for workers in options.workers or ((4,) if options.quick else (1, 4)):
                    work = [(o[:trials].tolist(), row, workers, o[trials:].tolist()) for o in drawn]
                    found = summary(list(workers_.map(_one, work, chunksize=2)), trials)
                    about = f"{row.label}, {trials} trials, {workers} workers"
                    figures[about] = found
                    print(f"{time.perf_counter() - start:6.0f} s  {about}: {found}", file=sys.stderr)
                    if row.stop in ("", "none"):
                        break  # the number of workers changes nothing
    figures["seconds"] = round(time.perf_counter() - start, 1)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
