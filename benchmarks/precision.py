"""What bfloat16 is worth on this device: epochs of the same networks by the default recipe in either format.

For each data set the references of its space, and ``--count`` samples of it, are trained for ``--epochs`` in float32
and in bfloat16, in turn, ``--repeats`` times. Given are the median seconds of an epoch after the first, with least
and greatest, and the last validation accuracy. Files are those of ``../shared/data`` or of your own;
``ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16`` in the environment shows a processor without AMX. ``--layers`` times depthwise
convolutions alone, forwards and backwards, in both formats (``detol/workers/depthwise.py`` goes by that).
"""

import itertools
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from common import arguments, conclude
from early_ranking import sampled

from detol import defaults
from detol.graph.topology import Topology
from detol.spaces import catalogue
from detol.workers import devices
from detol.workers.data import read
from detol.workers.tensors import Tensors, load, use_threads
from detol.workers.train import Training

FORMATS = ("float32", "bfloat16")
HALF = torch.bfloat16


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


def layers(repeats: int) -> dict[str, Any]:
    """Return milliseconds of depthwise convolutions of 64 images or signals of 16 channels, in float32 and bfloat16."""
    found = {}
    for rank, kernel, stride, dilation in itertools.product((1, 2), (3, 5), (1, 2), (1, 2)):
        sizes = (64, 16, 96) if rank == 1 else (64, 16, 28, 28)
        taken = [milliseconds(sizes, kernel, stride, dilation, dtype, repeats) for dtype in (torch.float32, HALF)]
        found[f"{rank}d, kernel {kernel}, stride {stride}, dilation {dilation}"] = taken
    return found


def milliseconds(
    sizes: Sequence[int], kernel: int, stride: int, dilation: int, dtype: torch.dtype, repeats: int
) -> float:
    """Return the median of forward and backward passes of one depthwise convolution."""
    layer = (torch.nn.Conv1d if len(sizes) == 3 else torch.nn.Conv2d)(
        sizes[1], sizes[1], kernel, stride, dilation * (kernel - 1) // 2, dilation, sizes[1], bias=False
    ).to(dtype)
    x = torch.randn(*sizes, dtype=dtype)
    x = (x.contiguous(memory_format=torch.channels_last) if len(sizes) == 4 else x).requires_grad_()
    gradient = torch.ones_like(layer(x))
    taken = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        layer(x).backward(gradient)
        taken.append(1e3 * (time.perf_counter() - began))
    return round(statistics.median(taken[1:]), 2)


def main() -> None:
    """Train, compare, report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", action="append", help="a file, or a built-in set; repeat (default: digits)")
    parser.add_argument("--limit", type=int, help="samples of each set")
    parser.add_argument("--count", type=int, default=0, help="samples beside the references")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", action="store_true", help="depthwise convolutions alone")
    options = parser.parse_args()
    if options.quick:
        options.epochs, options.repeats, options.limit = 2, 1, 300
    use_threads(1)
    figures: dict[str, Any] = {"benchmark": "precision", "quick": options.quick, "device": options.device}
    figures |= {"amx": devices.multiplies_bfloat16(), "isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "")}
    if options.layers:
        conclude(figures | layers(9 if not options.quick else 1), options.json)
        return
    for source in options.data or ["digits"]:
        data = load(read(source, seed=1, limit=options.limit), options.device)
        space = catalogue.auto(data.kind)
        networks = {name: space.decode(decisions) for name, decisions in space.references.items()}
        if options.count:
            networks |= {f"sample {each.seed}": each.topology for each in sampled(space.name, source, options.count)}
        for name, topology in networks.items():
            figures[f"{source}, {name}"] = row(topology, data, options.epochs, options.repeats)
            print(f"{source}, {name}: {figures[f'{source}, {name}']}", flush=True)
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
