"""What each of several ranks does, in a process of its own: ``ranks.py FOLDER WIDTH,NAME,... ...``.

Every scenario returns what can be compared; the tests look at the answers of all ranks.
"""

import dataclasses
import functools
import hashlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Job, Origin
from detol.spaces.decisions import Decisions
from detol.workers.communication import communicate
from detol.workers.data import read
from detol.workers.data.dataset import Split
from detol.workers.evaluate import evaluate
from detol.workers.group import Group
from detol.workers.optim import Optimiser
from detol.workers.process_group import ProcessGroup, Rendezvous, serve
from detol.workers.tensors import load
from detol.workers.train import Training
from detol.workers.training_job import run

NORMED = chain(op("conv", channels=4), op("dropout", rate=0.3), op("conv", channels=6, stride=2))
PLAIN = chain(op("conv", channels=16, norm=False), op("conv", channels=16, norm=False), op("flatten"))
WAYS = ("plain", "fp16", "bf16", "powersgd:2", "topk:0.05", "local_sgd:3")
EPOCHS = 3
SCENARIOS: dict[str, Callable[..., Any]] = {}


def scenario(function: Callable[..., Any]) -> Callable[..., Any]:
    SCENARIOS[function.__name__] = function
    return function


@functools.cache
def few(count: int = 200) -> Any:
    """Return digits, cut to some samples."""
    digits = read("digits")
    return load(dataclasses.replace(digits, train=Split(digits.train.x[:count], digits.train.y[:count])))


def training(group: Any, topology: Any = NORMED, **options: Any) -> Training:
    recipe = options.pop("recipe")
    return Training(topology, few(), recipe, **{"epochs": EPOCHS, "seed": 3, "group": group, **options})


def curve(reports: Any) -> list[dict[str, float]]:
    return [dict(report.metrics) for report in reports]


