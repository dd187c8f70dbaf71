"""Pictures as PNG, drawn by matplotlib: no browser is needed, and no text is read as markup or mathematics."""

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

from detol.dashboards.report.looks import BAND, GROUND, LOOKS
from detol.dashboards.report.picture import Axis, Band, Bars, Dots, Line, Picture
from detol.errors import UsageError

INK, DIM, LINE = (GROUND[name][0] for name in ("ink", "dim", "line"))
WIDTH, HEIGHT, RESOLUTION = 7.2, 4.4, 160
"""Inches, inches, dots in an inch."""
_SYMBOLS = {"circle": "o", "ring": "o", "cross": "x", "square": "s", "diamond": "D"}


def png(picture: Picture) -> bytes:
    """Return a picture as PNG on white ground, its title above and its note below.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("--png needs matplotlib: pip install matplotlib") from None

    rows = max((len(mark.labels) for mark in picture.marks if isinstance(mark, Bars)), default=0)
    note = textwrap.fill(picture.note, 118)
    height = (0.9 + 0.24 * max(2, rows) if rows else HEIGHT) + 0.16 * (note.count("\n") + 1)
    with mpl.rc_context({"text.parse_math": False, "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may hold what the font does not
        figure = Figure(figsize=(WIDTH, height), dpi=RESOLUTION, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(picture.title, loc="left", fontsize=11, fontweight="bold", color=INK)
        if picture.empty:
            axes.axis("off")
            axes.text(0.5, 0.5, textwrap.fill(picture.empty, 70), ha="center", va="center", color=DIM)
        else:
            _draw(axes, picture)
        if note:
            figure.supxlabel(note, x=0.01, ha="left", fontsize=7.5, color=DIM)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", facecolor="white", metadata={"Software": "detol"})
    return buffer.getvalue()


def _draw(axes: Any, picture: Picture) -> None:
    left: list[float] = []
    for order, mark in enumerate(picture.marks):
        if isinstance(mark, Bars):
            left = _bars(axes, mark, left)
        else:
            _mark(axes, mark, order + 2)
    _style(axes, picture)
    names = [mark.name for mark in picture.marks if mark.name]
    if len(names) > 1:
        axes.legend(fontsize=7.5, frameon=True, framealpha=0.85, edgecolor=LINE, labelcolor=DIM)


def _mark(axes: Any, mark: Dots | Line | Band, order: int) -> None:
    look = LOOKS[mark.look]
    label = mark.name or None
    if isinstance(mark, Band):
        area = {"color": look.light, "alpha": BAND, "linewidth": 0}
        axes.fill_between(mark.x, mark.low, mark.high, label=label, zorder=order, **area)
    elif isinstance(mark, Line):
        x, y = _known(mark.x), _known(mark.y)
        style = {"color": look.light, "linewidth": look.width, "alpha": look.opacity, "zorder": order}
        axes.plot(
            x,
            y,
            drawstyle="steps-post" if mark.steps else "default",
            linestyle="--" if look.dash else "-",
            label=label,
            **style,
        )
        if mark.filled:
            area = {"color": look.light, "alpha": BAND, "linewidth": 0}
            axes.fill_between(x, 0, y, step="post" if mark.steps else None, zorder=order, **area)
    else:
        hollow = look.symbol in ("ring", "square")
        axes.scatter(
            mark.x,
            mark.y,
            s=(look.size * 0.72) ** 2,
            marker=_SYMBOLS[look.symbol],
            facecolors="none" if hollow else look.light,
            **({} if look.symbol == "cross" and not hollow else {"edgecolors": look.light}),
            linewidths=1.1,
            alpha=look.opacity,
            label=label,
            zorder=order,
        )


def _known(values: Any) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _bars(axes: Any, mark: Bars, left: list[float]) -> list[float]:
    """Draw lying bars; return where those stacked on them begin."""
    look, places = LOOKS[mark.look], range(len(mark.values))
    start = left or [0.0] * len(mark.values)
    if mark.dots:
        axes.plot(mark.values, places, "o", color=look.light, markersize=5, label=mark.name or None, zorder=3)
    else:
        axes.barh(
            places,
            mark.values,
            left=start if mark.stacked else None,
            height=0.62,
            color=look.light,
            alpha=0.85,
            label=mark.name or None,
        )
    if mark.low:
        spread = [
            [v - low for low, v in zip(mark.low, mark.values, strict=True)],
            [high - v for high, v in zip(mark.high, mark.values, strict=True)],
        ]
        axes.errorbar(mark.values, places, xerr=spread, fmt="none", ecolor=DIM, elinewidth=1.1, capsize=2.5, zorder=4)
    axes.set_yticks(list(places), [label[:48] for label in mark.labels])
    axes.set_ylim(len(mark.values) - 0.5, -0.5)
    return [begin + value for begin, value in zip(start, mark.values, strict=True)] if mark.stacked else left


def _style(axes: Any, picture: Picture) -> None:
    _axis(axes.xaxis, axes.set_xlabel, axes.set_xscale, picture.x)
    _axis(axes.yaxis, axes.set_ylabel, axes.set_yscale, picture.y)
    if picture.x.low is not None:
        axes.set_xlim(left=picture.x.low, right=picture.x.high)
    if picture.y.low is not None:
        axes.set_ylim(bottom=picture.y.low, top=picture.y.high)
    if picture.x.falling:
        axes.invert_xaxis()
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_color(LINE)
    axes.tick_params(colors=DIM, labelsize=8)


def _axis(axis: Any, label: Any, scale: Any, of: Axis) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    label(of.label, color=DIM)
    if of.log:
        scale("log")
        axis.set_major_formatter(EngFormatter(sep=""))
    elif of.whole:
        axis.set_major_locator(MaxNLocator(integer=True))


def sheet(pictures: Sequence[bytes], columns: int = 2, gap: int = 24) -> bytes:
    """Return several PNG pictures as one, in columns, the next one always in the shortest column."""
    from PIL import Image

    opened = [Image.open(io.BytesIO(content)) for content in pictures]
    width = max(image.width for image in opened)
    heights = [gap] * columns
    places = []
    for image in opened:
        column = heights.index(min(heights))
        places.append((gap + column * (width + gap), heights[column]))
        heights[column] += image.height + gap
    made = Image.new("RGB", (gap + columns * (width + gap), max(heights)), "white")
    for image, place in zip(opened, places, strict=True):
        made.paste(image, place)
    buffer = io.BytesIO()
    made.save(buffer, format="png", optimize=True)
    return buffer.getvalue()
