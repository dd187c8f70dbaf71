"""How much of a second search the results database answers, and what that saves.

1. Which spaces share networks at all: ``image_cell`` and ``nasbench201`` share cells, and no network. A stage of the
   one is five equal cells, of the other at most two, of at most four operations: five cells of n operations are never
   two of m <= 4. Cells without operations are left: of these the networks are counted. So a search of one after the
   other on the same data is answered nothing, which is measured as well.
2. One space, two strategies, and one strategy with two seeds: NAS-Bench-201 (12-epoch training of CIFAR-10, with the
   seconds that the table says they took), both searches of as many trials, n seeds. Only where ``../shared/data`` is.
3. Real training of digits in one process on one core: the same settings with another rule for stopping, with more
   epochs to come, with other strategies and seeds. What rests or was stopped there tells its rungs here, and goes on
   from its checkpoint.
"""

import itertools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude

import detol
from detol import wire
from detol.bench.statistics import interval
from detol.bench.table import BenchTable, Column
from detol.execution.simulated import SimulatedClock, SimulatedExecutor
from detol.graph.digest import digest
from detol.results.memory import MemoryDatabase
from detol.results.query import Query
from detol.results.weights import NoWeights
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.protocols import SearchSpace
from detol.search.recipe import Recipe
from detol.search.records import Objective, Trial
from detol.search.task import Task
from detol.search_spaces import image_cell, nasbench201
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions
from detol.spaces.reading import steps_of
from detol.stopping.never import Never
from detol.tracking.null import NullTracker

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
PAIRS = (
    ("random", "random"),
    ("random", "evolution"),
    ("evolution", "local_search"),
    ("evolution", "evolution"),
    ("local_search", "local_search"),
    ("random", "guided"),
    ("guided", "evolution"),
    ("guided", "guided"),
)
"""First and second search; the same name twice: with another seed."""


def cells_shared() -> dict[str, Any]:
    """Count the cells of ``nasbench201`` that ``image_cell`` has too, and the networks of cells without operations."""
    labels = {node: label for label, node in image_cell.OPERATIONS.items()}
    cells = {
        digest(nasbench201.cell(decisions)): decisions
        for decisions in nasbench201.SPACE.enumerate()
        if joins(decisions)
    }
    shared = sum(
        any(made(own) == wanted for own in image_cells(nasbench201.cell(d), labels)) for wanted, d in cells.items()
    )
    return {
        "nasbench201_cells": len(cells),
        "of_them_cells_of_image_cell": shared,
        "of_them_networks_of_image_cell_without_operations": len(bare() & bare_images()),
    }


def bare() -> set[str]:
    """Return the digests of the networks of ``nasbench201`` whose cells have no operations."""
    return {
        digest(nasbench201.SPACE.decode(decisions))
        for decisions in nasbench201.SPACE.enumerate()
        if set(decisions.values()) <= {"none", "skip"} and joins(decisions)
    }


def bare_images() -> set[str]:
    """Return the same of ``image_cell``, of three stages as wide as those of ``nasbench201``."""
    stages = {
        f"{what}_{stage}": value
        for stage, width in enumerate(nasbench201.WIDTHS, 1)
        for what, value in (("width", width), ("cells", 1))
    }
    cell = {**image_cell.SPACE.references["lenet"], "stages": 3, **stages}
    others = {
        name: choice.options
        for name in ("stem_stride", "stem_kernel", "reduction", "dropout")
        for choice in image_cell.SPACE.choices
        if choice.name == name
    }
    return {
        digest(image_cell.SPACE.decode(Decisions({**cell, **dict(zip(others, options, strict=True))})))
        for options in itertools.product(*others.values())
    }


def joins(decisions: Decisions) -> bool:
    """Whether a cell joins its input to its output at all."""
    try:
        nasbench201.SPACE.decode(decisions)
    except detol.errors.DetolError:
        return False
    return True


