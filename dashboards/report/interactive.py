"""Pictures as plotly figures: for the page, and for notebooks."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from detol.dashboards.report.looks import BAND, GROUND, LOOKS, faint
from detol.dashboards.report.picture import Axis, Band, Bars, Dots, Line, Picture
from detol.errors import UsageError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_SYMBOLS = {"circle": "circle", "ring": "circle-open", "cross": "x", "square": "square-open", "diamond": "diamond"}
_FONT = 'system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Roboto, "DejaVu Sans", Arial, sans-serif'
INK, DIM, LINE, CARD = (GROUND[name][0] for name in ("ink", "dim", "line", "card"))
FEW = 12
"""Whole numbers on an axis that each have a tick."""
BAR = 26
"""Pixels of height for each lying bar."""


def figure(picture: Picture) -> "Figure":
    """Return a picture as a plotly figure on light ground.

    All text is escaped: plotly reads ``<b>`` and the like in labels and texts.

    Raises:
        UsageError: plotly is not installed.
    """
    try:
        from plotly.graph_objects import Figure
    except ImportError:
        raise UsageError("the report needs plotly: pip install plotly") from None
    traces = [trace for mark in picture.marks for trace in _traces(mark)]
    named = sum(1 for trace in traces if trace["showlegend"])
    for trace in traces:
        trace["showlegend"] = trace["showlegend"] and named > 1
    return Figure({"data": traces, "layout": _layout(picture)})


def escape(text: str) -> str:
    """Return plain text as plotly shows it as it is, its lines kept."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def _traces(mark: Dots | Line | Band | Bars) -> list[dict[str, Any]]:
    look = LOOKS[mark.look]
    shared: dict[str, Any] = {
        "name": escape(mark.name),
        "legendgroup": escape(mark.name or mark.look),
        "showlegend": bool(mark.name),
    }
    if isinstance(mark, Band):
        edge = {**shared, "type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"width": 0}}
        filled = {"fill": "tonexty", "fillcolor": faint(look.light, BAND)}
        return [
            {**edge, "x": list(mark.x), "y": list(mark.low), "showlegend": False},
            {**edge, **filled, "x": list(mark.x), "y": list(mark.high)},
        ]
    said: dict[str, Any] = {"hoverinfo": "skip"}
    if mark.say:
        said = {"hovertext": [escape(text) for text in mark.say], "hoverinfo": "text"}
    if isinstance(mark, Bars):
        return [{**shared, **said, **_bars(mark)}]
    if mark.trials:
        said["customdata"] = list(mark.trials)
    if isinstance(mark, Line):
        line = {"color": look.light, "width": look.width, "dash": "dash" if look.dash else "solid"}
        if mark.steps:
            line["shape"] = "hv"
        fill = {"fill": "tozeroy", "fillcolor": faint(look.light, BAND)} if mark.filled else {}
        return [
            {
                **shared,
                **said,
                **fill,
                "type": "scatter",
                "mode": "lines",
                "x": list(mark.x),
                "y": list(mark.y),
                "line": line,
                "opacity": look.opacity,
            }
        ]
    marker = {
        "color": look.light,
        "size": look.size,
        "symbol": _SYMBOLS[look.symbol],
        "opacity": look.opacity,
        "line": {"width": 1.6 if look.symbol in ("ring", "square") else 0.5, "color": look.light},
    }
    dots = {"type": "scatter", "mode": "markers", "x": list(mark.x), "y": list(mark.y), "marker": marker}
    return [{**shared, **said, **dots}]


def _bars(mark: Bars) -> dict[str, Any]:
    look = LOOKS[mark.look]
    values = list(mark.values)
    error: dict[str, Any] = {}
    if mark.low:
        error = {
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [high - value for high, value in zip(mark.high, values, strict=True)],
                "arrayminus": [value - low for low, value in zip(mark.low, values, strict=True)],
                "color": DIM,
                "thickness": 1.4,
                "width": 4,
            }
        }
    where = {"x": values, "y": list(range(len(values))), **error}
    if mark.dots:
        return {**where, "type": "scatter", "mode": "markers", "marker": {"color": look.light, "size": look.size + 1}}
    return {**where, "type": "bar", "orientation": "h", "marker": {"color": look.light, "opacity": 0.85}, "width": 0.62}


def _layout(picture: Picture) -> dict[str, Any]:
    bars = [mark for mark in picture.marks if isinstance(mark, Bars)]
    labels: Sequence[str] = bars[0].labels if bars else ()
    layout: dict[str, Any] = {
        "template": "none",
        "paper_bgcolor": CARD,
        "plot_bgcolor": CARD,
        "font": {"family": _FONT, "size": 12, "color": DIM},
        "margin": {"l": 58, "r": 14, "t": 14, "b": 46},
        "height": 380 if not labels else 96 + BAR * max(1, len(labels)),
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": CARD,
            "bordercolor": LINE,
            "font": {"family": _FONT, "color": INK, "size": 12},
            "align": "left",
        },
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 11}},
        "xaxis": _axis(picture.x, [x for mark in picture.marks if not isinstance(mark, Bars) for x in mark.x]),
        "yaxis": _axis(picture.y),
        "barmode": "stack" if any(mark.stacked for mark in bars) else "group",
        "dragmode": "zoom",
    }
    if labels:
        layout["yaxis"] |= {
            "tickmode": "array",
            "tickvals": list(range(len(labels))),
            "ticktext": [escape(_short(label)) for label in labels],
            "range": [len(labels) - 0.5, -0.5],
            "showgrid": False,
            "automargin": True,
        }
        layout["margin"]["l"] = 10
    return layout


def _axis(axis: Axis, values: Sequence[float | None] = ()) -> dict[str, Any]:
    """Return an axis; ``values`` are those on it, for one of whole numbers."""
    made: dict[str, Any] = {
        "title": {"text": escape(axis.label), "standoff": 8, "font": {"size": 12}},
        "type": "log" if axis.log else "linear",
        "gridcolor": LINE,
        "linecolor": LINE,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 3,
        "tickcolor": LINE,
    }
    if axis.falling:
        made["autorange"] = "reversed"
    elif axis.low is not None and axis.high is not None:
        made["range"] = [axis.low, axis.high]
    elif axis.low is not None:
        made |= {"rangemode": "tozero"}
    if axis.whole:
        known = [value for value in values if value is not None]
        few = bool(known) and max(known) - min([*known, *([] if axis.low is None else [axis.low])]) <= FEW
        made |= {"tickformat": ",d"} | ({"dtick": 1} if few else {})
    if axis.log:
        made |= {"dtick": "D2", "exponentformat": "SI"}
    return made


def _short(label: str, most: int = 34) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}\u2026"
