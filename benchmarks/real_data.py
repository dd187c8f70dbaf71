"""Real training: detol's default settings against a plain Optuna loop, with twice the time for the loop.

For each data set and seed: one search of detol (``--hours``, 2 CPU workers, all else by default) and one of
``optuna_loop.py`` (2 processes) on the same two cores, one after the other, the same splits. Each winner is trained
again three times on train plus validation, for ``EPOCHS`` epochs as in Optuna's loop. What is reported is the mean test
accuracy of the retrainings. With ``--versus`` strategies of detol are compared at equal trainings instead.

On a machine with more cores the runs go side by side, each on cores of its own (``taskset -c`` bounds them), and with
``--device cuda`` all share the GPUs. What is in ``--folder`` already is not run again. Sets of ``../shared/data`` are
left out, with a reason, where it is absent (``digits.npz`` there, x and y, stands for scikit-learn's digits where that
is not installed).

By default the test split is detol's, the same samples whatever the seed: of digits 359, where a third of a point is one
image. With ``--folds 5`` each search has another fifth of all samples for its test, so that each is tested on once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("DETOL_SHARED", HERE.parents[1] / "shared")) / "data"
FILES = {
    "digits": "digits.npz",
    "electric_devices": "electric_devices.npz",
    "LetterRecognition": "LetterRecognition.npz",
    "fashion_mnist_12k": "fashion_mnist_12k.npz",
}
SECONDS = {"digits": 180, "electric_devices": 300, "LetterRecognition": 300, "fashion_mnist_12k": 480}
"""Of Optuna's searches; detol's take half."""
PUBLISHED = {"digits": 0.994, "electric_devices": 0.722, "LetterRecognition": 0.978, "fashion_mnist_12k": 0.903}
"""What the loop reached when the goal was set, on another machine."""
EPOCHS = 27
"""Of each retraining: detol's default, and those of Optuna's loop."""

RETRAININGS = (1, 2, 3)
Task = tuple[str, int, str]
"""Data set, seed, system (``detol``, ``optuna``, or a strategy of detol)."""


def source(name: str) -> str | None:
    """Return what ``--data`` takes, or ``None`` when the file is not there."""
    file = SHARED / FILES[name]
    return str(file) if file.exists() else "digits" if name == "digits" else None


def folds(name: str, count: int, folder: Path) -> None:
    """Write the samples of a set ``count`` times, each with another part of them for its test (``--folds``)."""
    from sklearn.model_selection import StratifiedKFold

    from detol.workers.data import read

    data = read(source(name) or name)
    parts = [part for part in (data.train, data.validation, data.test) if part is not None]
    x, y = (np.concatenate([getattr(part, axis) for part in parts]) for axis in "xy")
    for number, (rest, test) in enumerate(StratifiedKFold(count, shuffle=True, random_state=0).split(x, y), start=1):
        np.savez(fold(name, number, folder), x_train=x[rest], y_train=y[rest], x_test=x[test], y_test=y[test])


def fold(name: str, number: int, folder: Path) -> Path:
    """Return where :func:`folds` writes."""
    return folder / f"{name}-fold-{number}.npz"


def given(name: str, seed: int, folder: Path) -> str:
    """Return what ``--data`` takes for a search: the fold of its seed, where there are folds."""
    file = fold(name, seed, folder)
    return str(file) if file.exists() else source(name) or name


def arrays(name: str, seed: int, folder: Path, limit: int | None) -> Path:
    """Write the splits that detol makes with this seed for the loop, and return the file."""
    from detol.workers.data import read

    file = folder / f"{name}-{seed}.npz"
    if not file.exists():
        data = read(given(name, seed, folder), seed=seed, limit=limit)
        assert data.test is not None
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        both = {f"{axis}_{part}": getattr(split, axis) for part, split in parts.items() for axis in "xy"}
        np.savez(file, **both, mean=data.mean, std=data.std)  # type: ignore[arg-type]
    return file


def run(command: Sequence[str], cores: tuple[int, ...], folder: Path, device: str) -> dict[str, Any]:
    """Run a command on some cores; return the JSON object that it prints, with its wall seconds."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    began = time.monotonic()
    pinned = ["taskset", "-c", ",".join(map(str, cores)), *command]
    done = subprocess.run(pinned, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    return {**json.loads(done.stdout), "wall_seconds": time.monotonic() - began}


def detol_command(name: str, seed: int, folder: Path, label: str, device: str, *more: str) -> list[str]:
    """Return the command of one search of detol."""
    flags = ["--data", given(name, seed, folder), "--set", f"data.seed={seed}", "--seed", str(seed), "--workers", "2"]
    place = ["--name", label, "--db", str(folder / f"{label}.db"), "--tracking", "off", "--device", device, "--json"]
    return [sys.executable, "-m", "detol", "search", *flags, *place, *more]


def detol_again(folder: Path, label: str, seed: int, device: str) -> dict[str, float]:
    """Train the winner of a search of detol again; runs in a process of its own."""
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
    topology, epochs = found.trial.candidate.topology, EPOCHS
    began = time.monotonic()
    (metrics,) = retrain(topology, read_data(settings), recipe, epochs=epochs, seeds=[seed], device=device)
    return {"test": metrics["test_accuracy"], "seconds": time.monotonic() - began, "epochs": epochs}


class Cores:
    """The cores of this machine, lent to runs: a search takes two, a retraining one."""

    def __init__(self) -> None:
        self._free = sorted(os.sched_getaffinity(0))
        self._changed = threading.Condition()
        self.count = len(self._free)

    @contextmanager
    def some(self, count: int) -> Iterator[tuple[int, ...]]:
        """Wait for so many cores (or all there are) and lend them."""
        count = min(count, self.count)
        with self._changed:
            self._changed.wait_for(lambda: len(self._free) >= count)
            taken = tuple(self._free[:count])
            del self._free[:count]
        try:
            yield taken
        finally:
            with self._changed:
                self._free = sorted([*self._free, *taken])
                self._changed.notify_all()


class Bench:
    """The runs of this benchmark, spread over the cores; each result is a file, so that one can go on later."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.cores = options, folder, Cores()
        self.device: str = options.device
        self.limit = 600 if options.quick else None
        self.retrainings = RETRAININGS[:1] if options.quick else RETRAININGS

    def all(self, tasks: Sequence[Task]) -> None:
        """Search, and train each winner again as soon as it is known, as many at once as there are cores."""
        with (
            ThreadPoolExecutor(max(1, self.cores.count // 2)) as searches,
            ThreadPoolExecutor(self.cores.count) as more,
        ):

            def one(task: Task) -> list["Future[None]"]:
                with self.cores.some(2) as taken:
                    self.search(task, taken)
                return [more.submit(self.again, task, number) for number in self.retrainings]

            for found in [searches.submit(one, task) for task in tasks]:
                for again in found.result():
                    again.result()

    def kept(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what was kept under a key, or make and keep it."""
        file = self.folder / f"{key}.json"
        if not file.exists():
            made = make()
            file.write_text(json.dumps(made), encoding="utf-8")
            print(key, json.dumps({k: v for k, v in made.items() if isinstance(v, int | float)}), flush=True)
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def seconds(self, name: str, system: str) -> float:
        """Return the seconds of a search: detol has half of Optuna's (with ``--quick`` enough for Ray to start)."""
        if self.options.quick:
            return 20.0 if system == "detol" else 10.0
        return SECONDS[name] / 2 if system == "detol" else float(SECONDS[name])

    def search(self, task: Task, cores: tuple[int, ...]) -> None:
        """Search one data set with one seed by one system (or strategy) on some cores."""
        name, seed, system = task
        label, folder = f"{name}-{seed}-{system}", self.folder
        quick = ["--set", f"data.limit={self.limit}", "--epochs", "3"] if self.options.quick else []
        if system == "optuna":
            loop = [sys.executable, str(HERE / "optuna_loop.py"), "search"]
            file = arrays(name, seed, folder, self.limit)
            command = [*loop, str(file), str(folder), str(self.seconds(name, system)), str(seed)]
        else:
            hours = ["--hours", repr(self.seconds(name, system) / 3600)]
            trials = ["--trials", str(self.options.trials), "--strategy", system]
            more = [*(hours if system == "detol" else trials), *quick]
            command = detol_command(name, seed, folder, label, self.device, *more)
        self.kept(label, lambda: run(command, cores, folder, self.device))

    def again(self, task: Task, number: int) -> None:
        """Train one winner once more."""
        name, seed, system = task
        label = f"{name}-{seed}-{system}"
        if system == "optuna":
            chosen = json.dumps(json.loads((self.folder / f"{label}.json").read_text(encoding="utf-8"))["chosen"])
            file = arrays(name, seed, self.folder, self.limit)
            command = [sys.executable, str(HERE / "optuna_loop.py"), "retrain", str(file), chosen, str(number)]
        else:
            command = [sys.executable, str(Path(__file__).resolve()), "--retrain-one", label, str(number)]
            command += ["--folder", str(self.folder), "--device", self.device]
        with self.cores.some(1) as cores:
            self.kept(f"{label}-again-{number}", lambda: run(command, cores, self.folder, self.device))

    def row(self, name: str, system: str) -> dict[str, Any]:
        """Return the figures of a system on a data set."""
        searches, tests = [], []
        for seed in self.options.seed:
            label = f"{name}-{seed}-{system}"
            searches.append(json.loads((self.folder / f"{label}.json").read_text(encoding="utf-8")))
            files = [self.folder / f"{label}-again-{number}.json" for number in self.retrainings]
            tests.append([json.loads(file.read_text(encoding="utf-8"))["test"] for file in files])
        means = [statistics.mean(values) for values in tests]
        return {
            "test": statistics.mean(means),
            "test_by_seed": means,
            "deviation": statistics.stdev(means) if len(means) > 1 else 0.0,
            "seconds": statistics.mean(found["wall_seconds"] for found in searches),
            "trials": statistics.mean(found["trials"] for found in searches),
        }


def main() -> None:
    """Search, retrain, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--set", action="append", choices=list(FILES), help="only these sets; repeat")
    parser.add_argument("--seed", action="append", type=int, help="only these seeds; repeat (default: 1 2 3)")
    parser.add_argument("--folds", type=int, help="searches, seeds 1 to N, each with another N-th for its test; >= 2")
    parser.add_argument("--system", action="append", choices=("detol", "optuna"), help="only this one")
    parser.add_argument("--versus", action="append", metavar="STRATEGY", help="compare strategies instead; repeat")
    parser.add_argument("--trials", type=int, default=20, help="of each search with --versus (default: 20)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of detol; Optuna's loop has a CPU")
    parser.add_argument("--folder", type=Path, help="where results are kept (default: a temporary one)")
    parser.add_argument("--retrain-one", nargs=2, metavar=("LABEL", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="detol-"))).resolve()
    if options.retrain_one:
        label, number = options.retrain_one
        print(json.dumps(detol_again(folder, label, int(number), options.device)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    if options.folds:
        options.seed = list(range(1, options.folds + 1))
    options.seed = options.seed or ([1] if options.quick else [1, 2, 3])
    names = options.set or (["digits"] if options.quick else list(FILES))
    for name in [name for name in names if source(name) is None]:
        print(f"{name} is left out: {SHARED / FILES[name]} is not there")
        names.remove(name)
    if options.folds:
        for name in names:
            folds(name, options.folds, folder)
    systems = options.versus or options.system or ["detol", "optuna"]
    if "optuna" in systems and options.device != "cpu":
        parser.error("Optuna's loop trains on a CPU: leave --device out, or compare strategies by --versus")
    # The longest first, so that none is left over at the end.
    names = sorted(names, key=lambda name: -SECONDS[name])
    bench = Bench(options, folder)
    bench.all([(name, seed, system) for name in names for system in reversed(systems) for seed in options.seed])
    figures: dict[str, Any] = {
        "benchmark": "real_data",
        "quick": options.quick,
        "n": len(options.seed),
        "folds": options.folds,
        "trained_on": options.device,
    }
    for name in names:
        figures[name] = {system: bench.row(name, system) for system in systems}
    count = len(bench.retrainings)
    print(f"| data | system | test accuracy ({count} retrained) | deviation over seeds | seconds | trials |")
    print("|---|---|---|---|---|---|")
    for name in names:
        for system, row in figures[name].items():
            print(
                f"| {name} | {system} | {row['test']:.4f} | {row['deviation']:.4f} | {row['seconds']:.0f} "
                f"| {row['trials']:.0f} |"
            )
    conclude({**figures, "published": PUBLISHED}, options.json)


if __name__ == "__main__":
    main()
