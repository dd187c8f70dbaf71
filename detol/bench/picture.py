"""A picture of a comparison: regret against trainings, one line for each strategy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw(answer: Mapping[str, Any], to: Path) -> Path:
    """Write ``bench.png`` into a directory (made if needed) and return its path.

    Args:
        answer: what :func:`detol.bench.answer` returns.
        to: the directory.
    """
    from matplotlib.figure import Figure  # no window system is asked for

    to.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for entry in answer["strategies"]:
        points: Sequence[Mapping[str, float]] = entry["regret"]
        axes.plot([p["trainings"] for p in points], [p["mean"] for p in points], label=entry["strategy"])
    if any(point["mean"] > 0 for entry in answer["strategies"] for point in entry["regret"]):
        axes.set_yscale("log")
    axes.set_xlabel("trainings")
    axes.set_ylabel(f"regret of {answer['objective']}, mean of {answer['seeds']} seeds")
    axes.set_title(f"{answer['space']}, {Path(answer['table']).name}")
    axes.legend()
    axes.grid(alpha=0.3)
    path = to / "bench.png"
    figure.savefig(path, dpi=150)
    return path
