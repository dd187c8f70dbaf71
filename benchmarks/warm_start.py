"""Warm start: searches that know results on another data set, against cold ones.

On NAS-Bench-201 (default): each search knows 300 random records of the sibling column (CIFAR-10 from CIFAR-100 and
back), validation accuracy after 200 epochs, each proposal charged. ``cold`` knows nothing, ``warm`` knows the sibling,
``reversed`` the sibling with the worst taken for the best. ``guided`` stands without the space's two references unless
``--references`` is given (they rank well on these tables); ``random`` warm is the ten best known records tried in their
order, then chance. Most settings were chosen on other pairs of data sets: the 12-epoch columns, and tables of
``made_tables.py`` made of digits and of Fashion-MNIST. The rule by which guided leaves a source that its own results
contradict was changed after a look at ``reversed`` with the references here.

``--real``: searches of Fashion-MNIST by real training, cold and warm from a database that holds searches of digits and
of as many images of CIFAR-10, all in one space with one schedule. The searches in the database are longer
(``--source-trials``): one of 30 trainings has not found out what is good on its own data. What is reported is how many
trainings and seconds the warm search takes to the final validation accuracy of the cold one, by the cold one's. Each
search has a GPU to itself, or its share of the cores. What is in ``--folder`` already is not run again.
"""

import argparse
import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # seeds run side by side, one a core

from common import arguments, conclude

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("DETOL_SHARED", HERE.parents[1] / "shared")) / "data"
SIBLINGS = {"cifar10": "cifar100", "cifar100": "cifar10"}
MODES = ("cold", "warm", "reversed")
SOURCES = ("cifar10", "digits")
"""Searches in the database that real warm searches begin with."""
DIGITS = 1_438
"""Rows that train and validate, of which a limit may be at most as large."""
REACH = {"cifar10": (12.0, 91.55), "cifar100": (15.0, 73.2)}
"""Mean trainings to the best, and best after 10 of them, that a warm guided search is to reach."""


def main() -> None:
    """Run one of the two parts."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--table", type=Path, default=SHARED / "nasbench201.csv.gz", help="the table (see its README)")
    parser.add_argument("--sets", default=",".join(SIBLINGS), help="data sets that are searched")
    parser.add_argument("--modes", default=",".join(MODES), help="what searches know")
    parser.add_argument("--strategies", default="guided,random,evolution", help="names; reversed is of guided alone")
    parser.add_argument("--schedule", default="val200", help="columns: val200, or val12 on which settings were chosen")
    parser.add_argument("--references", action="store_true", help="guided starts from the space's references")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=200, help="trainings of a search")
    parser.add_argument("--rows", type=int, default=300, help="records of the sibling")
    parser.add_argument("--processes", type=int, default=0, help="0: one a core")
    parser.add_argument("--real", action="store_true", help="searches by real training instead")
    parser.add_argument("--real-seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--real-trials", type=int, default=30, help="trainings of each real search")
    parser.add_argument("--source-trials", type=int, default=100, help="trainings of each search in the database")
    parser.add_argument("--source-rows", type=int, default=12_000, help="images of CIFAR-10 in the database's search")
    parser.add_argument("--source-workers", type=int, default=3, help="of each search in the database, on a GPU")
    parser.add_argument("--epochs", type=int, default=6, help="of each real training")
    parser.add_argument("--limit", type=int, default=0, help="rows of each data set at most (0: as they are)")
    parser.add_argument("--space", default="image_cell", help="of the real searches")
    parser.add_argument("--workers", type=int, default=0, help="of each real search (0: by the GPUs or cores)")
    parser.add_argument("--lanes", type=int, default=0, help="real searches side by side (0: one a GPU, or 6)")
    parser.add_argument("--folder", type=Path, help="where real searches are kept (default: a temporary one)")
    parser.add_argument("--to", type=Path, help="file for the JSON object")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.trials, options.strategies = 2, 25, "guided"
        options.real_seeds, options.real_trials, options.epochs, options.limit = [1], 8, 2, 300
        options.source_trials, options.source_workers = 8, 1
    figures = _Real(options).figures() if options.real else tabular(options)
    if options.to:
        options.to.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    conclude(figures, options.json)


# -- tables ------------------------------------------------------------------------------------------------------------


def tabular(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all searches on the table, and print them as Markdown."""
    from detol import wire
    from detol.bench import Entry, Protocol, answer, open_table
    from detol.bench.sibling import Sibling
    from detol.search.records import Objective
    from detol.spaces import catalogue

    space, start = catalogue.load("nasbench201"), time.perf_counter()
    guided = {} if options.references else {"references": False}
    names = options.strategies.split(",")
    found: dict[str, Any] = {"benchmark": "warm_start", "quick": options.quick, "references": options.references}
    found |= {"seeds": options.seeds, "trials": options.trials, "rows": options.rows}
    for target in options.sets.split(","):
        column = f"{target}_{options.schedule}"
        table = open_table(options.table, space, Objective(column), key="arch_code")
        rows = []
        for mode in options.modes.split(","):
            objective = Objective(f"{SIBLINGS[target]}_{options.schedule}", minimise=mode == "reversed")
            sibling = Sibling(table, objective, options.rows, key="arch_code")
            entries = [Entry(n, guided if n == "guided" else {}) for n in names if n == "guided" or mode != "reversed"]
            made = answer(
                table,
                Protocol(trials=options.trials, until_best=True),
                entries,
                wire.strategy,
                seeds=options.seeds,
                processes=options.processes,
                warm=None if mode == "cold" else sibling.sources,
            )
            print(f"{target} {mode}: {made['seconds']:.0f} s", file=sys.stderr, flush=True)
            for row in made["strategies"]:
                del row["regret"]
                rows.append({"mode": mode, **row})
        found[column] = rows
        _print(target, column, rows)
    return {**found, "wall_seconds": time.perf_counter() - start}


