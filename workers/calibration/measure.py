"""Measures a whole machine."""

import platform
import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from detol.errors import WorkerLost
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.scaling.link import Link
from detol.scaling.machine import Machine
from detol.scaling.presets import preset
from detol.scaling.step import step
from detol.scaling.work import Work
from detol.search.recipe import Recipe
from detol.workers import devices
from detol.workers.calibration.overheads import CLASSES, overheads, step_seconds
from detol.workers.calibration.products import rates
from detol.workers.calibration.ranks import wide_starts
from detol.workers.calibration.reading import read_bandwidth
from detol.workers.calibration.ring import Ring, ring
from detol.workers.step import element
from detol.workers.tensors import use_threads

BOUNDS = (0.5, 3.0)
"""What training may take more than its layers one by one."""

GROUP = 8
"""The most ranks that are measured together."""


def measure(
    device: str,
    ranks: int,
    *,
    precision: str = "float32",
    points: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Machine:
    """Measure this machine: half a minute to a minute.

    Args:
        device: ``cpu`` or ``cuda``.
        ranks: how many it has, >= 1; up to ``GROUP`` of them are measured together.
        precision: of products, as a recipe names it.
        points: shapes of each kind of product; 0: as many as the device needs.
        say: called with a line about what is measured.

    Raises:
        UsageError: no such device.
    """
    devices.check(device)
    if device == "cpu":
        use_threads(1)  # as workers do
    place = torch.device(device)
    say(f"measuring {device}: products of many shapes")
    found = rates(place, element(Recipe(precision=precision)), points=points)
    say("measuring starting layers, values, samples, the optimiser")
    over = overheads(place, precision)
    together, lacking = _together(device, ranks, say)
    notes = list(lacking)
    layer_wide, step_wide = _wide(device, precision, ranks, together, notes)
    say("measuring how fast files are read")
    guess = preset(f"guess-{device}")
    made = Machine(
        name=platform.node() or "this machine",
        device=device,
        rates=found,
        link=Link(together.bandwidth, together.latency) if together else guess.link,
        ranks=ranks,
        norm=over.norm,
        free=over.free,
        norm_start=over.norm_start,
        free_start=over.free_start,
        sample=over.sample,
        update=over.update,
        layer=over.layer,
        step=over.step,
        layer_wide=layer_wide,
        step_wide=step_wide,
        queued=device == "cuda",
        overlap=together.overlap if together else guess.overlap,
        crowd=_crowd(together.crowd if together else 1.0, min(ranks, GROUP)),
        setup=together.setup if together else guess.setup,
        agree=0.0 if layer_wide else together.agree if together else guess.agree,  # it is in ``step_wide``
        files=read_bandwidth(Path(tempfile.gettempdir())),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        sources=(
            f"measured with torch {torch.__version__}, {_model(device)}, {precision}",
            *notes,
        ),
    )
    if device == "cuda":  # what layers were recorded as is what a training's step is
        return made
    say("measuring two networks")
    return made.slower(_in_training(made, place, precision))


def _in_training(machine: Machine, device: torch.device, precision: str) -> float:
    """Return how many times longer networks compute in a training than their layers one by one, on a CPU.

    Alone a layer finds its data near; in a training others have come between, and memory is taken and given back. (On
    two H200s, torch 2.11, the sum over recorded layers is within 12 % of the step of a small network with 128 to 512
    samples, and a factor found in smaller networks made it worse.)
    """
    ratios, samples = [], 32
    for channels, stride in ((16, 1), (32, 2)):
        topology = chain(*[op("conv", channels=channels * stride**block, stride=stride) for block in range(3)])
        taken = step_seconds(topology, device, precision, 32, samples, epochs=5, steps=4)
        one = step(Work.of(topology, (3, 32, 32), CLASSES, value_bytes=1), machine, samples, 1)
        ratios.append((taken - one.starting - one.input) / one.compute)
    return min(BOUNDS[1], max(BOUNDS[0], statistics.geometric_mean(max(ratio, 0.01) for ratio in ratios)))


def _wide(device: str, precision: str, ranks: int, ring: Ring | None, notes: list[str]) -> tuple[float, float]:
    """Return what starting a layer and a step takes where several ranks train; 0 where that is not known."""
    if ring is None:
        return 0.0, 0.0
    try:
        return wide_starts(device, min(ranks, GROUP), precision, Link(ring.bandwidth, ring.latency))
    except WorkerLost as error:
        notes.append(f"steps of several ranks are taken for steps of one: {error}")
        return 0.0, 0.0


def _together(device: str, ranks: int, say: Callable[[str], None]) -> tuple[Ring | None, tuple[str, ...]]:
    if ranks < 2:
        return None, ("one rank: messages are a guess",)
    count = min(ranks, GROUP)
    say(f"measuring {count} ranks together")
    try:
        return ring(device, count), ()
    except WorkerLost as error:
        say(f"{error}; messages are a guess")
        return None, (f"messages are a guess: {error}",)


def _crowd(slowdown: float, ranks: int) -> tuple[float, ...]:
    """Return the slowdown of 1, 2, ... ranks side by side: linear between one and all of them."""
    if ranks < 2:
        return (1.0,)
    return tuple(1 + (slowdown - 1) * rank / (ranks - 1) for rank in range(ranks))


def _model(device: str) -> str:
    if device == "cuda":
        return str(torch.cuda.get_device_name(0))
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
