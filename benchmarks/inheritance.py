"""Epochs that a child needs to reach its trained parent's accuracy, from scratch and with inherited weights.

For each data set and space: a parent (a reference of the space) is trained by the default recipe; then networks that
one mutation of its decisions makes are trained by the same recipe and schedule length from fresh weights, and from the
parent's by ``match`` and by ``morph``. Counted is the first epoch whose validation accuracy is at least the parent's
last one, less a tolerance of one validation sample in 500; a child that does not get there counts with the length of
the schedule (which favours training from scratch: it gets there less often). The ratio of the sums over all mutations
is given with its 95 % bootstrap interval over mutations, and beside it that of the seconds (start included) and that of
the mutations whose child gets there in both ways: one that gets there in neither has a ratio of 1 whatever it starts
from. Test data are not looked at.

``itself`` is the bound: the parent's own network with the parent's own weights, trained on under other seeds. A mutated
child cannot be expected to get back to the parent's accuracy sooner than the parent itself.

Fashion-MNIST (12,000 samples) is left out, with a reason, where ``../shared/data`` is absent.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, conclude

from detol import defaults
from detol.graph.correspond import correspond
from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.topology import Topology
from detol.search.records import Transfer
from detol.spaces import catalogue
from detol.workers.data import read
from detol.workers.tensors import Tensors, load, use_threads
from detol.workers.train import Training

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
HOW = ("scratch", "match", "morph")
TOLERANCE = 1 / 500
LARGEST = 3.0
"""Mutations that multiply the parameters (or multiply-adds) by more are left out: they say little and cost much."""


@dataclass(frozen=True)
class Case:
    """A data set (a name or a path), a space, and the reference that is the parent."""

    data: str
    space: str
    reference: str

    def __str__(self) -> str:
        return f"{Path(self.data).stem}, {self.space}, {self.reference}"


CASES = (
    Case("digits", "image_cell", "residual"),
    Case("digits", "image_cell", "plain"),
    Case("digits", "image_dag", "residual"),
)
FASHION = (
    Case(str(SHARED / "fashion_mnist_12k.npz"), "image_cell", "residual"),
    Case(str(SHARED / "fashion_mnist_12k.npz"), "image_dag", "residual"),
)


@cache
def tensors(data: str, device: str) -> Tensors:
    """Return a data set on the device, once for each process."""
    use_threads(1)
    return load(read(data), device)


def trained(
    case: Case, topology: Topology, epochs: int, seed: int, device: str, parent: Any = None, until: float = 2.0
) -> tuple[list[float], float, float | None, bytes]:
    """Train; return validation accuracies up to the first of at least ``until``, seconds, inherited share, weights."""
    data = tensors(case.data, device)
    recipe = defaults.recipe(data.kind, data.shape, len(data.train))
    began, curve = time.perf_counter(), []
    training = Training(topology, data, recipe, epochs=epochs, seed=seed, device=device, parent=parent)
    for report in training.reports():
        curve.append(report.metrics["val_accuracy"])
        if curve[-1] >= until:
            break
    return curve, time.perf_counter() - began, training.inherited, training.weights()


def child(
    case: Case,
    parent: tuple[Topology, bytes],
    topology: Topology,
    how: str,
    goal: float,
    epochs: int,
    device: str,
    seed: int = 2,
) -> dict[str, Any]:
    """Train one child in one way; return the epochs it needed."""
    rule = None
    if how != "scratch":
        rule = (*parent, Transfer(0, nodes=correspond(parent[0], topology), rule=how))
    curve, seconds, share, _ = trained(case, topology, epochs, seed, device, rule, goal)
    reached = curve[-1] >= goal
    return {
        "how": how,
        "epochs": len(curve),
        "reached": reached,
        "first": curve[0],
        "share": share,
        "seconds": seconds,
        "digest": digest(topology),
    }


def mutations(case: Case, count: int, device: str, seed: int) -> tuple[Topology, list[Topology]]:
    """Return the parent and different networks that one mutation makes of it."""
    data, space, rng = tensors(case.data, device), catalogue.load(case.space), np.random.default_rng(seed)
    names = list(space.references)
    decisions = space.references[case.reference if case.reference in names else names[0]]
    parent = space.decode(decisions)
    size = cost(parent, data.shape, data.outputs)
    found: dict[str, Topology] = {digest(parent): parent}
    while len(found) <= count:
        topology = space.decode(space.mutate(decisions, rng))
        own = cost(topology, data.shape, data.outputs)
        if own.params <= LARGEST * size.params and own.multiply_adds <= LARGEST * size.multiply_adds:
            found.setdefault(digest(topology), topology)
    return parent, list(found.values())[1:]


def ratio(rows: Sequence[dict[str, Any]], how: str) -> dict[str, Any]:
    """Return epochs with inheritance over epochs without: of the sums, with its 95 % bootstrap interval."""
    pairs = [(row[how]["epochs"], row["scratch"]["epochs"]) for row in rows]
    some, all_ = np.array(pairs, dtype=float).T
    both = [row for row in rows if row[how]["reached"] and row["scratch"]["reached"]]
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(rows), size=(10_000, len(rows)))
    ratios = some[drawn].sum(1) / all_[drawn].sum(1)
    return {
        "ratio": float(some.sum() / all_.sum()),
        "interval": [float(q) for q in np.quantile(ratios, [0.025, 0.975])],
        "mean_of_ratios": float((some / all_).mean()),
        "seconds": sum(row[how]["seconds"] for row in rows) / sum(row["scratch"]["seconds"] for row in rows),
        "both": sum(r[how]["epochs"] for r in both) / sum(r["scratch"]["epochs"] for r in both) if both else None,
        "n_both": len(both),
        "first": float(np.mean([row[how]["first"] for row in rows])),
        "first_scratch": float(np.mean([row["scratch"]["first"] for row in rows])),
        "epochs": float(some.mean()),
        "epochs_scratch": float(all_.mean()),
        "reached": sum(bool(row[how]["reached"]) for row in rows),
        "reached_scratch": sum(bool(row["scratch"]["reached"]) for row in rows),
        "share": float(np.mean([row[how]["share"] for row in rows])),
        "n": len(rows),
    }


def measure(
    case: Case, count: int, epochs: int, device: str, pool: ProcessPoolExecutor, itself: int, seeds: Sequence[int]
) -> dict[str, Any]:
    """Train the parent and all children of one case."""
    topology, children = mutations(case, count, device, seeds[0])
    curve, seconds, _, weights = trained(case, topology, epochs, seeds[1], device)
    goal = curve[-1] - TOLERANCE
    jobs = [
        (place, pool.submit(child, case, (topology, weights), one, how, goal, epochs, device))
        for place, one in enumerate(children)
        for how in HOW
    ]
    again = [
        pool.submit(child, case, (topology, weights), topology, how, goal, epochs, device, seed)
        for seed in range(10, 10 + itself)
        for how in ("scratch", "morph")
    ]
    rows: list[dict[str, Any]] = [{} for _ in children]
    for place, job in jobs:
        done = job.result()
        rows[place][done["how"]] = done
    found: dict[str, Any] = {how: ratio(rows, how) for how in HOW[1:]}
    print(f"{case}: parent {curve[-1]:.4f}; " + "; ".join(
        f"{how} {found[how]['ratio']:.2f} {[round(q, 2) for q in found[how]['interval']]} "
        f"(reached {found[how]['reached']} of {len(rows)}, scratch {found[how]['reached_scratch']}; seconds "
        f"{found[how]['seconds']:.2f}; after one epoch {found[how]['first']:.4f}, {found[how]['first_scratch']:.4f})"
        for how in HOW[1:]
    ), flush=True)  # fmt: skip
    spent = {how: [job.result()["epochs"] for job in again[at::2]] for at, how in enumerate(("scratch", "morph"))}
    bound = sum(spent["morph"]) / sum(spent["scratch"]) if itself else None
    print(
        f"{case}: the parent itself, trained on under {itself} seeds: {bound and round(bound, 2)} {spent}", flush=True
    )
    own = {"ratio": bound, "epochs": spent["morph"], "epochs_scratch": spent["scratch"]}
    return {"parent": curve[-1], "parent_seconds": seconds, "epochs": epochs, **found, "itself": own, "rows": rows}


def main() -> None:
    """Measure, and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--mutations", type=int, default=20, help="children of each parent")
    parser.add_argument("--epochs", type=int, default=20, help="length of every schedule")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="trainings side by side")
    parser.add_argument("--itself", type=int, default=10, help="seeds under which the parent itself is trained on")
    parser.add_argument("--seeds", type=int, nargs=2, default=(7, 1), help="of the mutations and of the parents")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", nargs="*", default=["digits", "fashion_mnist_12k"], help="which of the two")
    given = parser.parse_args()
    count, epochs = (4, 8) if given.quick else (given.mutations, given.epochs)
    itself = min(given.itself, 1) if given.quick else given.itself
    cases: list[Case] = list(CASES) if "digits" in given.data else []
    left_out = {}
    if "fashion_mnist_12k" in given.data and not given.quick:
        if Path(FASHION[0].data).exists():
            cases += FASHION
        else:
            left_out["fashion_mnist_12k"] = f"{FASHION[0].data} is not there"
    if given.quick:
        cases, left_out = cases[:1], {"fashion_mnist_12k": "--quick"}
    results = {}
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for case in cases:
            results[str(case)] = measure(case, count, epochs, given.device, pool, itself, given.seeds)
    rows = [row for result in results.values() for row in result.pop("rows")]
    figures = {
        "quick": given.quick,
        "mutations": count,
        "schedule": epochs,
        "seeds": list(given.seeds),
        "left_out": left_out,
        "cases": results,
        "overall": {how: ratio(rows, how) for how in HOW[1:]},
        "trained_on": given.device,
        "wanted": "a ratio of at most 1/3",
    }
    conclude(figures, given.json)


if __name__ == "__main__":
    main()