def image_cells(cell: Any, labels: dict[Any, str]) -> Iterator[dict[str, Any]]:
    """Yield decisions of ``image_cell`` that a cell may come from."""
    for steps, join in steps_of(cell, labels, "skip", image_cell.NODES):
        own: dict[str, Any] = {"nodes": len(steps.labels), "join": join}
        for number, parts in enumerate(zip(steps.labels, steps.sources, steps.added, strict=True), start=1):
            own |= dict(zip((f"op_{number}", f"from_{number}", f"add_{number}"), parts, strict=True))
        yield own


def made(own: dict[str, Any]) -> str:
    """Return the digest of the cell of some decisions; empty where there is none."""
    try:
        return digest(image_cell.cell(Decisions(own), 0 if own["join"] != "concat" else 16))
    except (detol.errors.DetolError, KeyError):
        return ""


def overlaps(samples: int) -> dict[str, Any]:
    """Return how many of some networks of one space another one holds, for spaces of the same kind of data."""
    spaces: dict[str, SearchSpace] = {name: catalogue.load(name) for name in catalogue.names()}
    rng, found = np.random.default_rng(0), {}
    for name, space in spaces.items():
        drawn = [space.decode(space.sample(rng)) for _ in range(samples)]
        for other, holds in spaces.items():
            kinds = {getattr(space, "kind", "any"), getattr(holds, "kind", "any")} - {"any"}
            if name != other and len(kinds) < 2:
                found[f"{name} in {other}"] = f"{sum(topology in holds for topology in drawn)} of {samples}"
    return found


def second(table: BenchTable, first: str, then: str, trials: int, seed: int) -> tuple[float, float, float]:
    """Search twice over one database; return of the second the share answered, of its seconds, and its best score."""
    database = MemoryDatabase()
    for number, name in enumerate((first, then)):
        own = seed + 100_000 * number
        store = database.create_search(str(number), {}, {"digest": "cifar10"}, Recipe())
        clock = SimulatedClock()
        Controller(
            Task(
                space=table.space,
                recipe=Recipe(),
                data="cifar10",
                epochs=12,
                objectives=[table.objective],
                seed=own,
                limits=Limits(trials=trials),
                references=False,
            ),
            strategy=wire.strategy(name, table.space, seed=own),
            stopper=Never(),
            executor=SimulatedExecutor(table, clock),
            store=store,
            tracker=NullTracker(),
            keeper=NoWeights(),
            clock=clock,
        ).run()
        store.finish()
    done = store.trials()
    answered = [trial for trial in done if trial.reused]
    return len(answered) / len(done), seconds(answered) / seconds(done), max(trial.score for trial in done)


def seconds(trials: list[Trial] | Any) -> float:
    """Return the device seconds that the curves of some trials took, wherever that was."""
    return math.fsum(report.seconds for trial in trials for report in trial.reports)


