"""One trial in a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from detol.dashboards.tables import cell, show
from detol.search.inheritance import RULE, SHARE
from detol.search.records import INHERITED

BARS = "▁▂▃▄▅▆▇█"


def show_trial(console: Console, shown: Mapping[str, Any]) -> None:
    """Print what ``Query.show`` returns of a trial."""
    value = cell(shown["value"]) or "no score"
    console.print(Text(f"{shown['trial']}: {shown['metric']} {value} ({shown['state']})", style="bold"))
    facts = ("digest", "reason", "origin", "note", "parents", "epoch", "epochs", "attempt", "seed", "width", "seconds")
    rows = {
        key: shown[key]
        for key in (*facts, "reused", "source", "weights", "created", "ended")
        if shown.get(key) not in ("", [], None)
    }
    told = inherited(shown.get("extra") or {})
    rows |= {"inherited": told} if told else {}
    rows["seed"] = str(shown["seed"])
    rows["data"] = f"{shown['data']['name']} ({shown['data']['digest']})"
    rows.update(shown["cost"] or {})
    if shown["curve"]:
        rows["curve"] = sparkline([row["value"] for row in shown["curve"]])
    show(console, [{"fact": key.replace("_", " "), "value": str(cell(value))} for key, value in rows.items()])
    show(console, [{"decision": key, "option": str(value)} for key, value in shown["decisions"].items()])
    show(console, [{"recipe": key, "value": str(value)} for key, value in shown["recipe"].items()])
    if shown["others"]:
        show(console, shown["others"], title="the same topology on the same data elsewhere")
    if shown.get("warm_sources"):
        columns = ("searches", "data_name", "records", "weight", "distance", "tau")
        rows_of = [{key: source.get(key) for key in columns} for source in shown["warm_sources"]]
        show(console, rows_of, title="its search began with results of other data sets")


def inherited(extra: Mapping[str, Any]) -> str:
    """Return whose weights a trial started from, e.g. ``from trial 3 (0.87 of its parameters, morph)``; else empty."""
    if not extra.get(INHERITED):
        return ""
    share, rule = extra.get(SHARE), extra.get(RULE)
    parts = [f"{float(share):.2f} of its parameters"] if share is not None else []
    known = ", ".join([*parts, *([str(rule)] if rule else [])])
    return f"from trial {extra[INHERITED]}" + (f" ({known})" if known else "")


def sparkline(values: list[float | None]) -> str:
    """Return values as a line of bars from the least to the greatest, e.g. ``▁▅█  0.61 to 0.98``; a gap for none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    bars = "".join(" " if value is None else BARS[round((value - low) * scale)] for value in values)
    return f"{bars}  {low:.4f} to {high:.4f}"
