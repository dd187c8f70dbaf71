"""Measures a whole machine."""

import platform
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from detol.errors import WorkerLost
from detol.scaling.link import Link
from detol.scaling.machine import Machine
from detol.scaling.presets import preset
from detol.workers import devices
from detol.workers.calibration.overheads import overheads
from detol.workers.calibration.products import POINTS, rates
from detol.workers.calibration.reading import read_bandwidth
from detol.workers.calibration.ring import Ring, ring
from detol.workers.tensors import use_threads

GROUP = 8
"""The most ranks that are measured together."""


def measure(
    device: str,
    ranks: int,
    *,
    precision: str = "float32",
    points: int = POINTS,
    say: Callable[[str], None] = lambda _: None,
) -> Machine:
    """Measure this machine: half a minute or so.

    Args:
        device: ``cpu`` or ``cuda``.
        ranks: how many it has, >= 1; up to ``GROUP`` of them are measured together.
        precision: of products: ``float32`` or ``bfloat16``.
        points: shapes of each kind of product.
        say: called with a line about what is measured.

    Raises:
        UsageError: no such device.
    """
    devices.check(device)
    if device == "cpu":
        use_threads(1)  # as workers do
    place = torch.device(device)
    say(f"measuring {device}: starting layers, values, samples, the optimiser")
    over = overheads(place, precision)
    say("measuring products of many shapes")
    found = rates(place, torch.bfloat16 if precision == "bfloat16" else torch.float32, points=points)
    together, notes = _together(device, ranks, say)
    say("measuring how fast files are read")
    guess = preset(f"guess-{device}")
    return Machine(
        name=platform.node() or "this machine",
        device=device,
        rates=found,
        link=Link(together.bandwidth, together.latency) if together else guess.link,
        ranks=ranks,
        norm=over.norm,
        free=over.free,
        sample=over.sample,
        update=over.update,
        layer=over.layer,
        step=over.step,
        queued=device == "cuda",
        overlap=together.overlap if together else guess.overlap,
        crowd=_crowd(together.crowd if together else 1.0, min(ranks, GROUP)),
        setup=together.setup if together else guess.setup,
        agree=together.agree if together else guess.agree,
        files=read_bandwidth(Path(tempfile.gettempdir())),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        sources=(
            f"measured with torch {torch.__version__}, {_model(device)}, {precision}",
            *notes,
        ),
    )


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