def _print(target: str, column: str, rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n**{column}**\n")
    print("| strategy | knows | trainings to the best | median | found | best after 10 | after 25 | by cold |")
    print("|---|---|---|---|---|---|---|---|")
    cold = {row["strategy"]: row["mean_trainings_to_best"] for row in rows if row["mode"] == "cold"}
    for row in rows:
        low, high = row["intervals"]["mean_trainings_to_best"]
        mean, name = row["mean_trainings_to_best"], row["strategy"]
        shown = f"{mean / cold[name]:.2f}" if name in cold else ""
        best = [f"{row['best'][k]:.3f}" if k in row["best"] else "" for k in ("10", "25")]
        print(
            f"| {name} | {row['mode']} | {mean:.1f} [{low:.1f}, {high:.1f}] | {row['median_trainings_to_best']:g} "
            f"| {row['found']:.0%} | {best[0]} | {best[1]} | {shown} |"
        )
    if column.endswith("val200"):
        print(f"\nto reach, guided warm: {REACH[target][0]:g} trainings, {REACH[target][1]:g} after 10; reversed 1.2")


# -- real training -----------------------------------------------------------------------------------------------------


class _Real:
    """Searches by real training, side by side in lanes; each leaves a file, so that one can go on later."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = (options.folder or Path(tempfile.mkdtemp(prefix="detol-"))).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        gpus, cores = _gpus(), sorted(os.sched_getaffinity(0))
        count = options.lanes or (1 if options.quick else gpus or min(6, len(cores)))
        self.lanes: SimpleQueue[tuple[str, list[int]]] = SimpleQueue()
        self.count, self.workers = count, options.workers or (1 if gpus else max(1, len(cores) // count))
        for lane in range(count):
            self.lanes.put((str(lane % gpus) if gpus else "", cores[lane::count] or cores))

    def figures(self) -> dict[str, Any]:
        """Return the figures of all searches, and print them."""
        start, seeds = time.perf_counter(), self.options.real_seeds
        fashion = str(SHARED / "fashion_mnist_12k.npz")
        cold_start = ["--warm", "off"]
        data = {"cifar10": self._cifar(), "digits": "digits"}
        jobs = [(name, data[name], "sources", 0, cold_start) for name in SOURCES]
        with ThreadPoolExecutor(self.count) as pool:
            waiting = [pool.submit(self._search, *job) for job in jobs]
            # Cold searches need nothing of the sources: they fill the lanes meanwhile.
            cold = [pool.submit(self._search, f"cold-{s}", fashion, f"cold-{s}", s, cold_start) for s in seeds]
            for each in waiting:
                each.result()
            for seed in seeds:
                if not (self.folder / f"warm-{seed}.db").exists():
                    self._copy("sources", f"warm-{seed}")
            flags = ["--warm", "auto"]
            warm = [pool.submit(self._search, f"warm-{s}", fashion, f"warm-{s}", s, flags) for s in seeds]
            for each in [*cold, *warm]:
                each.result()
        rows = [self._compared(seed) for seed in seeds]
        print("| seed | cold: best | trainings | seconds | warm: trainings to it | seconds | share | best |")
        print("|---|---|---|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row['seed']} | {row['cold_best']:.4f} | {row['cold_trainings']} | {row['cold_seconds']:.0f} "
                f"| {row['warm_trainings']} | {row['warm_seconds']:.0f} | {row['share']:.2f} | {row['warm_best']:.4f} |"
            )
        chosen = self.options
        return {
            "benchmark": "warm_start_real",
            "quick": chosen.quick,
            "n": len(rows),
            "space": chosen.space,
            "trials": chosen.real_trials,
            "epochs": chosen.epochs,
            "source_trials": chosen.source_trials,
            "source_rows": chosen.source_rows,
            "seeds": rows,
            "mean_share_of_trainings": statistics.mean(row["share"] for row in rows),
            "mean_share_of_seconds": statistics.mean(row["share_of_seconds"] for row in rows),
            "gpus": _gpus(),
            "workers": self.workers,
            "wall_seconds": time.perf_counter() - start,
        }

    def _cifar(self) -> str:
        file = self.folder / "cifar10.npz"
        if not file.exists():
            subprocess.run([sys.executable, str(SHARED / "unpack.py"), "cifar10-npz", str(file)], check=True)
        return str(file)

    def _search(self, name: str, data: str, db: str, seed: int, flags: Sequence[str]) -> None:
        """Run one search in a lane, unless it is there already."""
        done = self.folder / f"{name}.json"
        if done.exists():
            return
        chosen, (gpu, cores) = self.options, self.lanes.get()
        source = name in SOURCES
        limit = chosen.limit or (chosen.source_rows if name == "cifar10" else 0)
        limit = min(limit, DIGITS) if name == "digits" else limit
        trials = chosen.source_trials if source else chosen.real_trials
        workers = chosen.source_workers if source and gpu else self.workers
        if name in self._begun(db):  # the call before was cut off
            command = [sys.executable, "-m", "detol", "resume", name]
        else:
            command = [sys.executable, "-m", "detol", "search", "--data", data, "--space", chosen.space, *flags]
            command += ["--name", name, "--seed", str(seed), "--trials", str(trials), "--stop", "none"]
            command += ["--epochs", str(chosen.epochs), "--device", "cuda" if gpu else "cpu"]
            command += ["--set", f"data.limit={limit}"] if limit else []
            command += ["--executor", "inline"] if chosen.quick else []
        command += ["--db", str(self.folder / f"{db}.db"), "--tracking", "off", "--json"]
        command += ["--workers", "1" if chosen.quick else str(workers)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "OMP_NUM_THREADS": "1"}
        began = time.monotonic()
        try:
            pinned = ["taskset", "-c", ",".join(map(str, cores)), *command]
            found = subprocess.run(
                pinned, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
            )
        finally:
            self.lanes.put((gpu, cores))
        if found.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {found.stderr[-1500:]}")
        summary = json.loads(found.stdout)
        done.write_text(json.dumps({**summary, "wall_seconds": time.monotonic() - began}), encoding="utf-8")
        print(f"{name}: {time.monotonic() - began:.0f} s, best {summary['best']}", file=sys.stderr, flush=True)

    def _begun(self, db: str) -> list[str]:
        from detol import wire

        if not (self.folder / f"{db}.db").exists():
            return []
        with wire.database(str(self.folder / f"{db}.db"), create=False) as database:
            return database.names()

    def _copy(self, name: str, to: str) -> None:
        source = sqlite3.connect(self.folder / f"{name}.db")
        target = sqlite3.connect(self.folder / f"{to}.db")
        with closing(source), closing(target):
            source.backup(target)  # a copy of the file alone would lack what is in its log

    def _compared(self, seed: int) -> dict[str, Any]:
        cold, warm = self._course(f"cold-{seed}"), self._course(f"warm-{seed}")
        best = max(value for value, _ in cold)
        needed, seconds = _reached(cold, best)
        after, later = _reached(warm, best)
        return {
            "seed": seed,
            "cold_best": best,
            "cold_trainings": needed,
            "cold_seconds": seconds,
            "cold_all_seconds": cold[-1][1],
            "warm_trainings": after if after else len(warm),
            "warm_seconds": later if after else warm[-1][1],
            "warm_reached": bool(after),
            "warm_best": max(value for value, _ in warm),
            "share": (after or math.inf) / needed if after else float(len(warm) + 1) / needed,
            "share_of_all": (after or len(warm) + 1) / len(cold),
            "share_of_seconds": (later if after else warm[-1][1]) / seconds,
            "share_of_all_seconds": (later if after else warm[-1][1]) / cold[-1][1],
            "sources": self._sources(f"warm-{seed}"),
        }

    def _course(self, name: str) -> list[tuple[float, float]]:
        """Return validation accuracy and seconds since the start of each training, in the order in which they ended."""
        from detol import wire
        from detol.results.query import Query

        with wire.database(str(self.folder / f"{name}.db"), create=False) as database:
            query = Query(database)
            created = _moment(query.status(name).created)
            page = query.trials(name, size=500)
        ended = [(row.value, (_moment(row.ended) - created)) for row in page.rows if row.value is not None]
        return sorted(((float(value), seconds) for value, seconds in ended), key=lambda each: each[1])

    def _sources(self, name: str) -> list[dict[str, Any]]:
        from detol import wire
        from detol.results import descriptors, places

        with wire.database(str(self.folder / f"{name}.db"), create=False) as database, database.read() as connection:
            return descriptors.sources_of(connection, places.search_id(connection, name))


def _reached(course: Sequence[tuple[float, float]], best: float) -> tuple[int, float]:
    """Return after how many trainings and seconds a score was reached; 0 and 0 when it was not."""
    for number, (value, seconds) in enumerate(course, start=1):
        if value >= best:
            return number, seconds
    return 0, 0.0


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _gpus() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


if __name__ == "__main__":
    main()
