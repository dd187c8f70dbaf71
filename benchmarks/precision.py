"""What bfloat16 is worth on this device: epochs of the same networks by the default recipe in either format.

For each data set the references of its space are trained for ``--epochs`` in float32 and in bfloat16, in turn,
``--repeats`` times. Given are the median seconds of an epoch after the first, with least and greatest, and the last
validation accuracy. Files are those of ``../shared/data`` or of your own; ``ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16`` in
the environment shows a processor without AMX.
"""

import os
import statistics
import time
from dataclasses import replace
from typing import Any

from common import arguments, conclude

from detol import defaults
from detol.graph.topology import Topology
from detol.spaces import catalogue
from detol.workers import devices
from detol.workers.data import read
from detol.workers.tensors import Tensors, load, use_threads
from detol.workers.train import Training

FORMATS = ("float32", "bfloat16")


def epochs(topology: Topology, data: Tensors, precision: str, count: int) -> tuple[list[float], float]:
    """Return the seconds of each epoch after the first, and the last validation accuracy."""
    recipe = replace(defaults.recipe(data.kind, data.shape, len(data.train)), precision=precision)
    seconds, accuracy, began = [], 0.0, time.monotonic()
    for report in Training(topology, data, recipe, epochs=count, seed=1, device=str(data.device)).reports():
        now = time.monotonic()
        seconds.append(now - began)
        accuracy, began = report.metrics["val_accuracy"], now
    return seconds[1:], accuracy


def row(topology: Topology, data: Tensors, count: int, repeats: int) -> dict[str, Any]:
    """Return the figures of a network in both formats, and how many times faster bfloat16 is."""
    taken: dict[str, list[float]] = {name: [] for name in FORMATS}
    scores: dict[str, list[float]] = {name: [] for name in FORMATS}
    for _ in range(repeats):
        for name in FORMATS:
            seconds, accuracy = epochs(topology, data, name, count)
            taken[name] += seconds
            scores[name].append(accuracy)
    found: dict[str, Any] = {}
    for name, seconds in taken.items():
        found[name] = {
            "seconds": round(statistics.median(seconds), 4),
            "least": round(min(seconds), 4),
            "greatest": round(max(seconds), 4),
            "val_accuracy": round(statistics.mean(scores[name]), 4),
            "n": len(seconds),
        }
    return found | {"times": round(found["float32"]["seconds"] / found["bfloat16"]["seconds"], 2)}


def main() -> None:
    """Train, compare, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", action="append", help="a file, or a built-in set; repeat (default: digits)")
    parser.add_argument("--limit", type=int, help="samples of each set")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.quick:
        options.epochs, options.repeats, options.limit = 2, 1, 300
    use_threads(1)
    figures: dict[str, Any] = {"benchmark": "precision", "quick": options.quick, "device": options.device}
    figures |= {"amx": devices.multiplies_bfloat16(), "isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "")}
    for source in options.data or ["digits"]:
        data = load(read(source, seed=1, limit=options.limit), options.device)
        space = catalogue.auto(data.kind)
        for name, decisions in space.references.items():
            figures[f"{source}, {name}"] = row(space.decode(decisions), data, options.epochs, options.repeats)
            print(f"{source}, {name}: {figures[f'{source}, {name}']}", flush=True)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
