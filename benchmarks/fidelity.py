"""What stopping saves in real searches: every trial trained to its end against the default rule, on equal terms.

For each seed two searches of fashion_mnist_12k by the default strategy and recipe, with as many trials of as many
epochs on two workers: ``full`` (``--stop none``) and ``default``. Counted are the epochs that were trained, the seconds
that the search took, and the test accuracy of its winner, which is trained again with three seeds to be measured by
more than one training. ``--arm LABEL=RULE`` adds or changes what is compared.

Every search is a process of its own, as a person would start it. Its database is in ``--folder``: a search that was cut
off there is resumed, one that ended is not run again, so that the benchmark goes on where it was stopped. ``--at-once``
searches run side by side, on a CPU each on cores of its own. The set is left out, with a reason, where
``../shared/data`` is absent (with ``--quick``: digits in its place).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import arguments, conclude

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("DETOL_SHARED", HERE.parents[1] / "shared")) / "data"
WORKERS, EPOCHS, TRIALS = 2, 27, 30
AGAIN = (101, 102, 103)
"""Seeds of the trainings that measure a winner."""


class Lots:
    """Lots of cores, lent to processes: ``None`` where they are not to be bound."""

    def __init__(self, count: int, *, bound: bool) -> None:
        cores = sorted(os.sched_getaffinity(0))
        size = min(WORKERS, len(cores))
        self._free: list[tuple[int, ...] | None] = [
            tuple(cores[place * size : (place + 1) * size]) if bound and (place + 1) * size <= len(cores) else None
            for place in range(count)
        ]
        self._changed = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[tuple[int, ...] | None]:
        """Wait for a lot, and lend it."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._free))
            lot = self._free.pop()
        try:
            yield lot
        finally:
            with self._changed:
                self._free.append(lot)
                self._changed.notify()


