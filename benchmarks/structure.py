"""Pruning and growth: how much smaller networks get at no loss (reach 4), and the fronts they make (reach 5).

``--part apoptosis``: an oversized perceptron on LetterRecognition and adult loses neurons while it trains. The network
that is reported is chosen by validation data: the smallest whose validation score is not below the oversized one's.
Beside it: the oversized one as trained first, and (``--control``) trained for as many epochs as all steps together.
``--part channels``: a residual network is trained on CIFAR-10 (JPEG copy), then loses channels until it has half of its
multiply-adds or fewer. ``--part fronts``: ``prune`` and ``grow`` against random search, each with as many trials of as
many epochs, on digits and fashion_mnist_12k; all fronts in one picture, ``structure.png``. What is in ``--folder``
already is not searched again.

Sets of ``../shared/data`` are left out, with a reason, where it is absent. ``--device cuda`` trains on a GPU.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import arguments, conclude

import detol
from detol import defaults, wire
from detol.graph.cost import cost
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.result import SearchResult
from detol.results.weights import load_weights
from detol.search.recipe import make_recipe
from detol.search.records import Origin, State, Trial
from detol.strategies.pruning.strategy import Prune
from detol.workers.data import read
from detol.workers.data.dataset import Dataset
from detol.workers.evaluate import evaluate, predict
from detol.workers.train import Training

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
PARTS = ("apoptosis", "channels", "fronts")
OVERSIZED: dict[str, dict[str, Any]] = {
    "LetterRecognition.npz": {"layer": {"norm": True}, "recipe": {}, "epochs": 6},
    # Some 30,000 rows are soon learnt by heart by 580,000 parameters: without dropout more epochs cost AUC.
    "adult-train.csv": {
        "layer": {"norm": False, "dropout": 0.4},
        "recipe": {"learning_rate": 1e-3},
        "epochs": 3,
    },
}
"""What the three layers of an oversized perceptron have, changes of the default recipe, and epochs of each trial."""


def search(data: Path | str, strategy: Any, folder: Path, device: str, **more: Any) -> SearchResult:
    """Run a search without tracking, in this process."""
    given = {"executor": "inline", "workers": 1, "tracking": "off", "stop": "none", "references": False, **more}
    return detol.search(str(data), strategy=strategy, device=device, db=str(folder / "results.db"), **given)


def completed(result: SearchResult) -> list[Trial]:
    """Return the trials of the strategy that completed (the retraining of the winner is none of them)."""
    return [t for t in result.trials if t.state is State.COMPLETED and t.candidate.origin is not Origin.RETRAIN]


def row(trial: Trial, dataset: Dataset, folder: Path, device: str) -> dict[str, Any]:
    """Return what is reported of one network: size, median epoch time, validation and test scores."""
    made = cost(trial.candidate.topology, dataset.shape, dataset.outputs)
    found = {
        "trial": trial.number,
        "params": made.params,
        "multiply_adds": made.multiply_adds,
        "epoch_seconds": statistics.median(report.seconds for report in trial.reports[1:] or trial.reports),
        "validation": trial.score,
    }
    weights = load_weights(folder, trial.weights)
    return found | (scores(trial.candidate.topology, weights, dataset, device) if weights else {})


def scores(topology: Topology, weights: bytes, dataset: Dataset, device: str) -> dict[str, float]:
    """Return accuracy on the test split, and for two classes the area under the ROC curve."""
    found = {"test": evaluate(topology, weights, dataset, "test", device=device)["test_accuracy"]}
    if dataset.outputs == 2:
        from sklearn.metrics import roc_auc_score

        share = predict(topology, weights, dataset, "test", device=device)[:, 1]
        found["test_auc"] = float(roc_auc_score(dataset.test.y, share))
    return found


def smallest(trials: Sequence[Trial], least: float, key: str) -> Trial:
    """Return the trial of least cost among those whose validation score is at least ``least``."""
    return min((t for t in trials if t.score >= least), key=lambda t: (float(t.extra[key]), t.number))


def means(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of every figure over seeds."""
    names = [name for name in rows[0] if name != "trial" and all(name in one for one in rows)]
    return {name: statistics.mean(one[name] for one in rows) for name in names}


