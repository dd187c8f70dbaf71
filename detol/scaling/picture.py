"""A picture of scaling: speed-up against ranks on linear axes, the ideal beside it, and where the seconds go."""

from collections.abc import Sequence
from pathlib import Path

from detol.errors import UsageError
from detol.scaling.answer import Plan
from detol.scaling.step import PARTS

FORMATS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Refuse a picture that could not be written.

    Raises:
        UsageError: another ending than ``FORMATS``, or no such directory.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"a picture ends in {', '.join(FORMATS)}, got --to {path}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no directory {path.absolute().parent} for the picture: make it first")


def draw(plans: Sequence[Plan], path: Path) -> Path:
    """Write the picture of some plans of one network: to the left speed-up, below it the parts of a step.

    Args:
        plans: one for each mode, at least one.
        path: PNG, SVG or PDF.

    Raises:
        UsageError: as :func:`check`.
    """
    from matplotlib.figure import Figure  # no window system is asked for

    check(path)
    figure = Figure(figsize=(5.2 * len(plans), 8), layout="constrained")
    axes = figure.subplots(2, len(plans), squeeze=False)
    for column, plan in enumerate(plans):
        above, below = axes[0][column], axes[1][column]
        shown = [row for row in plan.rows if row.ranks <= 4 * plan.useful] or list(plan.rows)
        ranks = [row.ranks for row in shown]
        above.plot([0, max(ranks)], [0, max(ranks)], color="0.6", linestyle="--", label="ideal")
        above.plot(ranks, [row.speedup for row in shown], marker="o", label=plan.work.name)
        above.plot([], [], " ", label=f"largest useful width: {plan.useful}")
        if plan.useful <= max(ranks):
            above.axvline(plan.useful, color="0.8")
        above.set(xlim=(0, None), ylim=(0, None), xlabel="ranks", ylabel="speed-up (samples a second)")
        above.set_title(f"{plan.mode} scaling on {plan.machine.name}, batch {plan.batch}")
        above.legend()
        above.grid(alpha=0.3)
        names = [str(rank) for rank in ranks]
        bottom = [0.0] * len(shown)
        for part in PARTS:
            seconds = [1e3 * row.step.parts[part] for row in shown]
            below.bar(names, seconds, bottom=bottom, label=part)
            bottom = [lower + more for lower, more in zip(bottom, seconds, strict=True)]
        below.set(xlabel="ranks", ylabel="milliseconds of a step")
        below.legend()
        below.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=150)
    return path
