"""What the model says to a person: seconds, efficiency, the largest useful width, what bounds it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detol.errors import UsageError
from detol.scaling.compression import factor
from detol.scaling.machine import Machine
from detol.scaling.step import Step, sent_bytes, step
from detol.scaling.work import Work

STRONG, WEAK = "strong", "weak"
USEFUL = 0.5
"""Efficiency from which a width is worth its ranks."""

GAIN = 1.1
"""How many times faster twice the width has to be: below it, scaling has stalled."""

FARTHEST = 4096
"""Widths that are looked at for the limits."""


@dataclass(frozen=True, slots=True)
class Row:
    """One width.

    Args:
        step: its parts.
        speedup: samples a second against one rank.
        efficiency: of the ideal, in [0, 1].
        sent: bytes that each rank sends in a step.
        compression: how many times fewer these are than a plain exchange in 32 bit sends.
    """

    step: Step
    ranks: int
    speedup: float
    efficiency: float
    sent: float
    compression: float

    def as_dict(self) -> dict[str, Any]:
        """Return it flat; seconds of a step and of its parts."""
        parts = {f"{name.replace(' ', '_')}_seconds": value for name, value in self.step.parts.items()}
        return {
            "ranks": self.ranks,
            "batch": self.step.batch,
            "samples_per_rank": self.step.local,
            "step_seconds": self.step.seconds,
            "samples_per_second": self.step.batch / self.step.seconds,
            "speedup": self.speedup,
            "efficiency": self.efficiency,
            "bound": self.step.bound,
            "bytes_sent": self.sent,
            "compression": self.compression,
            **parts,
        }


@dataclass(frozen=True)
class Plan:
    """The scaling of one network on one machine.

    Args:
        mode: ``strong`` (one batch divided) or ``weak`` (a batch for each rank).
        communication: how gradients are exchanged, as a recipe names it; empty where a compression was given instead.
        compression: how many times fewer bytes two ranks send; of other widths their rows know.
        rows: by ascending width.
        useful: largest width of efficiency >= ``USEFUL``.
        fastest: smallest width of the least seconds a sample.
        stalls: width from which twice as many ranks are less than ``GAIN`` times as fast; ``None``: not below
            ``FARTHEST``.
        by_batch: width at which each rank has as few samples as it may; ``None`` for weak scaling.
        bound: what the ranks beyond ``useful`` are lost to.
    """

    work: Work
    machine: Machine
    batch: int
    mode: str
    communication: str
    compression: float
    rows: tuple[Row, ...]
    useful: int
    fastest: int
    stalls: int | None
    by_batch: int | None
    bound: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able values; the machine by name."""
        return {
            "network": self.work.name,
            "params": self.work.params,
            "multiply_adds": self.work.multiply_adds,
            "gradient_bytes": self.work.gradient_bytes,
            "machine": self.machine.name,
            "device": self.machine.device,
            "mode": self.mode,
            "batch": self.batch,
            "communication": self.communication,
            "compression": self.compression,
            "largest_useful_width": self.useful,
            "fastest_width": self.fastest,
            "stalls_at": self.stalls,
            "limit_by_batch": self.by_batch,
            "bound": self.bound,
            "rows": [row.as_dict() for row in self.rows],
        }

    @property
    def verdict(self) -> str:
        """One line for people."""
        text = f"{self.mode} scaling: useful up to {self.useful} rank{'s' * (self.useful > 1)}"
        text += f" (efficiency >= {USEFUL:.0%}), then bound by {self.bound}"
        if self.stalls is not None:
            text += f"; stalls at {self.stalls}"
        if self.by_batch is not None:
            text += f"; the batch of {self.batch} ends it at {self.by_batch}"
        return text


