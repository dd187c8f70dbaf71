"""The summary of a finished search in a terminal."""

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from detol.dashboards.progress import clock


def summary(console: Console, figures: Mapping[str, Any]) -> None:
    """Print what a search found, gained, spared and cost; ``figures`` as ``detol search --json`` prints them."""

    def say(text: str) -> None:
        console.print(text, markup=False)

    say(f"\n{figures['name']}: {figures['ended']}, {clock(figures['seconds'])} min")
    counts = ("trained", "reused", "stopped", "failed", "refused", "paused")
    shown = ", ".join(f"{figures[key]} {key}" for key in counts if figures.get(key) or key in ("trained", "reused"))
    say(f"trials:  {figures['trials']} ({shown})")
    say(
        f"epochs:  {figures['epochs']} trained, {figures['epochs_spared']} spared by stopping early, "
        f"{figures['epochs_reused']} answered from the database"
    )
    if figures.get("continued"):
        say(f"         {figures['continued']} trials went on from checkpoints of other searches")
    best, reference = figures["best"], figures["reference"]
    if best is None:
        say("best:    none: no trial ended with a score (see: detol status)")
        return
    objective = figures["objective"].partition(":")[0]  # without its direction
    say(f"best:    trial {best['trial']}, {objective} {_shown(best['score'])}, {best['digest'][:19]}")
    inherited = figures.get("inherited")
    if inherited:
        same = " (not trained from scratch: no time was left)" if best["trial"] == inherited["trial"] else ""
        say(
            f"         trial {inherited['trial']} reached {_shown(inherited['score'])} from the weights of trial "
            f"{inherited['from']}{same}"
        )
    if reference:
        same = "the search found nothing better" if best["trial"] == reference["trial"] else ""
        if not same and not figures["gain"]:
            same = "the search found another one as good"
        gain = same or f"searching gained {figures['gain']:+.4f}"
        say(f"         best reference topology {_shown(reference['score'])} (trial {reference['trial']}): {gain}")
    for number, row in enumerate(figures.get("front") or ()):
        apart = ("trial", "digest", "inherited_from")
        facts = ", ".join(f"{name} {_shown(value)}" for name, value in row.items() if name not in apart)
        parent = f" (from the weights of trial {row['inherited_from']})" if "inherited_from" in row else ""
        say(f"{'front:   ' if not number else '         '}trial {row['trial']}: {facts}{parent}")
    if figures["test"]:
        say("test:    " + ", ".join(f"{name} {_shown(value)}" for name, value in figures["test"].items()))


def _shown(value: float) -> str:
    """Return a count with separators, or a metric with four decimals, or digits where those would say nothing."""
    if float(value).is_integer() and abs(value) >= 10:
        return f"{int(value):,}"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 or not math.isfinite(value) else f"{value:.4g}"
