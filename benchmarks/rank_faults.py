"""``kill -9`` of one of three ranks at random steps: how soon the others go on, what is lost, what is learnt.

Each run trains one network on three ranks of the Ray pool (gloo on CPUs; NCCL where each rank has a GPU: ``--device
cuda --ranks N``), the digits of scikit-learn. A rank drawn at random dies in a step drawn at random: the driver sends
SIGKILL as soon as that step is seen to have begun. Every seed is also trained without a death, on all ranks and on one
fewer: batch norm takes the statistics of each rank's part, so the width alone changes the loss a little. The ranks note
each step they complete, with the time.

recovery_s: from the kill to the first step that a survivor completes afterwards (death noticed, a new group formed, the
state agreed on, the network wrapped again, that step taken). steps_lost: completed steps that had to be taken again.
within_the_spread: no seed's final loss differs from its undisturbed one by more than the standard deviation over seeds.
The group: from submission to the first line of the job, where the ranks form a group and where they find it open.
"""

import os
import random
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import arguments, conclude, spread

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Event, Job, Origin, Reported
from detol.spaces.decisions import Decisions
from detol.workers.data import read
from detol.workers.pool import RayExecutor

TOPOLOGY = chain(op("conv", channels=16), op("conv", channels=32, stride=2), op("conv", channels=32))
RECIPE = Recipe(batch_size=48, learning_rate=0.05)
START = 240.0
"""Seconds in which the workers have to come up."""


def make_entry() -> Any:
    """Return the entry, nested so that it travels to the workers by value."""

    def entry(job: Any, data: Any, *, group: Any, stop: Any) -> Iterator[Any]:
        import time
        from pathlib import Path

        from detol.workers.train import Training

        note = Path(job.candidate.note) / str(getattr(group, "member", 0))
        with note.open("a", encoding="utf-8", buffering=1) as file:
            file.write(f"begin {time.time()} 0 0\n")
            if job.epochs == 1:  # for the time that a group takes
                group.agree([False])
                return
            options = {"epochs": job.epochs, "seed": job.seed, "group": group, "stop": stop}
            training = Training(job.candidate.topology, data, job.recipe, **options)
            before, after = training._survival.before, training._survival.after

            def place(position: Any) -> int:
                return int(training._schedule.before(position.epoch) + position.step)

            def begun(position: Any) -> None:
                file.write(f"step {time.time()} {place(position)} {group.generation}\n")
                before(position)

            def done(position: Any, loss: Any, samples: int) -> None:
                after(position, loss, samples)
                file.write(f"done {time.time()} {place(position)} {group.generation}\n")

            training._survival.before, training._survival.after = begun, done
            yield from training.reports()
            file.write(f"end {time.time()} 0 0\n")

    return entry


