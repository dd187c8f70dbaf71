"""Axes of charts: from values to places, with round ticks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Axis:
    """One axis.

    Args:
        label: what it shows.
        low: least value, above 0 when ``log``.
        high: greatest value, above ``low``.
        log: whether equal ratios are equally far apart.
        whole: whether there is nothing between whole numbers, so that no tick stands there.
    """

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    @classmethod
    def around(cls, values: Iterable[float], label: str, *, log: bool = False, whole: bool = False) -> "Axis":
        """Return an axis with some room around values; on whole numbers one that begins at the least."""
        found = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = min(found, default=1.0 if log else 0.0), max(found, default=1.0)
        if log:
            room = (high / low) ** 0.05 if high > low else 2.0
            return cls(label, low / room, high * room, log=True)
        if low == high:
            return (
                cls(label, low - 0.5, high + 0.5, whole=True)
                if whole
                else cls(label, low - abs(low) * 0.1 - 1e-9, high + abs(high) * 0.1 + 1e-9)
            )
        room = (high - low) * 0.05
        return cls(label, low if whole else low - room, high + (room / 2 if whole else room), whole=whole)

    def place(self, value: float) -> float:
        """Return where a value stands: 0 at ``low``, 1 at ``high``; values outside stand at the ends."""
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values on the axis, some ``about`` of them."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1.0,) if self.high / self.low > 1e3 else (1.0, 2.0, 5.0)
            found = [m * 10.0**d for d in decades for m in steps if self.low <= m * 10.0**d <= self.high]
            if len(found) >= 2:
                every = max(1, round(len(found) / (about + 1)))
                return found[::every]
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * 0.8)
        step = max(step, 1.0) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def short(value: float) -> str:
    """Return a number in a few characters: ``0.981``, ``12.3k``, ``1.5M``."""
    if not math.isfinite(value):
        return "\u2013"
    size = abs(value)
    for unit, suffix in _SUFFIXES:
        if size >= unit * 0.99995:
            return f"{value / unit:.3g}{suffix}"
    if size and size < 1e-3:
        return f"{value:.1e}"
    return f"{value:.4g}"
