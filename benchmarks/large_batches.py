"""Large batches: what they cost in accuracy at equal epochs, and what brings it back.

One network, one process, the default recipe of the data but for what an arm changes. ``small`` is the default batch of
64. ``large`` has sixteen times as many samples a step, so a sixteenth of the steps: with the same rate, with the rate
scaled and warmed up (Goyal et al. 2017), by LARS (You et al. 2017) and by LAMB (You et al. 2020). ``step`` and
``grow_batch`` are one schedule twice: where the rate of the one falls, the batch of the other grows (Smith et al.
2018). A row: steps, test accuracy (mean, least, greatest), training loss.

The rates of LARS and LAMB were chosen by validation accuracy on digits (``--choose`` does it again), not on the set
that is reported. ``--folder`` keeps every training that ended. A set whose file is not there is left out and named.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import arguments, conclude, spread
from compression import SETS

from detol import defaults

TIMES = 16
RATES = {"lars": (2.0, 5.0, 10.0, 20.0), "lamb": (0.003, 0.01, 0.03, 0.1)}
"""What was tried on digits."""
CHOSEN = {"lars": 5.0, "lamb": 0.03}


def arms(batch: int, rates: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Return the changes of each arm; ``batch``: the usual one."""
    large = {"batch_size": TIMES * batch, "warmup": 0.2}
    return {
        "small": {},
        "large, same rate": large,
        "large, scaled rate": {**large, "base_batch": batch},
        "large, lars": {**large, "optimiser": "lars", "learning_rate": rates["lars"]},
        "large, lamb": {**large, "optimiser": "lamb", "learning_rate": rates["lamb"], "weight_decay": 0.01},
        "small, step": {"schedule": "step"},
        "small, grow_batch": {"schedule": "grow_batch"},
    }


def train(name: str, epochs: int, seed: int, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Train once; return the figures."""
    from detol.workers.data import read
    from detol.workers.evaluate import evaluate
    from detol.workers.stepping.schedule import Schedule
    from detol.workers.tensors import load, use_threads
    from detol.workers.train import Training

    use_threads(1)
    source, topology, _ = SETS[name]
    data = read(source)
    recipe = replace(defaults.recipe(data.kind, data.shape, len(data.train.y)), **changes)
    tensors = load(data)
    training = Training(topology, tensors, recipe, epochs=epochs, seed=seed)
    last = list(training.reports())[-1].metrics
    test = evaluate(topology, training.weights(), tensors)["test_accuracy"]
    return {
        "seed": seed,
        "steps": Schedule.of(len(tensors.train), recipe, 1, epochs).total,
        "test": test,
        "validation": last["val_accuracy"],
        "train_loss": last["train_loss"],
    }


def kept(file: Path, **about: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file that are about this."""
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if all(row.get(key) == value for key, value in about.items()):
            yield row


def measure(name: str, arm: str, changes: Mapping[str, Any], epochs: int, seeds: int, file: Path) -> dict[str, Any]:
    """Return an arm's row over its seeds; trainings that are in the file are not done again."""
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        about = {"set": name, "arm": arm, "changes": dict(changes), "epochs": epochs, "seed": seed}
        found = next(kept(file, **about), None)
        if found is None:
            found = about | train(name, epochs, seed, changes)
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(found) + "\n")
        rows.append(found)
    means = {key: statistics.fmean(row[key] for row in rows) for key in ("test", "validation", "train_loss")}
    return {"arm": arm, "steps": rows[0]["steps"], **means, "test_spread": spread([row["test"] for row in rows])}


def table(name: str, rows: Sequence[dict[str, Any]], epochs: int) -> None:
    """Print the rows of one set."""
    print(f"\n{name}: {epochs} epochs, {rows[0]['test_spread']['n']} seeds")
    print(f"{'arm':20} {'steps':>6} {'test':>7} {'min':>7} {'max':>7} {'loss':>8}")
    for row in rows:
        test = row["test_spread"]
        print(
            f"{row['arm']:20} {row['steps']:6d} {row['test']:7.4f} {test['min']:7.4f} {test['max']:7.4f} "
            f"{row['train_loss']:8.4f}"
        )


def choose(file: Path, seeds: int) -> dict[str, float]:
    """Return for each optimiser the rate that is best on the validation rows of digits."""
    best: dict[str, tuple[float, float]] = {}
    for optimiser, rates in RATES.items():
        for rate in rates:
            changes = arms(32, {**CHOSEN, optimiser: rate})[f"large, {optimiser}"]
            row = measure("digits", f"choose {optimiser}", changes, 20, seeds, file)
            print(f"{optimiser} {rate}: validation {row['validation']:.4f}, loss {row['train_loss']:.4f}", flush=True)
            best[optimiser] = max(best.get(optimiser, (0.0, 0.0)), (row["validation"], rate))
    return {optimiser: rate for optimiser, (_, rate) in best.items()}


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--choose", action="store_true", help="choose the rates of LARS and LAMB again, on digits")
    parser.add_argument("--folder", type=Path, help="where trainings are kept (default: a temporary folder)")
    return parser.parse_args()


def main() -> None:
    """Measure, print a table, and the figures."""
    given = options()
    name, batch = ("digits", 32) if given.quick else ("fashion_mnist_12k", 64)
    epochs, seeds = (5, 1) if given.quick else (given.epochs, given.seeds)
    figures: dict[str, Any] = {"quick": given.quick, "seeds": seeds, "epochs": epochs, "left_out": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "large_batches.jsonl"
        file.touch()
        rates = choose(file, seeds) if given.choose else CHOSEN
        figures["rates"] = rates
        source = SETS[name][0]
        if source.endswith(".npz") and not Path(source).exists():
            figures["left_out"].append(f"{name}: {source} is not there")
        else:
            rows = [measure(name, arm, changes, epochs, seeds, file) for arm, changes in arms(batch, rates).items()]
            table(name, rows, epochs)
            figures[name] = rows
    print()
    conclude(figures, given.json)


if __name__ == "__main__":
    main()
