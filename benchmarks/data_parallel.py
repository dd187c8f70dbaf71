"""Data-parallel training beside the planner's prediction: strong scaling of a small network, weak of a large one.

Ranks are processes of this machine: gloo on CPU cores, NCCL on as many GPUs (``--device cuda``). The machine is
calibrated first, in the same run, unless ``--machine`` names a file. Each width trains some epochs of the same made
images by the training loop that searches use; the least step of each run counts, the widths take turns, and the median
over the runs is compared with two predictions:

* ``model``: the planner alone, from the calibration;
* ``timed``: the planner told how long a step of this network takes on one rank, with as many samples as each rank has
  (what ``detol plan`` can know with one device); crowding, the ring and the small messages are predicted.

On CUDA all steps are recorded graphs (``--step graph``), those of several ranks too; ``--step auto`` takes steps as
searches do, which also compile blocks.

Weak scaling (``--device cuda``) is of a network of ResNet-50's size in bfloat16 at 224 x 224, the same samples for each
rank. On one machine with two GPUs: ``python benchmarks/data_parallel.py --device cuda --json``.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude, spread

from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.scaling.answer import plan
from detol.scaling.machine import Machine, read, write
from detol.scaling.work import Work

CLASSES = 10


@dataclass(frozen=True)
class Case:
    """A training that is timed: its network by name, samples of a step of all ranks, side of the images, precision."""

    network: str
    batch: int
    side: int
    precision: str = "float32"
    steps: int = 8
    epochs: int = 6


def topology(name: str) -> Topology:
    """Return ``small`` (six convolutions in three stages), ``nasbench201`` (a cell's network) or ``resnet50``."""
    if name == "small":
        stages = [(32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]
        return chain(*[op("conv", channels=channels, kernel=3, stride=stride) for channels, stride in stages])
    if name == "nasbench201":
        from detol.spaces import catalogue

        space = catalogue.load("nasbench201")
        return space.decode(next(iter(space.references.values())))
    return resnet50()


def resnet50() -> Topology:
    """Return bottlenecks as in ResNet-50 (He et al. 2015, arXiv 1512.03385, table 1): 3, 4, 6 and 3 of them."""
    nodes: dict[str, Operation | Topology] = {
        "input": op("input"),
        "stem": op("conv", channels=64, kernel=7, stride=2),
        "pool": op("pool", mode="max", kernel=3, stride=2),
    }
    edges, before = [("input", "stem"), ("stem", "pool")], "pool"
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            nodes |= {
                f"{name}_in": op("conv", channels=width, kernel=1),
                f"{name}_mid": op("conv", channels=width, kernel=3, stride=stride),
                f"{name}_out": op("conv", channels=4 * width, kernel=1, activation="none"),
                name: op("activation", fn="relu"),
            }
            edges += [(before, f"{name}_in"), (f"{name}_in", f"{name}_mid"), (f"{name}_mid", f"{name}_out")]
            skip = before
            if not block:  # where the shape changes, a projection
                skip = f"{name}_skip"
                nodes[skip] = op("conv", channels=4 * width, kernel=1, stride=stride, activation="none")
                edges.append((before, skip))
            edges += [(f"{name}_out", name), (skip, name)]
            before = name
    nodes["output"] = op("output")
    return Topology(nodes, [*edges, (before, "output")])


def made(side: int, rows: int) -> Any:
    """Return a data set of noise in the shape of images."""
    from detol.workers.data.dataset import Dataset, Split

    rng = np.random.default_rng(0)

    def split(count: int) -> Any:
        x = rng.integers(0, 256, (count, 3, side, side), dtype=np.uint8)
        return Split(x, rng.integers(0, CLASSES, count).astype(np.int64))

    one = np.ones((3, 1, 1), dtype=np.float32)
    names = tuple(map(str, range(CLASSES)))
    about = {"name": "made", "kind": "image", "task": "classification", "digest": "x1:made"}
    return Dataset(
        **about, train=split(rows), validation=split(16), test=None, classes=names, mean=127 * one, std=64 * one
    )


def rank_of(rank: int, width: int, device: str, port: int, folder: str) -> None:
    """Be one rank: train the cases that are written in the folder, one after the other; rank 0 writes the seconds."""
    import torch

    from detol.search.recipe import Recipe
    from detol.workers.elastic.plan import Rendezvous
    from detol.workers.group import Group
    from detol.workers.process_group import ProcessGroup
    from detol.workers.tensors import load
    from detol.workers.train import Training

    torch.set_num_threads(1 if device == "cpu" else 4)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    group = ProcessGroup(Rendezvous("127.0.0.1", port), rank, width, backend=backend) if width > 1 else Group()
    found = []
    for case in [Case(**values) for values in json.loads(Path(folder, "cases.json").read_text())]:
        data = load(made(case.side, case.steps * case.batch), device)
        recipe = Recipe(batch_size=case.batch, precision=case.precision)
        training = Training(
            topology(case.network), data, recipe, epochs=case.epochs, seed=0, device=device, group=group
        )
        _, *later = training.reports()  # the first one warms up
        found.append(min(report.seconds for report in later) / case.steps)
        del training, data
        if device == "cuda":
            torch.cuda.empty_cache()
    if rank == 0:
        Path(folder, "seconds.json").write_text(json.dumps(found))
    group.close()


def run(cases: Sequence[Case], width: int, device: str) -> list[float]:
    """Return the seconds of a step of each case, on some ranks."""
    from torch.multiprocessing.spawn import spawn

    from detol.workers.process_group import serve

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
        store, place = serve()
        spawn(rank_of, (width, device, place.port, folder), nprocs=width, join=True)
        del store
        return list(json.loads(Path(folder, "seconds.json").read_text()))


def strong(case: Case, widths: Sequence[int], args: Any, machine: Machine) -> list[dict[str, Any]]:
    """Return measured and predicted seconds of a step at each width, one batch divided."""
    locals_ = {width: -(-case.batch // width) for width in widths}
    alone = [Case(**{**asdict(case), "batch": local}) for local in sorted(set(locals_.values()))]
    measured: dict[int, list[float]] = {width: [] for width in widths}
    timed: dict[int, list[float]] = {one.batch: [] for one in alone}
    for _ in range(args.repeats):
        for one, seconds in zip(alone, run(alone, 1, args.device), strict=True):
            timed[one.batch].append(seconds)
        measured.setdefault(1, []).append(timed[case.batch][-1])
        for width in widths:
            if width > 1:
                measured[width].append(run([case], width, args.device)[0])
    work = Work.of(topology(case.network), (3, case.side, case.side), CLASSES, name=case.network, value_bytes=1)
    known = {batch: statistics.median(seconds) for batch, seconds in timed.items()}
    plans = {
        "model": plan(work, machine, batch=case.batch, widths=widths),
        "timed": plan(work, machine, batch=case.batch, widths=widths, measured=known),
    }
    rows = []
    for place, width in enumerate(widths):
        median = statistics.median(measured[width])
        row = {"ranks": width, "batch": case.batch, "step_seconds": spread(measured[width])}
        row["efficiency"] = round(statistics.median(measured[1]) / width / median, 3)
        for name, made_plan in plans.items():
            foretold = made_plan.rows[place].step
            row[f"{name}_seconds"] = foretold.seconds
            row[f"{name}_off"] = round(foretold.seconds / median - 1, 3)
            row[f"{name}_parts"] = {part: round(value, 6) for part, value in foretold.parts.items()}
        rows.append(row)
        print(row, flush=True)
    return rows


def weak(case: Case, widths: Sequence[int], args: Any, machine: Machine) -> list[dict[str, Any]]:
    """Return measured and predicted efficiency at each width, as many samples for each rank."""
    measured: dict[int, list[float]] = {width: [] for width in widths}
    for _ in range(args.repeats):
        for width in widths:
            measured[width] += run([Case(**{**asdict(case), "batch": case.batch * width})], width, args.device)
    work = Work.of(topology(case.network), (3, case.side, case.side), CLASSES, name=case.network, value_bytes=1)
    known = {case.batch: statistics.median(measured[1])}
    foretold = plan(work, machine, batch=case.batch, widths=widths, mode="weak", measured=known)
    rows = []
    for place, width in enumerate(widths):
        median = statistics.median(measured[width])
        rows.append(
            {
                "ranks": width,
                "samples_per_rank": case.batch,
                "step_seconds": spread(measured[width]),
                "samples_per_second": round(case.batch * width / median, 1),
                "efficiency": round(statistics.median(measured[1]) / median, 4),
                "timed_efficiency": round(foretold.rows[place].efficiency, 4),
            }
        )
        print(rows[-1], flush=True)
    return rows


def calibrated(args: Any, ranks: int, precision: str) -> Machine:
    """Return the machine: from the file, or measured now."""
    if args.machine:
        return read(Path(args.machine))
    from detol.workers.calibration.measure import measure

    began = time.monotonic()
    found = measure(args.device, ranks, precision=precision, points=12 if args.quick else 0, say=print)
    print(f"calibrated in {time.monotonic() - began:.0f} s: {json.dumps(found.as_dict())}", flush=True)
    if args.keep:
        write(found, Path(args.keep))
    return found


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--widths", default="", help="e.g. 1,2,4 (default: 1,2 on a CPU, all GPUs of 1,2,4,8 on cuda)")
    parser.add_argument("--repeats", type=int, default=0, help="runs of each width (default: 3, 1 with --quick)")
    parser.add_argument("--batch", type=int, default=0, help="of the small network (default: 64 on a CPU, 256 on cuda)")
    parser.add_argument("--network", choices=("small", "nasbench201"), default="small")
    parser.add_argument("--samples", type=int, default=256, help="of each rank, of the large network")
    parser.add_argument("--no-weak", action="store_true", help="leave the large network out")
    parser.add_argument("--weak", action="store_true", help="weak scaling on a CPU too, of the small network")
    parser.add_argument("--step", default="graph", help="DETOL_STEP on cuda: graph, eager, auto (as searches do)")
    parser.add_argument("--machine", default="", help="file of a calibration, instead of measuring")
    parser.add_argument("--keep", default="", help="write the calibration to this file")
    args = parser.parse_args()
    widths = _widths(args)
    if args.device == "cuda":
        os.environ["DETOL_STEP"] = args.step  # ranks inherit it
    args.repeats = args.repeats or (1 if args.quick else 3)
    # What an epoch of several ranks takes beside its steps is as long as 10 to 20 steps of a small network on a GPU.
    long = {"steps": 256, "epochs": 4} if args.device == "cuda" else {}
    small = Case(args.network, args.batch or (256 if args.device == "cuda" else 64), 32, **long)
    if args.quick:
        small = Case("small", args.batch or 32, 16, steps=4, epochs=4)
    machine = calibrated(args, max(widths), "float32")
    figures: dict[str, Any] = {
        "what": "seconds of a step by ranks, measured and foretold",
        "quick": args.quick,
        "step": args.step if args.device == "cuda" else "eager",
        "runs": args.repeats,
        "machine": machine.as_dict(),
        "strong": {"network": small.network, "rows": strong(small, widths, args, machine)},
    }
    rows = figures["strong"]["rows"]
    for name in ("model", "timed"):
        figures[f"largest_{name}_off"] = max(abs(row[f"{name}_off"]) for row in rows)
    if args.device == "cuda" and not args.no_weak:
        large = Case("resnet50", args.samples, 224, "bfloat16", steps=4 if args.quick else 64, epochs=3)
        figures["weak"] = {"network": "resnet50", "rows": weak(large, widths, args, machine)}
    elif args.weak:
        figures["weak"] = {"network": small.network, "rows": weak(small, widths, args, machine)}
    conclude({**figures, **_devices(args.device)}, args.json)


def _widths(args: Any) -> list[int]:
    """Return the widths; more ranks than there are devices are one clear line."""
    from detol.workers import devices

    there = devices.gpus() if args.device == "cuda" else devices.cpus()
    if not there:
        sys.exit("--device cuda needs an NVIDIA GPU, and none is here: leave it out")
    usual = [width for width in ((1, 2, 4, 8) if args.device == "cuda" else (1, 2)) if width <= there]
    chosen = sorted({int(width) for width in args.widths.split(",")} | {1}) if args.widths else usual
    if max(chosen) > there:
        sys.exit(f"--widths must be at most the number of {args.device} devices here, {there}, got {max(chosen)}")
    return chosen


def _devices(device: str) -> Mapping[str, Any]:
    if device == "cpu":
        return {}
    import torch

    return {
        "gpu": torch.cuda.get_device_name(0),
        "cuda": str(torch.version.cuda),
        "nccl": str(torch.cuda.nccl.version()),
    }


if __name__ == "__main__":
    main()