def fingerprint(model: nn.Module) -> str:
    found = hashlib.sha256()
    for tensor in model.state_dict().values():
        found.update(tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def numbers(model: nn.Module) -> list[float]:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


@scenario
def learn(group: Any) -> Any:
    """Every way trains; the ranks end with one network, and say what they sent."""
    found = {}
    for way in WAYS:
        one = training(group, recipe=Recipe(communication=way, batch_size=32, warmup=0.2))
        metrics = curve(one.reports())
        found[way] = {"curve": metrics, "sent": dict(one.sent), "model": fingerprint(one.model)}
        found[way]["size"] = sum(p.numel() for p in one.model.parameters())
    return found


@scenario
def recorded(group: Any) -> Any:
    """A recorded step exchanges by itself; the ranks end with one network, that of the eager training."""
    from detol.workers.stepping.exchange import Exchange
    from detol.workers.stepping.graph import Graph
    from detol.workers.stepping.recorder import Rerun

    class Unsteady(Rerun):
        """Fails to record so many times, having done some of the work."""

        def __init__(self, failures: int) -> None:
            self.left = failures

        def record(self, work: Any) -> Any:
            if self.left:
                self.left -= 1
                work()
                raise RuntimeError("operation failed due to a previous error during capture")
            return super().record(work)

    found = {}
    for name, parts, failures in (("1", 1, 0), ("2", 2, 0), ("once", 1, 1), ("ever", 1, 9), ("buckets", 2, 0)):
        recipe = Recipe(batch_size=37, accumulate=parts)  # shards of two sizes
        eager, graph = (training(group, PLAIN, recipe=recipe) for _ in range(2))
        graph._step = Graph(graph._learner(), Unsteady(failures), parts=parts)
        assert graph._step in group._recordings
        if name == "buckets":
            graph._step._exchange = Exchange(graph._called, bucket=200, first=20)
        curves = [curve(one.reports()) for one in (eager, graph)]
        model = fingerprint(graph.model)
        numbers_of = [numbers(one.model) for one in (eager, graph)]
        found[name] = {"kind": graph._step.kind, "curves": curves, "model": model, "numbers": numbers_of}
        found[name]["why"] = graph._step.why
    return found


@scenario
def averaged(group: Any) -> Any:
    """All ranks measure by one average; the first alone packs what was measured, and asks no other for it."""
    recipe = Recipe(batch_size=32, averaging=0.9, sync_norm=True)
    one = training(group, recipe=recipe, until=1)
    metrics = curve(one.reports())
    packed = evaluate(NORMED, one.weights(), few(), "validation") if group.rank == 0 else {}
    return {"average": [tensor.tolist() for tensor in one._average.tensors().values()], "curve": metrics} | packed


@scenario
def pauses(group: Any) -> Any:
    """Pausing after each epoch, on the same ranks, changes nothing."""
    found = {}
    cases = [(way, "sgd", NORMED) for way in ("plain", "powersgd:1", "topk:0.05", "local_sgd:3")]
    cases += [("topk:0.05", "adamw", PLAIN), ("local_sgd:3", "adamw", PLAIN), ("powersgd:2", "lamb", PLAIN)]
    for way, optimiser, topology in cases:
        rate = 0.1 if optimiser == "sgd" else 3e-3
        averaging = 0.9 if way == "plain" else 0.0
        recipe = Recipe(
            communication=way,
            batch_size=32,
            warmup=0.2,
            optimiser=optimiser,
            learning_rate=rate,
            averaging=averaging,
        )
        whole = training(group, topology, recipe=recipe)
        expected = curve(whole.reports())
        metrics, checkpoint = [], None
        for until in (1, 2, 0):
            part = training(group, topology, recipe=recipe, until=until, checkpoint=checkpoint)
            metrics += curve(part.reports())
            checkpoint = passed(group, part) if until else None
        found[f"{way} {optimiser}"] = {
            "same": metrics == expected and fingerprint(part.model) == fingerprint(whole.model),
            "sent": part.sent == whole.sent,
            "curve": expected,
        }
    return found


def passed(group: Any, part: Training) -> bytes:
    """Return the checkpoint as all ranks get it for the next leg: that of rank 0."""
    mine = part.checkpoint() if part.together or group.rank == 0 else None
    box = [mine if group.rank == 0 else None]
    torch.distributed.broadcast_object_list(box)
    assert box[0] is not None
    return box[0]


@scenario
def widths(group: Any) -> Any:
    """From all ranks to one and back: momentum is kept as the mean, the epochs go on."""
    recipe = Recipe(communication="topk:0.05", batch_size=32, warmup=0.2)
    first = training(group, recipe=recipe, until=1)
    metrics = curve(first.reports())
    velocities = torch.cat([v.flatten() for _, v in sorted(first._communication._velocity.items())])
    mean = group.total(velocities) / group.width
    alone = training(Group(), recipe=recipe, until=2, checkpoint=passed(group, first))
    kept = torch.cat([alone._optimiser.tensors()[f"{place}.momentum_buffer"].flatten() for place in range(8)])
    metrics += curve(alone.reports())
    momentum = torch.cat([alone._optimiser.tensors()[f"{place}.momentum_buffer"].flatten() for place in range(8)])
    again = training(group, recipe=recipe, checkpoint=passed(group, alone))
    taken = torch.cat([v.flatten() for _, v in sorted(again._communication._velocity.items())])
    metrics += curve(again.reports())
    return {
        "kept": torch.allclose(kept, mean, atol=1e-7),
        "taken": torch.equal(taken, momentum),
        "curve": metrics,
        "momentum left": sum("momentum" in name for name in again._optimiser.tensors()),
        "sent": [dict(first.sent), dict(alone.sent), dict(again.sent)],
    }


@scenario
def accumulation(group: Any) -> Any:
    """Micro-batches: one exchange for all of them, and the same curve but for rounding."""
    found = {}
    for parts in (1, 3):
        recipe = Recipe(communication="powersgd:1", batch_size=48, accumulate=parts, warmup=0.1)
        one = training(group, PLAIN, recipe=recipe)
        found[str(parts)] = {"curve": curve(one.reports()), "sent": dict(one.sent)}
    return found


@scenario
def job(group: Any) -> Any:
    """What a worker yields of a job: facts for the record, and one checkpoint."""
    recipe = Recipe(communication="topk:0.1", batch_size=64)
    candidate = Candidate(Decisions(), NORMED, Origin.SAMPLE)
    asked = Job(1, candidate, recipe, epochs=3, seed=1, width=group.width, until=2)
    found = list(run(asked, few(), group=group, stop=lambda: False))
    facts = {name: value for item in found if isinstance(item, dict) for name, value in item.items()}
    return {"facts": facts, "checkpoint": found[-1].checkpoint is not None, "kinds": [type(i).__name__ for i in found]}


class Line(nn.Module):
    """A loss that is linear in the weights: the gradient is what it is given."""

    def __init__(self, rows: int = 8, columns: int = 6) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(rows, columns, generator=generator))
        self.bias = nn.Parameter(torch.randn(5, generator=generator))

    def forward(self, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (self.weight * weight).sum() + (self.bias * bias).sum()


def slopes(step: int, rank: int, rows: int = 8, columns: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the made-up gradients of a step on a rank; the tests draw the same."""
    generator = np.random.default_rng([step, rank])
    return torch.from_numpy(generator.normal(size=(rows, columns))).float(), torch.from_numpy(
        generator.normal(size=5)
    ).float()


def walk(group: Any, recipe: Recipe, steps: int, draw: Callable[..., Any] = slopes, size: Any = (8, 6)) -> Any:
    """Take steps on made-up gradients; return the parameters after each, and how they were exchanged."""
    model = Line(*size)
    way = communicate(model, recipe, group.width)
    called = group.wrap(model, sync_norm=False, communication=way)
    optimiser = Optimiser(model, way.local(recipe))
    found = []
    way.begin(0, steps)
    for step in range(steps):
        called(*draw(step, group.rank, *size)).backward()
        optimiser.step(0.1)
        way.stepped()
        found.append({"parameters": numbers(model), "apart": way.apart, "sent": way.meter.sent})
    return found, way, optimiser


@scenario
def lines(group: Any) -> Any:
    """Each way on gradients that the tests know."""
    usual = {"clip": 0.0, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0, "warmup": 0.0}
    found: dict[str, Any] = {}
    for way in ("plain", "fp16", "bf16"):
        found[way], *_ = walk(group, Recipe(communication=way, **usual), 4)
    for nesterov in (True, False):
        settings = {**usual, "clip": 3.0, "momentum": 0.9, "nesterov": nesterov, "weight_decay": 0.01}
        found[f"topk {nesterov}"], *_ = walk(group, Recipe(communication="topk:0.1", **settings), 6)
        settings["clip"] = 0.0
        found[f"plain {nesterov}"], *_ = walk(group, Recipe(**settings), 6)
        found[f"whole {nesterov}"], *_ = walk(group, Recipe(communication="topk:1", **settings), 6)
    local = {**usual, "momentum": 0.9, "warmup": 0.2}
    found["local"], *_ = walk(group, Recipe(communication="local_sgd:3", **local), 10)
    found["not local"], *_ = walk(group, Recipe(**local), 10)
    size = (20, 30)
    for name in ("topk:0.02", "powersgd:2"):
        steps, way, optimiser = walk(group, Recipe(communication=name, **usual), 6, size=size)
        memory = way.memory(optimiser)
        late = {key: tensor.flatten().tolist() for key, tensor in memory.items() if "factor" not in key}
        found[f"late {name}"] = {"steps": steps, "late": late}
    found["of rank one"], *_ = walk(group, Recipe(communication="powersgd:1", **usual), 6, draw=outer, size=size)
    return found


def outer(step: int, rank: int, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a gradient of rank one, whose right factor is the same always."""
    weight, bias = slopes(step, rank, rows, columns)
    right, _ = slopes(0, 0, rows, columns)
    return weight[:, :1] * right[:1], bias


def answer(rank: int, width: int, folder: Path, names: list[str]) -> None:
    """Be one rank: run the scenarios and write the answers."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    place = folder / f"port-{width}"
    store = None
    if rank == 0:
        store, found = serve(patience=60)
        (folder / "writing").write_text(str(found.port))
        (folder / "writing").rename(place)
    while not place.exists():
        time.sleep(0.01)
    there = Rendezvous("127.0.0.1", int(place.read_text()))
    group = ProcessGroup(there, rank, width, store=store, patience=60)
    answers = {name: SCENARIOS[name](group) for name in names}
    (folder / f"{width}-{rank}.json").write_text(json.dumps(answers))
    group.close()


def main() -> None:
    """Fork the ranks of each group, one group after the other: what is imported is so once for all."""
    folder = Path(sys.argv[1])
    for group in sys.argv[2:]:
        width, *names = group.split(",")
        children = []
        for rank in range(int(width)):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    answer(rank, int(width), folder, names)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                sys.stderr.flush()
                os._exit(code)
            children.append(child)
        if any(os.waitpid(child, 0)[1] for child in children):
            sys.exit(1)


if __name__ == "__main__":
    main()
