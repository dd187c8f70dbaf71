"""What each way to exchange gradients sends and what it costs in accuracy: two ranks, equal epochs, equal seeds.

Two processes train one network by gloo on one machine, once for each way and seed, by the default recipe of the data. A
row is a way: bytes that each rank sends in a step (over the whole training, and in its last epoch, behind the warm-up
in which little or nothing is compressed), how many times less than plain all-reduce that is, test accuracy (mean,
least, greatest), training loss, and seconds of a step here, where two processes share a host: no measure of what a
network would save.

Bytes are counted as in ``workers/communication/meter.py``: what each message holds, indices too, sent round a ring. The
settings are the defaults of the recipe and of each way, none was chosen on these data. ``--folder`` keeps every
training that ended, so that a run that was cut off goes on. Sets whose file is not there are left out and named.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import arguments, conclude, spread

from detol import defaults
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.exchange import parse
from detol.search.recipe import make_recipe

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("DETOL_SHARED", HERE.parents[1] / "shared")) / "data"
WAYS = (
    *("plain", "fp16", "bf16", "powersgd:1", "powersgd:2", "powersgd:4"),
    *("topk:0.1", "topk:0.01", "local_sgd:4", "local_sgd:16"),
)
QUICK = ("plain", "fp16", "powersgd:2", "topk:0.01", "local_sgd:4")
SETS: dict[str, tuple[str, Topology, int]] = {
    "digits": ("digits", chain(op("conv", channels=16), op("conv", channels=32, stride=2), op("flatten")), 20),
    "fashion_mnist_12k": (
        str(SHARED / "fashion_mnist_12k.npz"),
        chain(
            op("conv", channels=16, stride=2),
            op("conv", channels=32),
            op("conv", channels=64, stride=2),
            op("conv", channels=64),
            op("flatten"),
        ),
        8,
    ),
}


def train(
    rank: int, port: int, source: str, topology: Topology, epochs: int, todo: Sequence[tuple[str, int]], out: str
) -> None:
    """Be one rank of two: train each way and seed; rank 0 appends a line to a file after each."""
    from detol.workers.data import read
    from detol.workers.evaluate import evaluate
    from detol.workers.process_group import ProcessGroup, Rendezvous
    from detol.workers.tensors import load, use_threads
    from detol.workers.train import Training

    use_threads(1)
    data = read(source)
    tensors = load(data)
    usual = defaults.recipe(data.kind, data.shape, len(data.train.y))
    group = ProcessGroup(Rendezvous("127.0.0.1", port), rank, 2)
    for way, seed in todo:
        training = Training(
            topology, tensors, make_recipe({"communication": way}, usual), epochs=epochs, seed=seed, group=group
        )
        began = time.perf_counter()
        sent = [(int(training.sent["bytes_sent"]), int(training.sent["steps_exchanged"])) for _ in training.reports()]
        seconds = time.perf_counter() - began
        if rank == 0:
            weights = training.weights()
            (before, early), (after, steps) = sent[-2:]
            row = {
                "way": way,
                "seed": seed,
                "bytes_per_step": after / steps,
                "bytes_at_last": (after - before) / (steps - early),
                "steps": steps,
                "parameters": sum(p.numel() for p in training.model.parameters()),
                "train_loss": training.curve[-1].metrics["train_loss"],
                "validation": training.curve[-1].metrics["val_accuracy"],
                "test": evaluate(topology, weights, tensors)["test_accuracy"],
                "seconds_per_step": seconds / steps,
            }
            with Path(out).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    group.close()


def measure(name: str, ways: Sequence[str], seeds: int, folder: Path, epochs: int) -> list[dict[str, Any]]:
    """Return a row for each training on a set: those in the folder, and those that were missing there."""
    from detol.workers.process_group import serve

    source, topology, _ = SETS[name]
    out = folder / f"{name}-{epochs}.jsonl"
    out.touch()
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    done = {(row["way"], row["seed"]) for row in rows}
    todo = [(way, seed) for seed in range(seeds) for way in ways if (way, seed) not in done]
    if todo:
        context = multiprocessing.get_context("spawn")
        store, place = serve()
        given = (place.port, source, topology, epochs, todo, str(out))
        ranks = [context.Process(target=train, args=(rank, *given)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        del store
        if any(rank.exitcode for rank in ranks):
            raise RuntimeError(f"a rank of {name} failed: exit codes {[rank.exitcode for rank in ranks]}")
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["way"] in ways and row["seed"] < seeds]


def summary(rows: Sequence[dict[str, Any]], ways: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each way, over its seeds."""
    plain = statistics.fmean(row["bytes_per_step"] for row in rows if row["way"] == "plain")
    for way in ways:
        own = [row for row in rows if row["way"] == way]
        means = {
            key: statistics.fmean(row[key] for row in own)
            for key in ("bytes_per_step", "bytes_at_last", "test", "validation", "train_loss", "seconds_per_step")
        }
        yield {
            "way": way,
            **means,
            "times_less": plain / means["bytes_per_step"],
            "times_less_at_last": plain / means["bytes_at_last"],
            "test_spread": spread([row["test"] for row in own]),
            "steps": own[0]["steps"],
            "parameters": own[0]["parameters"],
        }


def table(name: str, rows: Sequence[dict[str, Any]], epochs: int) -> None:
    """Print the rows of one set."""
    first = rows[0]
    about = f"{first['parameters']:,} parameters, {epochs} epochs of {first['steps'] // epochs} steps"
    print(f"\n{name}: 2 ranks, {about}, {first['test_spread']['n']} seeds")
    print(f"{'way':14} {'bytes/step':>11} {'less':>7} {'at the end':>11} {'less':>8} {'test':>7} {'min':>7} {'max':>7}")
    for row in rows:
        test = row["test_spread"]
        print(
            f"{row['way']:14} {row['bytes_per_step']:11,.0f} {row['times_less']:6.1f}x {row['bytes_at_last']:11,.0f} "
            f"{row['times_less_at_last']:7.1f}x {row['test']:7.4f} {test['min']:7.4f} {test['max']:7.4f}"
        )


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--set", action="append", choices=list(SETS), help="only this set; may be repeated")
    parser.add_argument("--way", action="append", help="only plain and this way; may be repeated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="instead of each set's own number")
    parser.add_argument("--folder", type=Path, help="where trainings are kept (default: a temporary folder)")
    return parser.parse_args()


def main() -> None:
    """Measure the sets, print a table for each, and the figures."""
    given = options()
    names = given.set or (["digits"] if given.quick else list(SETS))
    ways, seeds = (QUICK, 1) if given.quick else (WAYS, given.seeds)
    if given.way:
        ways = tuple(dict.fromkeys(("plain", *(str(parse(way)) for way in given.way))))
    figures: dict[str, Any] = {"quick": given.quick, "ranks": 2, "backend": "gloo", "seeds": seeds, "left_out": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            source, _, usual = SETS[name]
            if source.endswith(".npz") and not Path(source).exists():
                figures["left_out"].append(f"{name}: {source} is not there")
                continue
            epochs = given.epochs or (6 if given.quick else usual)
            rows = list(summary(measure(name, ways, seeds, folder, epochs), ways))
            table(name, rows, epochs)
            figures[name] = {"epochs": epochs, "rows": rows}
    print()
    conclude(figures, given.json)


if __name__ == "__main__":
    main()
