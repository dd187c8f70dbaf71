"""How fast matrix products run: layers of many shapes are timed forwards and backwards, a rate is fitted to them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from detol.scaling.rates import CONVOLUTION, DEPTHWISE, KINDS, LINEAR, POINTWISE, Rate
from detol.scaling.step import PASSES
from detol.workers.calibration.timing import least

POINTS = {"cpu": 20, "cuda": 40}
"""Shapes of each kind that are timed. On an H200 twenty left open what small networks depend on most, the half size of
the outputs of convolutions: one of 32 to 128 channels was foretold 18 % too slow, with a fit to forty 7 %."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A layer and how long its products took: (rows x inner) by (inner x outputs), in ``groups``, seconds of a step."""

    rows: float
    inner: float
    outputs: float
    groups: int
    seconds: float


def rates(device: torch.device, precision: torch.dtype, *, points: int = 0) -> dict[str, Rate]:
    """Return the rate of each kind of product on a device.

    Args:
        device: where.
        precision: of the products; ``float32``, or ``bfloat16`` and ``float16`` by autocast.
        points: shapes of each kind; 0: as many as the device needs.
    """
    points = points or POINTS[device.type]
    started = device.type == "cuda"
    return {kind: fit(measure(kind, device, precision, points), started=started) for kind in KINDS}


def measure(kind: str, device: torch.device, precision: torch.dtype, points: int) -> list[Timed]:
    """Time layers of one kind whose shapes are drawn as networks have them, small ones and large ones alike."""
    found = []
    for samples, side, inside, outside in _shapes(kind, device, points):
        run, timed = _layer(kind, samples, side, inside, outside, device, precision)
        found.append(Timed(*timed, seconds=least(run, device, budget=0.03)))
    return found


def fit(points: Sequence[Timed], *, started: bool = False) -> Rate:
    """Return the rate that fits measured layers best: least squares of the logarithm of seconds.

    What a layer takes whatever its size is fitted as well.

    Args:
        points: measured layers.
        started: whether that belongs to the rate (a GPU, whose layers start one after the other while the host is
            ahead); otherwise it is left out, since :mod:`detol.workers.calibration.overheads` times it.

    Raises:
        ValueError: no points.
    """
    from scipy.optimize import least_squares

    if not points:
        raise ValueError("a rate is fitted to at least one measured layer")
    rows, inner, outputs, groups, seconds = np.array(
        [(p.rows, p.inner, p.outputs, p.groups, p.seconds) for p in points], dtype=float
    ).T

    def foretold(x: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        peak, half_rows, half_inner, half_outputs, start = np.exp(x)
        one = (rows + half_rows) * (inner + half_inner) * (outputs + half_outputs) / peak
        return np.asarray(np.log(start + PASSES * groups * one), dtype=np.float64)

    least_seconds = float(np.min(seconds))
    most = float(np.max(rows * inner * outputs * groups / seconds)) * PASSES
    found = least_squares(
        lambda x: foretold(x) - np.log(seconds),
        np.log([1.5 * most, 4.0, 8.0, 8.0, least_seconds / 2]),
        bounds=(
            np.log([most / 2, 1e-3, 1e-3, 1e-3, least_seconds * 1e-3]),
            np.log([most * 3, 1024, 1024, 1024, least_seconds]),
        ),
        loss="soft_l1",
        f_scale=0.2,
    )
    peak, half_rows, half_inner, half_outputs, start = (float(value) for value in np.exp(found.x))
    return Rate(peak, half_rows, half_inner, half_outputs, start / PASSES if started else 0.0)


def _shapes(kind: str, device: torch.device, points: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (samples, side, channels in, channels out): the same ones each time, of bounded work."""
    rng = np.random.default_rng(0)
    large = device.type == "cuda"
    low, high = (3e8, 6e10) if large else (3e4, 3e7)
    if kind == DEPTHWISE:
        low, high = low / 30, high / 30
    count = 0
    while count < points:
        samples = int(2 ** rng.integers(1, 7 if not large else 14 if kind == LINEAR else 9))
        side = int(rng.choice([4, 8, 16, 32])) if kind != LINEAR else 1
        most = 13 if kind == LINEAR and large else 10 if kind == LINEAR or large else 8
        inside, outside = (int(2 ** rng.integers(3, most)) for _ in range(2))
        work = samples * side**2 * inside * {DEPTHWISE: 9, CONVOLUTION: 9 * outside}.get(kind, outside)
        if low <= work <= high:
            count += 1
            yield samples, side, inside, outside


def _layer(
    kind: str, samples: int, side: int, inside: int, outside: int, device: torch.device, precision: torch.dtype
) -> tuple[Callable[[], object], tuple[float, float, float, int]]:
    """Return a layer's forward and backward pass as one call, and its product."""
    wide = inside if kind == DEPTHWISE else outside
    groups = inside if kind == DEPTHWISE else 1
    kernel = 1 if kind in (LINEAR, POINTWISE) else 3
    shape = (wide, inside) if kind == LINEAR else (wide, inside // groups, kernel, kernel)
    weight = torch.randn(shape, device=device)
    x = torch.randn((samples, inside) if kind == LINEAR else (samples, inside, side, side), device=device)
    if kind != LINEAR:
        weight = weight.contiguous(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    weight.requires_grad_(True)
    x.requires_grad_(True)

    def forward() -> Tensor:
        if kind == LINEAR:
            return F.linear(x, weight)
        return F.conv2d(x, weight, padding=kernel // 2, groups=groups)

    def run() -> None:
        with torch.autocast(device.type, dtype=precision, enabled=precision is not torch.float32):
            y = forward()
        torch.autograd.grad(y, (weight, x), torch.ones_like(y))

    rows = samples * side**2
    return run, (rows, math.prod(shape[1:]), wide // groups, groups)