def run(command: Sequence[str], lot: tuple[int, ...] | None, folder: Path) -> dict[str, Any]:
    """Run a command on a lot of cores; return the JSON object that it prints."""
    pinned = ["taskset", "-c", ",".join(map(str, lot)), *command] if lot else list(command)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(pinned, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Bench:
    """The searches of this benchmark, each with what it left in the folder."""

    def __init__(self, options: argparse.Namespace, folder: Path, data: str) -> None:
        self.options, self.folder, self.data = options, folder, data
        self.lots = Lots(options.at_once, bound=options.device == "cpu")

    def search(self, arm: str, rule: str, seed: int) -> dict[str, Any]:
        """Search, or go on with a search, and measure its winner; return the figures."""
        label = f"{arm}-{seed}"
        database, kept = self.folder / f"{label}.db", self.folder / f"{label}.json"
        if not kept.exists():
            with self.lots.one() as lot:
                found = run(self._command(label, rule, seed, database), lot, self.folder)
            kept.write_text(json.dumps(found), encoding="utf-8")
        found = json.loads(kept.read_text(encoding="utf-8"))
        tests = [self.again(label, number) for number in AGAIN[: self.options.again]]
        own = found["test"]["test_accuracy"]
        row = {"seed": seed, "test": statistics.mean(tests) if tests else own, "test_own": own, "tests": tests}
        row |= {name: found[name] for name in ("epochs", "seconds", "trials", "trained", "stopped", "best")}
        print(label, json.dumps(row), flush=True)
        return row

    def again(self, label: str, number: int) -> float:
        """Train the winner of a search once more; return its test accuracy."""
        kept = self.folder / f"{label}-again-{number}.json"
        if not kept.exists():
            command = [sys.executable, str(Path(__file__).resolve()), "--one", label, str(number)]
            command += ["--folder", str(self.folder), "--device", self.options.device]
            with self.lots.one() as lot:
                found = run(command, lot, self.folder)
            kept.write_text(json.dumps(found), encoding="utf-8")
        return float(json.loads(kept.read_text(encoding="utf-8"))["test_accuracy"])

    def _command(self, label: str, rule: str, seed: int, database: Path) -> list[str]:
        place = ["--db", str(database), "--tracking", "off", "--device", self.options.device, "--json"]
        if has_search(database, label):
            return [sys.executable, "-m", "detol", "resume", label, "--db", str(database), "--json"]
        flags = ["--data", self.data, "--seed", str(seed), "--set", f"data.seed={seed}", "--name", label]
        flags += ["--space", self.options.space, "--workers", str(self.options.workers)]
        flags += ["--trials", str(self.options.trials)]
        flags += ["--epochs", str(self.options.epochs), *(["--stop", rule] if rule else [])]
        if self.options.quick:
            flags += ["--set", "data.limit=600"]
        return [sys.executable, "-m", "detol", "search", *flags, *place]


def has_search(database: Path, name: str) -> bool:
    """Return whether a database holds a search of that name."""
    from detol import wire

    if not database.exists():
        return False
    with wire.database(str(database)) as opened:
        return name in opened.names()


def one(folder: Path, label: str, seed: int, device: str) -> dict[str, float]:
    """Train the winner of a search again, with another seed; return its metrics."""
    from detol import wire
    from detol.config import Settings
    from detol.prepare import read_data
    from detol.results.query import Query
    from detol.retrain import retrain
    from detol.search.recipe import make_recipe
    from detol.workers.tensors import use_threads

    use_threads(1)
    with wire.database(str(folder / f"{label}.db")) as database:
        query = Query(database)
        found, stored = query.resolve(label), query.settings(label)["settings"]
    settings, recipe = Settings.from_dict(stored["settings"]), make_recipe(stored["recipe"])
    epochs, topology = found.trial.epochs, found.trial.candidate.topology
    (metrics,) = retrain(topology, read_data(settings), recipe, epochs=epochs, seeds=[seed], device=device)
    return dict(metrics)


def compared(rows: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of an arm over seeds, and what it is of the full training of every trial."""
    mean = {name: statistics.mean(row[name] for row in rows) for name in ("test", "test_own", "epochs", "seconds")}
    whole = {name: statistics.mean(row[name] for row in base) for name in mean}
    spread = [row["test"] - other["test"] for row, other in zip(rows, base, strict=True)]
    return {
        **mean,
        "n": len(rows),
        "test_difference": mean["test"] - whole["test"],
        "test_difference_each": spread,
        "share_of_epochs": mean["epochs"] / whole["epochs"],
        "share_of_seconds": mean["seconds"] / whole["seconds"],
        "each": list(rows),
    }


def main() -> None:
    """Search, measure, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--folder", type=Path, help="where results are kept (default: a temporary one)")
    parser.add_argument("--seed", action="append", type=int, help="only these seeds; repeat (default: 1 2 3)")
    parser.add_argument(
        "--arm", action="append", metavar="LABEL[=RULE]", help="full=none and default by default; repeat"
    )
    parser.add_argument("--space", default="auto", help="of the searches, by name or from a file")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each search")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of a training to its end")
    parser.add_argument("--workers", type=int, default=WORKERS, help="of each search")
    parser.add_argument("--again", type=int, default=len(AGAIN), help="trainings that measure a winner; 0: its own")
    parser.add_argument("--at-once", type=int, default=1, help="searches side by side")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--one", nargs=2, metavar=("LABEL", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="detol-"))).resolve()
    if options.one:
        label, number = options.one
        print(json.dumps(one(folder, label, int(number), options.device)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    if options.quick:
        options.trials, options.epochs, options.again = 4, 3, 0
    file = SHARED / "fashion_mnist_12k.npz"
    figures: dict[str, Any] = {"benchmark": "fidelity", "quick": options.quick, "trained_on": options.device}
    if not file.exists() and not options.quick:
        conclude({**figures, "left_out": f"{file} is not there"}, options.json)
        return
    data = "digits" if options.quick else str(file)
    seeds = options.seed or ([1] if options.quick else [1, 2, 3])
    arms = dict(arm.partition("=")[::2] for arm in options.arm or ("full=none", "default"))
    bench = Bench(options, folder, data)
    with ThreadPoolExecutor(options.at_once) as pool:
        jobs = {(arm, seed): pool.submit(bench.search, arm, rule, seed) for arm, rule in arms.items() for seed in seeds}
        rows = {arm: [jobs[arm, seed].result() for seed in seeds] for arm in arms}
    base = rows.get("full") or next(iter(rows.values()))
    figures |= {"data": Path(data).stem, "trials": options.trials, "epochs": options.epochs, "workers": options.workers}
    figures |= {arm: compared(found, base) for arm, found in rows.items()}
    print("| arm | test accuracy | of the epochs | of the seconds | epochs | seconds |")
    print("|---|---|---|---|---|---|")
    for arm in arms:
        row = figures[arm]
        print(
            f"| {arm} | {row['test']:.4f} | {row['share_of_epochs']:.3f} | {row['share_of_seconds']:.3f} "
            f"| {row['epochs']:.0f} | {row['seconds']:.0f} |"
        )
    wanted = "the same test accuracy within 0.003, a share of at most 1/4 of the epochs and 1/3 of the seconds"
    conclude({**figures, "wanted": wanted}, options.json)


if __name__ == "__main__":
    main()
