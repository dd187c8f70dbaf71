"""Search real data with the default settings: seconds, trials, test accuracy of the winner.

For each data set one search (20 trials with ASHA and 2 workers; digits: the default settings), then the winner is
tested (that of digits, and with ``--retrain`` every one, also trained from scratch three times on train plus
validation). With ``--again`` each search runs a
second time: nothing may be trained then. Sets of ``../shared/data`` are left out, with a reason, where it is absent.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import arguments, conclude

from detol import wire
from detol.config import Settings
from detol.prepare import read_data
from detol.results.query import Query
from detol.retrain import retrain
from detol.search.recipe import make_recipe

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
SEEDS = (1, 2, 3)


def sets(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """Return the arguments of each search whose data are there."""
    common = ["--trials", "20", "--stop", "asha", "--workers", "2"]
    found = {"digits": ["--data", "digits"]}
    paths = {
        "fashion_mnist_12k": ("fashion_mnist_12k.npz", "image_cell"),
        "electric_devices": ("electric_devices.npz", "signal"),
        "LetterRecognition": ("LetterRecognition.npz", "tabular"),
        "adult": ("adult-train.csv", "tabular"),
    }
    for name, (file, space) in paths.items():
        if name in names and (SHARED / file).exists():
            found[name] = ["--data", str(SHARED / file), "--space", space, *common]
    if "cifar10" in names and (SHARED / "unpack.py").exists():
        target = folder / "cifar10"
        command = [sys.executable, str(SHARED / "unpack.py"), "cifar10-folder", str(target), "--per-class", "500"]
        subprocess.run(command, check=True)
        found["cifar10"] = ["--data", str(target), "--space", "image_cell", *common]
    return {name: found[name] for name in names if name in found}


def search(name: str, flags: list[str], folder: Path) -> dict[str, Any]:
    """Run one search from the command line; return its summary with the wall time."""
    command = [sys.executable, "-m", "detol", "search", *flags, "--name", name, "--db", str(folder / "results.db")]
    began = time.perf_counter()
    done = subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE, cwd=folder)
    return {**json.loads(done.stdout), "wall_seconds": time.perf_counter() - began}


def retrained(name: str, folder: Path) -> list[float]:
    """Return the test accuracy of the winner, trained again on train plus validation with each seed."""
    with wire.database(str(folder / "results.db")) as database:
        query = Query(database)
        found, stored = query.resolve(name), query.settings(name)["settings"]
    settings = Settings.from_dict(stored["settings"])
    recipe = make_recipe(stored["recipe"])
    topology = found.trial.candidate.topology
    tested = retrain(topology, read_data(settings), recipe, epochs=found.trial.epochs, seeds=SEEDS)
    return [metrics["test_accuracy"] for metrics in tested]


def main() -> None:
    """Search, search again, retrain."""
    parser = arguments(__doc__ or "")
    everything = ["digits", "fashion_mnist_12k", "electric_devices", "LetterRecognition", "adult", "cifar10"]
    parser.add_argument("--set", action="append", choices=everything, help="only these sets; repeat")
    parser.add_argument("--epochs", type=int, default=20, help="of a training to the end (default: 20)")
    parser.add_argument("--again", action="store_true", help="run each search a second time")
    parser.add_argument("--retrain", action="store_true", help="train all winners again, not that of digits alone")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="detol-"))
    figures: dict[str, Any] = {"benchmark": "search_data", "quick": options.quick, "retrainings": len(SEEDS)}
    for name, flags in sets(folder, options.set or everything).items():
        flags = [*flags, "--epochs", str(options.epochs)]
        if options.quick:
            flags = [*flags, "--trials", "4", "--epochs", "2", "--set", "data.limit=1000"]
        summary = search(name, flags, folder)
        row = {
            key: summary[key] for key in ("trials", "trained", "stopped", "failed", "epochs", "wall_seconds", "gain")
        }
        row |= {"validation": summary["best"]["score"], "test": summary["test"]["test_accuracy"]}
        if options.again:
            again = search(f"{name}-again", flags, folder)
            row["again"] = {key: again[key] for key in ("trials", "trained", "reused", "wall_seconds")}
        if name == "digits" or options.retrain:
            accuracies = retrained(name, folder)
            row |= {"retrained": accuracies, "retrained_mean": statistics.mean(accuracies)}
        print(name, json.dumps(row), flush=True)
        figures[name] = row
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