def lines(folder: Path, rank: int) -> list[tuple[str, float, int, int]]:
    """Return what a rank noted: kind, time, step, generation of its group."""
    try:
        found = [line.split() for line in (folder / str(rank)).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    return [(part[0], float(part[1]), int(part[2]), int(part[3])) for part in found if len(part) == 4]


def run(pool: RayExecutor, ranks: int, seed: int, epochs: int, kill: tuple[int, int] | None = None) -> dict[str, Any]:
    """Train once; ``kill``: (rank, step) at which it dies."""
    wait(pool, ranks)
    folder = Path(tempfile.mkdtemp(prefix="detol-ranks-"))
    candidate = Candidate(Decisions(), TOPOLOGY, Origin.SAMPLE, (), str(folder))
    submitted = time.time()
    pool.submit(Job(0, candidate, RECIPE, epochs, seed, width=ranks))
    events: list[Event] = []
    killed = 0.0
    while not events or not isinstance(events[-1], Ended):
        if kill and not killed and any(line[0] == "step" and line[2] >= kill[1] for line in lines(folder, kill[0])):
            killed = time.time()
            os.kill(pool._seats[pool_order(pool)[kill[0]]].about.pid, signal.SIGKILL)
        events += pool.poll(0.002 if kill and not killed else 0.2)
    noted = {rank: lines(folder, rank) for rank in range(ranks)}
    shutil.rmtree(folder, ignore_errors=True)
    end = events[-1]
    assert isinstance(end, Ended)
    reports = [event.report for event in events if isinstance(event, Reported)]
    found: dict[str, Any] = {
        "seed": seed,
        "state": str(end.state),
        "reason": end.reason,
        "epochs": [report.epoch for report in reports] == list(range(1, epochs + 1)),
        "val_loss": reports[-1].metrics["val_loss"] if reports else None,
        "group_s": max((noted[rank][0][1] for rank in range(ranks) if noted[rank]), default=submitted) - submitted,
        "lost": end.extra.get("ranks_lost", ""),
        "width_now": end.extra.get("width_now", ranks),
    }
    if kill:
        survivors = [line for rank in range(ranks) if rank != kill[0] for line in noted[rank] if line[0] == "done"]
        before = [line for line in survivors if line[3] == 0]
        after = [line for line in survivors if line[3] > 0]
        found |= {"rank": kill[0], "killed_at_step": kill[1]}
        if after:
            first = min(after, key=lambda line: line[1])
            furthest = max((line[2] for line in before), default=0)
            found |= {"recovery_s": first[1] - killed, "steps_lost": furthest - (first[2] - 1)}
    return found


def summary(values: list[float]) -> dict[str, Any]:
    """Return n, median, least, greatest, mean and standard deviation."""
    return {**spread(values), "mean": statistics.mean(values), "deviation": statistics.stdev(values)}


def pool_order(pool: RayExecutor) -> list[int]:
    """Return the workers of the job that runs, in the order of its ranks."""
    return [seat.number for seat in next(iter(pool._runs.values())).seats]


def wait(pool: RayExecutor, ranks: int) -> None:
    """Wait until all workers are up."""
    deadline = time.monotonic() + START
    while pool.free() < ranks:
        if time.monotonic() > deadline:
            raise SystemExit(f"{ranks} workers did not come up within {START:g} s")
        pool.poll(0.05)


def main() -> None:
    """Kill, go on, compare."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--ranks", type=int, default=3, help="ranks of each training")
    options = parser.parse_args()
    ranks = options.ranks
    kills, epochs, groups = (2, 4, 2) if options.quick else (10, 12, 10)
    data = read("digits")
    steps = -(-len(data.train) // RECIPE.batch_size) * epochs
    draw = random.Random(0)
    pool = RayExecutor(data, workers=ranks, ranks=ranks, device=options.device, entry=make_entry(), weights=False)
    wait(pool, ranks)
    fresh, open_ = [], []
    for _ in range(groups):
        for number in range(ranks):
            pool._gangs.forget(number)
        fresh.append(run(pool, ranks, 0, 1)["group_s"])
        open_.append(run(pool, ranks, 0, 1)["group_s"])
    rows = []
    for seed in range(kills):
        calm = run(pool, ranks, seed, epochs)
        row = run(pool, ranks, seed, epochs, (draw.randrange(ranks), draw.randrange(1, steps - 1)))
        row["val_loss_undisturbed"] = calm["val_loss"]
        row["val_loss_one_rank_fewer"] = run(pool, ranks - 1, seed, epochs)["val_loss"]
        rows.append(row)
        print(
            f"seed {seed}: rank {row['rank']} killed at step {row['killed_at_step']} of {steps}: {row['state']}, "
            f"recovery {row.get('recovery_s', float('nan')):.2f} s, steps lost {row.get('steps_lost')}, "
            f"lost {row['lost']!r}, final loss {row['val_loss']:.4f}, undisturbed {calm['val_loss']:.4f}"
            f"{', ' if row['reason'] else ''}{row['reason']}",
            flush=True,
        )
    pool.close()
    undisturbed = [row["val_loss_undisturbed"] for row in rows]
    disturbed = [row["val_loss"] for row in rows]
    differences = [one - two for one, two in zip(disturbed, undisturbed, strict=True)]
    recoveries = [row["recovery_s"] for row in rows if "recovery_s" in row]
    conclude(
        {
            "benchmark": "rank_faults",
            "quick": options.quick,
            "ranks": ranks,
            "backend": "gloo" if options.device == "cpu" else "nccl",
            "steps": steps,
            "kills": kills,
            "completed": sum(row["state"] == "completed" and row["epochs"] for row in rows),
            "recovery_s": spread(recoveries) if recoveries else None,
            "steps_lost": sorted(row["steps_lost"] for row in rows if "steps_lost" in row),
            "final_loss": summary(disturbed),
            "final_loss_undisturbed": summary(undisturbed),
            "final_loss_undisturbed_one_rank_fewer": summary([row["val_loss_one_rank_fewer"] for row in rows]),
            "final_loss_difference": summary(differences),
            "within_the_spread": max(map(abs, differences)) <= statistics.stdev(undisturbed),
            "group_formed_s": spread(fresh),
            "group_found_open_s": spread(open_),
            "rows": rows,
        },
        options.json,
    )


if __name__ == "__main__":
    main()
