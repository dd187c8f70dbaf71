"""The report of a search of 200 trials: its size (<= 5 MB) and its time (<= 10 s), Reach 3 of issue 7.

The searches are made by the real controller, strategies, stopper and store; a formula takes the place of training,
and the times of four workers are written into the database afterwards, so that no hours pass. Beside the search by
evolution there is a random one with as many trials, for the band. Counted is ``detol report`` as a whole: a process of
its own, from its start to its end, imports included.
"""

import argparse
import heapq
import math
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from common import arguments, conclude, spread

from detol import wire
from detol.execution.function import FunctionExecutor
from detol.results.query import Query
from detol.results.schema import reports, searches, trials
from detol.results.store import Database
from detol.run import run_parts
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, parse_objective
from detol.search.task import Task
from detol.spaces import catalogue
from detol.tracking.null import NullTracker

EPOCHS, WORKERS = 27, 4
DATA = {
    "digest": "x1:made",
    "name": "made",
    "kind": "image",
    "task": "classification",
    "shape": [1, 8, 8],
    "outputs": 10,
    "splits": {"train": 1150, "validation": 288, "test": 359},
    "source": "made",
}
WORTH = {"conv3": 1.0, "sepconv3": 0.9, "mbconv3": 0.8, "conv5": 0.6, "max_pool": 0.1}


def evaluate(candidate: Candidate) -> Iterator[dict[str, float]]:
    """Yield a learning curve that a formula over the decisions makes: operations, width and stages count."""
    decisions = candidate.decisions
    operations = [WORTH.get(str(option), 0.3) for name, option in decisions.items() if name.startswith("op_")]
    level = 0.55 + 0.25 * float(np.mean(operations or [0.3])) + 0.03 * math.log2(float(decisions["width_1"]) / 8 + 1)
    level += 0.05 * (decisions["stem_stride"] == 1) + 0.02 * int(decisions["stages"])
    rng = np.random.default_rng(zlib.crc32(candidate.digest.encode()))
    top, pace = (
        min(0.995, level + 0.015 * rng.standard_normal()),
        3 + 2 * (decisions["stem_stride"] == 2) + rng.random(),
    )
    for epoch in range(1, EPOCHS + 1):
        value = top * (1 - 0.7 * math.exp(-epoch / pace)) + 0.004 * rng.standard_normal()
        yield {"val_accuracy": min(1.0, value), "val_loss": 2.3 * (1 - value)}


def make(database: Database, name: str, strategy: str, count: int, *, seed: int = 0) -> None:
    """Run a search of ``count`` trials and write the times of four workers into its record."""
    space, objectives = catalogue.load("image_cell"), (parse_objective("val_accuracy"),)
    limits = Limits(trials=count)
    task = Task(
        space=space,
        recipe=Recipe(),
        data=str(DATA["digest"]),
        epochs=EPOCHS,
        objectives=objectives,
        seed=seed,
        limits=limits,
        references=True,
    )
    stored = {"strategy": strategy, "stop": "asha", "trials": count, "epochs": EPOCHS, "seed": seed, "workers": WORKERS}
    settings = {**stored, "space": space.name, "objectives": ["val_accuracy"], "settings": {**stored, "data": "made"}}
    store = database.create_search(name, settings, DATA, Recipe())
    result = run_parts(
        task,
        name=name,
        strategy=wire.strategy(strategy, space, seed=seed, objectives=1),
        stopper=wire.stopper("asha", epochs=EPOCHS, objectives=objectives, trials=count, seed=seed),
        executor=FunctionExecutor(evaluate),
        store=store,
        tracker=NullTracker(),
        conclude=lambda found: (store.amend(summary={**found.summary, "test": {"test_accuracy": 0.93}}), found)[1],
    )
    assert len(result.trials) >= count
    database.write(lambda connection: _times(connection, name))


def _times(connection: sa.Connection, name: str) -> None:
    """Write when each trial would have been opened and have ended, had four workers trained them in order."""
    found = connection.execute(sa.select(searches.c.id, searches.c.created).where(searches.c.name == name)).one()
    query = sa.select(trials.c.number, trials.c.epoch, trials.c.extra).where(trials.c.search == found.id)
    start = datetime.fromisoformat(found.created)
    free = [5.0] * WORKERS
    rng = np.random.default_rng(0)
    for number, epoch, _ in connection.execute(query.order_by(trials.c.number)).all():
        each = float(0.3 + 0.5 * rng.random())
        begin = heapq.heappop(free)
        heapq.heappush(free, begin + epoch * each + 0.2)
        of = {"created": _moment(start, begin), "ended": _moment(start, begin + epoch * each), "seconds": epoch * each}
        which = sa.and_(trials.c.search == found.id, trials.c.number == number)
        connection.execute(trials.update().where(which).values(**of))
        told = sa.and_(reports.c.search == found.id, reports.c.number == number)
        connection.execute(reports.update().where(told).values(seconds=each))
    last = max(free)
    over = {"consumed": last, "ended": _moment(start, last)}
    connection.execute(searches.update().where(searches.c.id == found.id).values(**over))


def _moment(start: datetime, seconds: float) -> str:
    at = (start + timedelta(seconds=seconds)).astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timed(db: Path, name: str, *options: str) -> tuple[float, float, int]:
    """Return the seconds, the processor's seconds and the bytes of one ``detol report``."""
    with tempfile.TemporaryDirectory(prefix="detol-") as folder:
        target = Path(folder) / "report.html"
        command = [sys.executable, "-m", "detol", "report", name, "--to", str(target), "--db", str(db), *options]
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return took, used, target.stat().st_size


def main() -> None:
    """Measure, and print."""
    parser: argparse.ArgumentParser = arguments(__doc__ or "")
    parser.add_argument("--keep", type=Path, help="where the database is kept, to look at")
    options = parser.parse_args()
    counts, repeats = ((200,), 1) if options.quick else ((50, 200, 1000), 5)
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="detol-") as folder:
        place = options.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with Database(place / "results.db") as database:
            for count in counts:
                make(database, f"made-{count}", "evolution", count)
                make(database, f"random-{count}", "random", count, seed=1)
                kept = Query(database).status(f"made-{count}")
            assert kept.value is not None
        for count in counts:
            runs = [timed(place / "results.db", f"made-{count}") for _ in range(repeats)]
            pictured = timed(place / "results.db", f"made-{count}", "--png", f"{folder}/png-{count}")
            figures[f"trials_{count}"] = {
                "seconds": spread([seconds for seconds, _, _ in runs]),
                "processor_seconds": spread([used for _, used, _ in runs]),
                "bytes": runs[0][2],
                "seconds_with_png": pictured[0],
                "processor_seconds_with_png": pictured[1],
            }
    conclude({"benchmark": "report", "quick": options.quick, **figures}, options.json)


if __name__ == "__main__":
    main()