def tabular(pairs: tuple[tuple[str, str], ...], trials: int, n: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return for each pair of strategies the share of the second search that the first one answers."""
    path = SHARED / "nasbench201.csv.gz"
    if not path.exists():
        return {"left_out": f"{path} is not here"}
    table = BenchTable(
        path,
        nasbench201.SPACE,
        Objective("cifar10_val12"),
        key="arch_code",
        code=nasbench201.code,
        cost=Column.parse("cifar10_train_seconds200*12/200"),
    )
    found: dict[str, Any] = {"trials": trials, "n": n}
    for first, then in pairs:
        runs = [second(table, first, then, trials, seed) for seed in range(n)]
        shares, saved, best = (np.array(part) for part in zip(*runs, strict=True))
        found[f"{then} after {first}"] = {
            "answered": round(float(shares.mean()), 4),
            "answered_95": [round(bound, 4) for bound in interval(shares)],
            "device_seconds_saved": round(float(saved.mean()), 4),
            "device_seconds_saved_95": [round(bound, 4) for bound in interval(saved)],
            "best_val12": round(float(best.mean()), 3),
        }
        say(f"{then} after {first}: {found[f'{then} after {first}']}")
    return found


def real(trials: int, epochs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Search digits again and again over one database; return what each search trained, and what it was spared."""
    common: dict[str, Any] = {
        "data": "digits", "space": "image_cell", "strategy": "random", "trials": trials, "epochs": epochs, "seed": 0,
        "stop": "promote", "executor": "inline", "workers": 1, "device": "cpu", "tracking": "off", "references": True,
    }  # fmt: skip
    searches: dict[str, dict[str, Any]] = {
        "nasbench201": {"space": "nasbench201", "trials": 2, "epochs": 1, "stop": "none", "references": False},
        "image_cell after nasbench201": {"trials": 2, "epochs": 1, "stop": "none", "references": False},
        "first": {},
        "the same, no stopping": {"stop": "none"},
        "the same, median stopping": {"stop": "median"},
        "the same, twice the trials": {"trials": 2 * trials},
        "another seed": {"seed": 1},
        "another seed, same-seed": {"seed": 2, "reuse": "same-seed"},
        # With seeds of their own: with that of the random search they would begin with its samples.
        "evolution": {"strategy": "evolution", "seed": 3},
        "guided": {"strategy": "guided", "seed": 4},
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "results.db")
        for number, (name, changes) in enumerate(searches.items()):
            began = time.perf_counter()
            result = detol.search(**{**common, **changes}, name=f"s{number}", db=db)
            with wire.database(db) as database:
                row = Query(database).status(f"s{number}")
            took = math.fsum(trial.seconds * trial.width for trial in result.trials)
            found[name] = {
                "trials": row.trials,
                "answered": row.reused,
                "continued": row.continued,
                "epochs_trained": row.epochs_trained,
                "epochs_saved": row.epochs_saved,
                "device_seconds": round(took, 2),
                "device_seconds_saved": round(row.seconds_saved, 2),
                "share_saved": round(row.seconds_saved / (took + row.seconds_saved), 3) if row.seconds_saved else 0.0,
                "wall_seconds": round(time.perf_counter() - began, 1),
            }
            say(f"{name}: {found[name]}")
    return found


def leases(n: int) -> dict[str, Any]:
    """Return what taking, and finding taken, a lease costs on SQLite: milliseconds, median of n."""
    from dataclasses import replace

    from detol.graph.ops import op
    from detol.graph.topology import chain
    from detol.results.store import Database
    from detol.search.records import Candidate, Origin, State

    candidate = Candidate(Decisions(), chain(op("conv")), Origin.SAMPLE)
    trial = Trial(0, candidate, State.RUNNING, 3)
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder) / "results.db") as database:
        first, other = (database.create_search(name, {}, {"digest": "x"}, Recipe()) for name in "ab")
        taken, refused = [], []
        for number in range(1, n + 1):
            for store, into in ((first, taken), (other, refused)):
                began = time.perf_counter()
                store.lease(replace(trial, epochs=number))
                into.append(1e3 * (time.perf_counter() - began))
    return {"take_ms": statistics.median(taken), "refused_ms": statistics.median(refused), "n": n}


def main() -> None:
    """Count, simulate, train."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--part", action="append", choices=("spaces", "tabular", "real", "leases"), help="only these")
    parser.add_argument("--seeds", type=int, default=100, help="of the tabular searches (default: 100)")
    parser.add_argument("--trials", type=int, default=100, help="of the tabular searches (default: 100)")
    parser.add_argument("--pair", action="append", metavar="FIRST,SECOND", help="only these strategies; repeat")
    options = parser.parse_args()
    quick = options.quick
    parts = options.part or ["spaces", "tabular", "real", "leases"]
    pairs = tuple((first, then) for first, _, then in (pair.partition(",") for pair in options.pair or ())) or PAIRS
    figures: dict[str, Any] = {}
    if "spaces" in parts:
        figures["image_cell_and_nasbench201"] = cells_shared()
        figures["networks_in_other_spaces"] = overlaps(5 if quick else 50)
    if "tabular" in parts:
        cheap = tuple(pair for pair in pairs if "guided" not in pair)[:2]
        seeds = 3 if quick else options.seeds
        figures["tabular"] = tabular(cheap if quick else pairs, options.trials, seeds, print)
    if "real" in parts:
        figures["real"] = real(6 if quick else 16, 3 if quick else 9, print)
    if "leases" in parts:
        figures["leases"] = leases(50 if quick else 500)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
