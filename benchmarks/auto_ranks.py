"""``--ranks auto`` against fixed widths on mixed searches: a few large candidates among many small ones.

The controller runs over simulated workers, whose times are those of the planner's model: on the machine that was
calibrated here (``detol plan``), or on a preset. Large candidates come early, late, or anywhere, and sizes are drawn
anew for each seed; the policy does not know the order. Fixed width 1 puts all trials side by side, fixed N gives all
workers to one trial after the other. ``--noise`` makes trainings take other times than were foretold: each candidate by
a factor of its own, log-normal. With ``--halving`` a rule pauses trials at rungs, so that each leg has its own width.

``--real`` searches by training instead, on ``--workers`` of this machine (2 by default): two large candidates and five
small ones for each worker, on made images, with 1, N and auto in turn, each order of the candidates the same for all
three. The machine is the calibrated one, calibrated now if it was not yet.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from common import arguments, conclude, spread
from listed import Listed

from detol import wire
from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.run import run_parts
from detol.scaling.auto import Auto
from detol.scaling.forecast import Forecast
from detol.scaling.machine import Machine, cached
from detol.scaling.presets import PRESETS, preset
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.protocols import Widths
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin, State, Trial
from detol.search.task import Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.tracking.null import NullTracker
from detol.workers.local_ray import LocalRay

SHAPE, OUTPUTS, SAMPLES, BATCH, EPOCHS = (3, 32, 32), 10, 50_000, 256, 27
SMALL, LARGE = (16, 24, 32), (96, 128, 192)
"""Channels of the first of three stages."""


def network(decided: Mapping[str, Any]) -> Topology:
    """Return three stages of convolutions, the channels doubled in each, ``depth`` in a stage; each copy is another."""
    channels, depth = int(decided["channels"]), int(decided["depth"])
    return chain(
        *[
            op("conv", channels=channels * 2**stage, kernel=3, stride=2 if stage and not block else 1)
            for stage in range(3)
            for block in range(depth)
        ],
        op("conv", channels=64 + int(decided["copy"]), kernel=1),
    )


SPACE = DecisionSpace(
    "mixed",
    [Choice("channels", (*SMALL, *LARGE)), Choice("depth", (2, 3, 4)), Choice("copy", tuple(range(200)))],
    build=network,
)


@dataclass(frozen=True)
class Modelled:
    """A table of trainings that take as long as the model says, times a factor of each candidate."""

    forecast: Forecast
    noise: Mapping[int, float]

    def answer(self, candidate: Candidate) -> Answer:
        """Return a curve that rises to a score of its own, at the pace of any width."""
        number = int(candidate.decisions["copy"])
        trial = Trial(number, candidate, State.RUNNING, EPOCHS)
        best = 0.5 + (number * 37 % 100) / 250 + math.log2(candidate.decisions["channels"]) / 100
        curve = [{"val_accuracy": best * (1 - 0.5 ** (epoch / 3))} for epoch in range(1, EPOCHS + 1)]

        def wide(width: int) -> float:
            return self.noise[number] * EPOCHS * self.forecast.epoch_seconds(trial, width)

        return Answer({}, wide(1), curve, wide=wide, setup=self.forecast.machine.setup)


def mixed(rng: np.random.Generator, large: int, small: int, order: str) -> list[Candidate]:
    """Return candidates in one of three orders of the large ones: ``first``, ``last`` or ``anywhere``."""
    drawn = [(LARGE, True)] * large + [(SMALL, False)] * small
    made = []
    for copy, (channels, big) in enumerate(drawn):
        decided = Decisions(channels=int(rng.choice(channels)), depth=int(rng.integers(2, 5)), copy=copy)
        made.append((big, Candidate(decided, SPACE.decode(decided), Origin.SAMPLE)))
    rng.shuffle(made)
    if order != "anywhere":
        made.sort(key=lambda pair: pair[0] == (order == "last"))
    return [candidate for _, candidate in made]


def simulate(
    candidates: Sequence[Candidate], table: Modelled, workers: int, width: int, widths: Widths | None, stop: str
) -> tuple[float, list[Trial]]:
    """Return the simulated seconds of one search, and its trials."""
    clock = SimulatedClock()
    objective = Objective("val_accuracy")
    task = Task(
        SPACE,
        Recipe(batch_size=BATCH),
        "x1:0",
        EPOCHS,
        [objective],
        limits=Limits(trials=len(candidates)),
        width=width,
        widths=widths,
        references=False,
        reuse="never",
    )
    store = MemoryDatabase().create_search("mixed", {}, {"digest": "x1:0"}, task.recipe)
    Controller(
        task,
        strategy=Listed(candidates),
        stopper=wire.stopper(stop, epochs=EPOCHS, objectives=[objective], options={"audit_share": 0}),
        executor=SimulatedExecutor(table, clock, workers),
        store=store,
        tracker=NullTracker(),
        keeper=NoWeights(),
        clock=clock,
    ).run()
    return clock.now(), list(store.trials())


def compare(machine: Machine, args: Any, workers: int, mix: tuple[int, int], order: str, stop: str) -> dict[str, Any]:
    """Return seconds of fixed 1, fixed N and auto over some seeds."""
    crowded = replace(machine, crowd=(machine.slowdown(workers),))  # all workers compute, whatever the widths
    forecast = Forecast(
        crowded, shape=SHAPE, outputs=OUTPUTS, samples=SAMPLES, validation=5_000, batch=BATCH, value_bytes=1
    )
    seconds: dict[str, list[float]] = {"1": [], str(workers): [], "auto": []}
    used: dict[int, int] = {}
    work: dict[str, float] = {}
    for seed in range(args.seeds):
        rng = np.random.default_rng([seed, workers, *mix])
        candidates = mixed(rng, *mix, order)
        noise = {int(c.decisions["copy"]): float(np.exp(args.noise * rng.standard_normal())) for c in candidates}
        table = Modelled(forecast, noise)
        drawn = mixed(np.random.default_rng([seed, 1]), *mix, order="anywhere")
        auto = Auto(forecast, prior=partial(tuple, drawn))
        for name, width, widths in (("1", 1, None), (str(workers), workers, None), ("auto", 1, auto)):
            taken, trials = simulate(candidates, table, workers, width, widths, stop)
            seconds[name].append(taken)
            work[name] = work.get(name, 0.0) + sum(table.answer(t.candidate).at(1) * t.epoch / EPOCHS for t in trials)
            if name == "auto":
                for trial in trials:
                    used[trial.width] = used.get(trial.width, 0) + 1
    ratio = [a / min(one, n) for a, one, n in zip(seconds["auto"], seconds["1"], seconds[str(workers)], strict=True)]
    return {
        "workers": workers,
        "large": mix[0],
        "small": mix[1],
        "order": order,
        "stop": stop,
        "seconds": {name: round(statistics.mean(values), 1) for name, values in seconds.items()},
        "auto_over_better_fixed": {"mean": round(statistics.mean(ratio), 4), "worst": round(max(ratio), 4)},
        "one_rank_seconds": {name: round(value / args.seeds, 1) for name, value in work.items()},
        "widths": dict(sorted(used.items())),
    }


def simulated(args: Any) -> dict[str, Any]:
    """Return the comparison over mixes, orders, workers and rules."""
    machine = cached(args.device, args.machine_ranks) if args.machine == "cached" else preset(args.machine)
    if machine is None:
        sys.exit("this machine is not calibrated: detol plan --recalibrate, or --machine guess-cpu")
    machine = replace(machine, name=machine.name.replace("guess", "model"))  # here its seconds are the true ones
    rows = []
    mixes = [(1, 12), (2, 20), (4, 40)] if args.quick else [(1, 12), (2, 20), (3, 9), (4, 40), (8, 8)]
    for workers in (4,) if args.quick else (2, 4, 8, 16):
        for mix in mixes:
            for order in ("first", "last", "anywhere"):
                for stop in ("none", "promote"):
                    rows.append(compare(machine, args, workers, mix, order, stop))
                    print(rows[-1])
    ratios = [row["auto_over_better_fixed"] for row in rows]
    return {
        "what": "seconds of a search: --ranks auto over the better of fixed 1 and N, simulated",
        "machine": machine.name,
        "noise": args.noise,
        "seeds": args.seeds,
        "mean_ratio": round(statistics.mean(r["mean"] for r in ratios), 4),
        "worst_ratio": max(r["worst"] for r in ratios),
        "worst_mean_ratio": max(r["mean"] for r in ratios),
        "total_seconds": {
            kind: round(sum(row["seconds"][name(row)] for row in rows), 1)
            for kind, name in _KINDS.items()
        },
        "rows": rows,
    }  # fmt: skip


_KINDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "fixed 1": lambda row: "1",
    "fixed N": lambda row: str(row["workers"]),
    "auto": lambda row: "auto",
}


def real(args: Any) -> dict[str, Any]:
    """Search by training on workers of this machine, with fixed 1, fixed N and auto in turn."""
    from data_parallel import made

    from detol.calibrated import machine
    from detol.workers.pool import RayExecutor

    workers, rows, epochs = args.workers, 512 if args.quick else 2048, 3
    data, batch, side = made(16, rows), 64, 16
    known = machine("cpu", workers, say=print)
    forecast = Forecast(
        replace(known, crowd=(known.slowdown(workers),)),
        shape=(3, side, side),
        outputs=10,
        samples=rows,
        validation=len(data.validation),
        batch=batch,
        value_bytes=1,
    )
    small, large = (8, 2), (48, 2) if args.quick else (64, 3)
    sizes = [small] * ((2 if args.quick else 5) * workers) + [large] * (1 if args.quick else 2)

    def alike() -> list[Candidate]:
        """Return what a search knows beforehand: networks such as it will propose, as samples of a space are."""
        drawn = [Decisions(channels=size[0], depth=size[1], copy=100 + at) for at, size in enumerate(sizes)]
        return [Candidate(each, network(each), Origin.SAMPLE) for each in drawn]

    seconds: dict[str, list[float]] = {"1": [], "all": [], "auto": []}
    widths_used: list[list[int]] = []
    held = LocalRay.acquire(workers, None, 0)
    held.wait()
    for repeat in range(1 if args.quick else 3):
        rng = np.random.default_rng(repeat)
        order = rng.permutation(len(sizes))
        decided = [Decisions(channels=sizes[k][0], depth=sizes[k][1], copy=int(k)) for k in order]
        candidates = [Candidate(each, network(each), Origin.SAMPLE) for each in decided]
        for name, width, policy in (
            ("1", 1, None),
            ("all", workers, None),
            ("auto", 1, Auto(forecast, prior=alike, least=1.0)),
        ):
            task = Task(
                SPACE,
                Recipe(batch_size=batch),
                data.digest,
                epochs,
                [Objective("val_loss", minimise=True)],
                limits=Limits(trials=len(candidates)),
                width=width,
                widths=policy,
                references=False,
                reuse="never",
            )
            executor = RayExecutor(data, workers=workers, device="cpu")
            while executor.free() < workers:
                time.sleep(0.05)
            began = time.monotonic()
            found = run_parts(
                task,
                name="mixed",
                strategy=Listed(candidates),
                stopper=wire.stopper("none", epochs=epochs),
                executor=executor,
                store=MemoryDatabase().create_search("mixed", {}, {"digest": data.digest}, task.recipe),
                tracker=NullTracker(),
            )
            seconds[name].append(time.monotonic() - began)
            if name == "auto":
                widths_used.append([trial.width for trial in found.trials])
            print(name, seconds[name], [(trial.width, str(trial.state)) for trial in found.trials], flush=True)
    held.release()
    ratio = [a / min(one, all_) for a, one, all_ in zip(seconds["auto"], seconds["1"], seconds["all"], strict=True)]
    return {
        "what": "seconds of a search by training: --ranks auto over the better of fixed 1 and all, on CPU workers",
        "workers": workers,
        "small": sizes.count(small),
        "large": sizes.count(large),
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "auto_over_better_fixed": spread(ratio),
        "widths_of_auto": widths_used,
        "machine": known.as_dict(),
    }


def main() -> None:
    """Run the comparison."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--machine", default="guess-cpu", help=f"cached, or {', '.join(PRESETS)}")
    parser.add_argument("--device", default="cpu", help="of the cached machine")
    parser.add_argument("--machine-ranks", type=int, default=2, help="of the cached machine")
    parser.add_argument("--real", action="store_true", help="search by training on workers of this machine")
    parser.add_argument("--workers", type=int, default=2, help="of the real search")
    parser.add_argument("--seeds", type=int, default=0, help="mixes drawn of each kind (default: 20, 5 with --quick)")
    parser.add_argument(
        "--noise", type=float, default=0.0, help="spread of the logarithm of times that are not foretold"
    )
    args = parser.parse_args()
    args.seeds = args.seeds or (5 if args.quick else 20)
    conclude(real(args) if args.real else simulated(args), args.json)


if __name__ == "__main__":
    main()