# -- apoptosis ------------------------------------------------------------


def apoptosis(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Let oversized perceptrons lose neurons; return by data set the mean figures over seeds."""
    seeds = options.seeds or ([0] if options.quick else [0, 1, 2])
    figures: dict[str, Any] = {}
    for file in OVERSIZED:
        if not (SHARED / file).exists():
            figures[file] = f"left out: {SHARED / file} is not there"
            continue
        dataset = read(SHARED / file, limit=3_000 if options.quick else None)
        runs = [apoptosis_run(file, dataset, seed, options, folder) for seed in seeds]
        whole, small = means([run["whole"] for run in runs]), means([run["small"] for run in runs])
        metric = "test_auc" if "test_auc" in whole else "test"
        figures[file] = {
            "n": len(runs),
            "fewer_params": whole["params"] / small["params"],
            "fewer_params_each": [run["whole"]["params"] / run["small"]["params"] for run in runs],
            "epoch_time_share": small["epoch_seconds"] / whole["epoch_seconds"],
            "gain": small[metric] - whole[metric],
            "gain_each": [run["small"][metric] - run["whole"][metric] for run in runs],
            "metric": metric,
            "whole": whole,
            "small": small,
            **({"control": means([run["control"] for run in runs])} if options.control else {}),
        }
        print(file, json.dumps(figures[file]), flush=True)
    return figures


def apoptosis_run(file: str, dataset: Dataset, seed: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one search; return the oversized network, the small one, and every step."""
    given = OVERSIZED[file]
    width, epochs, steps = (
        (128, 2, 4) if options.quick else (512, options.epochs or given["epochs"], options.trials or 7)
    )
    start = chain(*[op("linear", features=width, **given["layer"])] * 3)
    home = folder / f"{Path(file).stem}-{seed}"
    space = detol.space("tabular")
    strategy = Prune(
        space, level="neurons", start=start, share=0.45, shape=dataset.shape, outputs=dataset.outputs, seed=seed
    )
    sections = {"recipe": given["recipe"], "data": {"limit": 3_000} if options.quick else {}}
    result = search(
        SHARED / file, strategy, home, options.device, space=space, trials=steps, epochs=epochs, seed=seed,
        options=sections,
    )  # fmt: skip
    trials = completed(result)
    whole, small = trials[0], smallest(trials, trials[0].score, "params")
    rows = [row(trial, dataset, home, options.device) for trial in trials]
    print(file, seed, json.dumps(rows), flush=True)
    by_number = {one["trial"]: one for one in rows}
    found = {"whole": by_number[whole.number], "small": by_number[small.number], "steps": rows}
    if options.control:
        spent = sum(trial.epoch for trial in trials)
        found["control"] = longer(whole, dataset, given["recipe"], spent, seed, options.device)
    return found


def longer(
    trial: Trial, dataset: Dataset, changes: dict[str, Any], epochs: int, seed: int, device: str
) -> dict[str, Any]:
    """Return the scores of a network trained from scratch for more epochs."""
    recipe = make_recipe(changes, defaults.recipe(dataset.kind, dataset.shape, len(dataset.train.y)))
    topology = trial.candidate.topology
    training = Training(topology, dataset, recipe, epochs=epochs, seed=seed + 1_000, device=device)
    *_, last = training.reports()
    found = scores(topology, training.weights(), dataset, device)
    return {"epochs": epochs, "validation": last.metrics["val_accuracy"], **found}


# -- channels ------------------------------------------------------------


def residual(width: int, blocks: int = 2) -> Topology:
    """Return a residual network of three stages (He et al. 2016, arXiv 1512.03385, section 4.2, wider)."""
    nodes: dict[str, Operation | Topology] = {"input": op("input"), "stem": op("conv", kernel=3, channels=width)}
    edges, last = [("input", "stem")], "stem"
    for stage in range(3):
        for block in range(blocks):
            name, channels = f"s{stage}b{block}", width * 2**stage
            stride = 2 if stage and not block else 1
            nodes[f"{name}a"] = op("conv", kernel=3, channels=channels, stride=stride)
            nodes[f"{name}b"] = op("conv", kernel=3, channels=channels, activation="none")
            nodes[name], nodes[f"{name}r"] = op("add"), op("activation", fn="relu")
            edges += [(last, f"{name}a"), (f"{name}a", f"{name}b"), (f"{name}b", name), (name, f"{name}r")]
            shortcut = last
            if stage and not block:
                shortcut = f"{name}s"
                nodes[shortcut] = op("conv", kernel=1, channels=channels, stride=stride, activation="none")
                edges.append((last, shortcut))
            edges.append((shortcut, name))
            last = f"{name}r"
    nodes["output"] = op("output")
    return Topology(nodes, [*edges, (last, "output")])


def cifar(folder: Path, options: argparse.Namespace) -> Path | None:
    """Return CIFAR-10 as a file of arrays: what ``--cifar`` names, or unpacked here; ``None`` where it is absent."""
    if options.cifar:
        return Path(options.cifar)
    if not (SHARED / "unpack.py").exists():
        return None
    target = folder / "cifar10.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    fewer = ["--per-class", "60"] if options.quick else []
    subprocess.run([sys.executable, str(SHARED / "unpack.py"), "cifar10-npz", str(target), *fewer], check=True)
    return target


def channels(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Let a residual network lose channels; return the mean figures over seeds."""
    path = cifar(folder, options)
    if path is None:
        return {"cifar10": f"left out: {SHARED} is not there"}
    width, epochs, steps = (8, 1, 3) if options.quick else (options.width, options.epochs or 14, options.trials or 5)
    dataset, runs = read(path), []
    for seed in options.seeds or [0]:
        home = folder / f"cifar10-{seed}"
        space = detol.space("image_cell")
        strategy = Prune(
            space, level="channels", start=residual(width), share=0.3, tolerance=0.02, criterion=options.criterion,
            shape=dataset.shape, outputs=dataset.outputs, seed=seed,
        )  # fmt: skip
        result = search(path, strategy, home, options.device, space=space, trials=steps, epochs=epochs, seed=seed)
        trials = completed(result)
        rows = [row(trial, dataset, home, options.device) for trial in trials]
        print("cifar10", seed, json.dumps(rows), flush=True)
        halved = [t for t in trials if float(t.extra["multiply_adds"]) <= float(trials[0].extra["multiply_adds"]) / 2]
        if not halved:
            runs.append({"steps": rows, "whole": rows[0], "small": rows[-1]})
            continue
        best = max(halved, key=lambda t: (t.score, -t.number))  # by validation
        runs.append({"steps": rows, "whole": rows[0], "small": next(o for o in rows if o["trial"] == best.number)})
    whole, small = means([run["whole"] for run in runs]), means([run["small"] for run in runs])
    return {
        "n": len(runs),
        "fewer_multiply_adds": whole["multiply_adds"] / small["multiply_adds"],
        "fewer_params": whole["params"] / small["params"],
        "epoch_time_share": small["epoch_seconds"] / whole["epoch_seconds"],
        "gain": small["test"] - whole["test"],
        "gain_each": [run["small"]["test"] - run["whole"]["test"] for run in runs],
        "whole": whole,
        "small": small,
    }


# -- fronts ------------------------------------------------------------


def fronts(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run prune, grow and random search with equal budgets; return their fronts and draw them."""
    epochs, trials = (1, 3) if options.quick else (options.epochs or 8, options.trials or 24)
    strategies = [name for name in ("prune", "grow", "random") if name in wire.STRATEGIES]
    figures: dict[str, Any] = {"epochs": epochs, "trials": trials}
    seeds = options.seeds or [0]
    for data in ("digits", "fashion_mnist_12k"):
        source = data if data == "digits" else SHARED / f"{data}.npz"
        if data != "digits" and (options.quick or not Path(source).exists()):
            figures[data] = "left out: --quick, or not there"
            continue
        figures[data] = {}
        for name in strategies:
            runs = [front_run(source, name, seed, options, folder, epochs, trials) for seed in seeds]
            figures[data][name] = {
                "epochs": [run["epochs"] for run in runs],
                "front": [front(run["points"]) for run in runs],
                "all": [point for run in runs for point in run["points"]],
            }
            print(data, name, json.dumps(figures[data][name]["front"]), flush=True)
    figures["picture"] = str(draw(figures, Path(options.to)))
    return figures


def front_run(
    source: Path | str, name: str, seed: int, options: argparse.Namespace, folder: Path, epochs: int, trials: int
) -> dict[str, Any]:
    """Run one search for a front, unless the folder has it already; return its epochs and its trials."""
    label = f"{Path(source).stem}-{name}-{seed}"
    kept = folder / f"{label}.json"
    if not kept.exists():
        result = search(
            source, name, folder / label, options.device, trials=trials, epochs=epochs, seed=seed,
            objective=("val_accuracy", "params:min"), space="image_cell",
        )  # fmt: skip
        done = completed(result)
        points = [
            {"seed": seed, "params": int(t.extra["params"]), "validation": t.score,
             "multiply_adds": int(t.extra["multiply_adds"])} for t in done
        ]  # fmt: skip
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"epochs": sum(t.epoch for t in done), "points": points}), encoding="utf-8")
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def front(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the points that none beats in both parameters and validation score, by parameters."""
    kept: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda p: (p["params"], -p["validation"])):
        if not kept or point["validation"] > kept[-1]["validation"]:
            kept.append(point)
    return kept


def draw(figures: dict[str, Any], to: Path) -> Path:
    """Draw the fronts, one panel for each data set, into ``structure.png``."""
    from matplotlib.figure import Figure

    sets = [name for name, value in figures.items() if isinstance(value, dict)]
    figure = Figure(figsize=(6 * max(len(sets), 1), 5), layout="constrained")
    for number, name in enumerate(sets, start=1):
        axes = figure.add_subplot(1, len(sets), number)
        for colour, (strategy, value) in enumerate(figures[name].items()):
            everyone = value["all"]
            axes.scatter(
                [p["params"] for p in everyone], [p["validation"] for p in everyone], s=8, alpha=0.3, color=f"C{colour}"
            )
            for place, points in enumerate(value["front"]):
                label, colour_name = (strategy if not place else None), f"C{colour}"
                x, y = [p["params"] for p in points], [p["validation"] for p in points]
                axes.step(x, y, where="post", color=colour_name, marker="o", markersize=3, label=label)
        best = max((p["validation"] for value in figures[name].values() for p in value["all"]), default=1.0)
        axes.set_ylim(best - 0.15, min(1.0, best + 0.01))
        axes.set_xscale("log")
        axes.set_xlabel("parameters")
        axes.set_ylabel("validation accuracy")
        axes.set_title(f"{name}: {figures['trials']} trials of {figures['epochs']} epochs each")
        axes.legend()
        axes.grid(alpha=0.3)
    to.mkdir(parents=True, exist_ok=True)
    path = to / "structure.png"
    figure.savefig(path, dpi=150)
    return path


def main() -> None:
    """Run the parts."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these parts; repeat")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds (apoptosis: 0 1 2; others: 0)")
    parser.add_argument("--epochs", type=int, help="of each trial (apoptosis 6 and 3, channels 14, fronts 8)")
    parser.add_argument("--trials", type=int, help="of each search (apoptosis 7, channels 5, fronts 24)")
    parser.add_argument("--width", type=int, default=32, help="channels of the first stage on CIFAR-10")
    parser.add_argument("--criterion", default="taylor", help="taylor (default) or scale, for channels")
    parser.add_argument("--cifar", help="CIFAR-10 as unpack.py cifar10-npz writes it")
    parser.add_argument("--control", action="store_true", help="also train oversized perceptrons as long as all steps")
    parser.add_argument("--to", default=".", help="directory of the picture")
    parser.add_argument("--folder", type=Path, help="where searches for fronts are kept (default: a temporary one)")
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="detol-"))).resolve()
    figures: dict[str, Any] = {"benchmark": "structure", "quick": options.quick, "trained_on": options.device}
    for part in options.part or PARTS:
        run = {"apoptosis": apoptosis, "channels": channels, "fronts": fronts}[part]
        figures[part] = run(options, folder / part)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