def plan(
    work: Work,
    machine: Machine,
    *,
    batch: int,
    widths: Sequence[int] = (),
    mode: str = STRONG,
    compression: float | None = None,
    communication: str = "plain",
    measured: Mapping[int, float] | None = None,
) -> Plan:
    """Return how a network scales.

    Args:
        work: of the network.
        machine: where.
        batch: samples of a step; of each rank for weak scaling; >= 1.
        widths: to list, >= 1; by default powers of two up to the limit of the machine, or of the batch.
        mode: ``strong`` or ``weak``.
        compression: how many times fewer bytes are sent; ``None``: what the communication saves at each width.
        communication: how gradients are exchanged, as a recipe names it.
        measured: seconds of a step of one rank, by its samples, where this network was timed: the model then says how
            that changes, and what ranks add.

    Raises:
        UsageError: a batch or a width below 1, a compression that is not positive, an unknown communication, or more
            ranks than the machine has.
    """
    if batch < 1:
        raise UsageError(f"--batch must be >= 1, got {batch}")
    if compression is not None and not 0 < compression < math.inf:
        raise UsageError(f"--compression must be > 0 and finite, got {compression:g}")
    for width in widths:
        if width < 1:
            raise UsageError(f"--ranks are whole numbers >= 1, got {width}")
        if machine.ranks and width > machine.ranks:
            raise UsageError(f"machine {machine.name} has {machine.ranks} ranks, got --ranks {width}: ask for fewer")

    def fewer(width: int) -> float:
        return compression if compression is not None else factor(communication, work, width)

    def scale(samples: int) -> float:
        if not measured:
            return 1.0
        nearest = min(measured, key=lambda known: abs(math.log(known / samples)))
        return measured[nearest] / step(work, machine, nearest, 1, whole=batch).seconds

    one = step(work, machine, batch, 1, scale=scale(batch))

    def row(width: int) -> Row:
        total = batch * width if mode == WEAK else batch
        busy = min(width, max(1, total // work.least))
        times, local = fewer(busy), -(-total // busy)
        found = step(work, machine, total, width, compression=times, whole=batch, scale=scale(local))
        speedup = (found.batch / found.seconds) / (batch / one.seconds)
        return Row(found, width, speedup, speedup / width, sent_bytes(work, found.width, times), times)

    by_batch = max(1, batch // work.least) if mode == STRONG else None
    farthest = machine.ranks or FARTHEST
    looked = {width: row(width) for width in _looked_at(farthest, by_batch)}
    useful = max(w for w, found in looked.items() if found.efficiency >= USEFUL and w <= (by_batch or w))
    fastest = max(looked, key=lambda width: (round(looked[width].speedup, 9), -width))
    doubled = (width for width in sorted(looked) if 2 * width in looked)
    stalls = next((w for w in doubled if looked[2 * w].speedup < GAIN * looked[w].speedup), None)
    beyond = looked[min((width for width in looked if width > useful), default=useful)]
    chosen = sorted(set(widths)) or _powers(min(farthest, 4 * max(by_batch or 64, 1), 1024))
    rows = tuple(looked.get(width) or row(width) for width in chosen)
    way, bound = communication if compression is None else "", _lost_to(beyond, one, mode)
    return Plan(work, machine, batch, mode, way, fewer(2), rows, useful, fastest, stalls, by_batch, bound)


def _looked_at(farthest: int, by_batch: int | None) -> list[int]:
    """Return the widths that limits are looked for at: all small ones, then steps of an eighth, and powers of two."""
    widths, width = set(_powers(farthest)), 1
    while width <= farthest:
        widths.add(width)
        width += max(1, width // 8)
    return sorted(widths | ({by_batch} if by_batch and by_batch <= farthest else set()))


def _powers(most: int) -> list[int]:
    return [2**exponent for exponent in range(most.bit_length()) if 2**exponent <= most]


def _lost_to(row: Row, one: Step, mode: str) -> str:
    """Return what most of the difference to the ideal at a width is lost to; what remains of it for an ideal one."""
    share = row.step.batch / row.ranks / one.batch
    ideal = {name: seconds * share for name, seconds in one.parts.items()}
    lost = {name: seconds - ideal[name] for name, seconds in row.step.parts.items()}
    if mode == STRONG and row.ranks > row.step.width:
        return "the batch"
    name = max(lost, key=lambda part: lost[part])
    return name if lost[name] > 1e-3 * row.step.seconds else row.step.bound
