"""What is said where a batch does not fit a GPU's memory, and whether following it trains: measured, not foretold.

One process may take ``--allowed`` GiB of the GPU. A reference network of ``image_cell`` is trained for two epochs with
each ``--batch``, recorded steps and all; where memory runs out, again with the ``recipe.accumulate`` that the error
names. A row says what came, in how many seconds, how steps were taken, and what was still held afterwards. Without a
GPU nothing is measured, and the reason is said (``--quick``: digits on the CPU, which always fit).
"""

import argparse
import gc
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from common import arguments, conclude

from detol.config import Settings
from detol.errors import OutOfMemory
from detol.graph.topology import Topology
from detol.prepare import Prepared, prepare
from detol.spaces import catalogue
from detol.workers.train import Training

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("DETOL_SHARED", HERE.parents[1] / "shared")) / "data"
NAMED = re.compile(r"recipe\.accumulate=(\d+)")


def tried(ready: Prepared, topology: Topology, device: str, batch: int, accumulate: int) -> dict[str, Any]:
    """Train with so many samples a step in so many parts; return how it went."""
    recipe = replace(ready.task.recipe, batch_size=batch, accumulate=accumulate)
    began, row = time.monotonic(), {"batch": batch, "accumulate": accumulate}
    training = None
    try:
        training = Training(topology, ready.dataset, recipe, epochs=2, seed=1, device=device)
        last = list(training.reports())[-1]
        facts: dict[str, Any] = {
            "steps": training.engine.get("step", "eager"),
            "val_accuracy": last.metrics["val_accuracy"],
        }
    except OutOfMemory as error:
        facts = {"out_of_memory": str(error)}
    del training
    gc.collect()
    held = torch.cuda.memory_allocated() if device == "cuda" else 0
    return {**row, **facts, "seconds": time.monotonic() - began, "held_mib": held / 2**20}


def measure(options: argparse.Namespace, data: str, device: str) -> list[dict[str, Any]]:
    """Return a row for each training."""
    if device == "cuda":
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(options.allowed * 2**30 / whole)
    ready = prepare(Settings(data=data, trials=1, device=device, tracking="off"))
    space = catalogue.load("image_cell")
    topology = space.decode(space.references["residual"])
    rows = []
    for batch in options.batch:
        parts = 1
        while parts:
            rows.append(tried(ready, topology, device, batch, parts))
            print(rows[-1], flush=True)
            named = NAMED.search(rows[-1].get("out_of_memory", ""))
            parts = int(named[1]) if named and int(named[1]) > parts else 0  # each remedy is a larger number
    return rows


def main() -> None:
    """Measure, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--allowed", type=float, default=2.8, help="GiB of the GPU that may be taken")
    parser.add_argument("--batch", action="append", type=int, help="samples of a step; repeat (6000 2600 1872)")
    options = parser.parse_args()
    options.batch = options.batch or ([64] if options.quick else [6000, 2600, 1872])
    file = SHARED / "fashion_mnist_12k.npz"
    figures: dict[str, Any] = {"benchmark": "memory_remedies", "quick": options.quick, "allowed_gib": options.allowed}
    if options.quick:
        conclude({**figures, "trained_on": "cpu", "rows": measure(options, "digits", "cpu")}, options.json)
    elif not torch.cuda.is_available():
        conclude({**figures, "left_out": "there is no CUDA device"}, options.json)
    elif not file.exists():
        conclude({**figures, "left_out": f"{file} is not there"}, options.json)
    else:
        on = torch.cuda.get_device_name(0)
        conclude({**figures, "trained_on": on, "rows": measure(options, str(file), "cuda")}, options.json)


if __name__ == "__main__":
    main()
