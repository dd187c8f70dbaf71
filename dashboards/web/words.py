"""Values as people read them: the filters of the templates."""

import math
from datetime import datetime
from typing import Any

from detol.dashboards.web.axis import short

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NOTHING = "\u2013"


def metric(value: Any) -> str:
    """Return the value of a metric: four decimals, fewer for large ones."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    if isinstance(value, float) and 1e-3 <= abs(value) < 1e4:
        return f"{value:.4f}"
    return short(float(value))


def amount(value: Any) -> str:
    """Return a count in a few characters."""
    if not isinstance(value, int | float):
        return NOTHING
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10_000 else short(float(value))


def exact(value: Any) -> str:
    """Return a number with all of its digits, thousands apart."""
    return f"{value:,}" if isinstance(value, int | float) else NOTHING


def duration(seconds: Any) -> str:
    """Return seconds as ``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min`` or ``3 d 4 h``."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return NOTHING
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name} {rest} {below}" if rest else f"{whole // unit} {name}"
    return f"{whole} s"


def moment(text: str) -> str:
    """Return ``28 Nov 02:17`` for a moment in ISO 8601 (UTC)."""
    if not text:
        return NOTHING
    when = datetime.fromisoformat(text)
    return f"{when.day} {_MONTHS[when.month - 1]} {when:%H:%M}"


def state(text: str) -> str:
    """Return the name of a state: ``out of memory``."""
    return text.replace("_", " ")


def plain_value(value: Any) -> str:
    """Return any setting as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain_value, value)) or NOTHING
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain_value(part)}" for key, part in value.items()) or NOTHING
    return NOTHING if value is None or value == "" else str(value)


FILTERS = {
    "metric": metric,
    "amount": amount,
    "exact": exact,
    "duration": duration,
    "moment": moment,
    "state": state,
    "plain": plain_value,
}
