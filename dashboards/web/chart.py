"""Charts as SVG text: dots and lines between two axes, with a title on everything that can be pointed at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from detol.dashboards.web.axis import Axis, short

WIDTH, HEIGHT = 440.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 10.0, 38.0
_CELL, _COARSE, _MANY = 4.0, 7.0, 1000
"""Dots of one look closer together than so many units are drawn as one; further apart where there are many."""


@dataclass(frozen=True)
class Dot:
    """One dot: where, its class in the style sheet, what it says, and what it leads to.

    ``title`` may be a function that returns (title, href): it is called for the dots that are drawn alone.
    """

    x: float
    y: float
    look: str
    title: str | Callable[[], tuple[str, str]]
    href: str = ""
    key: bool = False


@dataclass(frozen=True)
class Line:
    """A line through points: its class, what it says, where it leads; ``steps``: it rises at the next point."""

    points: Sequence[tuple[float, float]]
    look: str
    title: str = ""
    href: str = ""
    steps: bool = False


@dataclass(frozen=True)
class Legend:
    """An entry of the legend: a class and its name."""

    look: str
    name: str


def chart(
    name: str, x: Axis, y: Axis, *, lines: Sequence[Line] = (), dots: Sequence[Dot] = (), empty: str = ""
) -> Markup:
    """Return a chart as inline SVG.

    Args:
        name: what it shows, for those who cannot see it.
        x: axis from left to right.
        y: axis from bottom to top.
        lines: below the dots.
        dots: many of them that would lie on one another are drawn as one that says how many it is. Those with
            ``key`` always stand, above the others, and can be reached by the keyboard.
        empty: what is said where there is neither.
    """
    frame = _Frame(x, y)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="group" aria-label="{escape(name)}">',
        *frame.axes(),
        *(frame.line(line) for line in lines if line.points),
        *frame.dots(dots),
    ]
    if empty and not dots and not any(line.points for line in lines):
        parts.append(f'<text class="empty" x="{WIDTH / 2:.0f}" y="{HEIGHT / 2 - 10:.0f}">{escape(empty)}</text>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704  every text above is escaped


def sparkline(values: Sequence[float], width: float = 90.0, height: float = 20.0) -> Markup:
    """Return a small curve without axes."""
    if not values:
        return Markup("")
    axis = Axis.around(values, "")
    step = (width - 6) / max(1, len(values) - 1)
    places = [(3 + step * n, 3 + (height - 6) * (1 - axis.place(value))) for n, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    end = f'<circle cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="2.2"/>'
    return Markup(  # noqa: S704  numbers alone
        f'<svg class="spark" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="from {short(values[0])} to {short(values[-1])}"><polyline points="{line}"/>{end}</svg>'
    )


class _Frame:
    def __init__(self, x: Axis, y: Axis) -> None:
        self._x, self._y = x, y

    def _at(self, x: float, y: float) -> tuple[float, float]:
        across, up = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * self._x.place(x), HEIGHT - _BOTTOM - up * self._y.place(y)

    def axes(self) -> list[str]:
        """Return grid, ticks and labels."""
        parts = []
        bottom = HEIGHT - _BOTTOM
        for tick in self._y.ticks():
            _, at = self._at(self._x.low, tick)
            parts.append(f'<path class="grid" d="M{_LEFT:.0f} {at:.1f}H{WIDTH - _RIGHT:.0f}"/>')
            parts.append(
                f'<text class="tick" x="{_LEFT - 6:.0f}" y="{at + 3.5:.1f}" text-anchor="end">{short(tick)}</text>'
            )
        for tick in self._x.ticks():
            at, _ = self._at(tick, self._y.low)
            parts.append(f'<path class="grid" d="M{at:.1f} {_TOP:.0f}V{bottom:.0f}"/>')
            parts.append(
                f'<text class="tick" x="{at:.1f}" y="{bottom + 15:.0f}" text-anchor="middle">{short(tick)}</text>'
            )
        middle = (_TOP + bottom) / 2
        parts.append(f'<path class="axis" d="M{_LEFT:.0f} {_TOP:.0f}V{bottom:.0f}H{WIDTH - _RIGHT:.0f}"/>')
        parts.append(
            f'<text class="name" x="{(_LEFT + WIDTH - _RIGHT) / 2:.0f}" y="{HEIGHT - 6:.0f}" text-anchor="middle">'
            f"{escape(self._x.label)}</text>"
            f'<text class="name" transform="translate(12 {middle:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(self._y.label)}</text>"
        )
        return parts

    def line(self, line: Line) -> str:
        """Return a line, and a wide invisible one over it that is easy to point at."""
        places = [self._at(x, y) for x, y in line.points]
        text = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
        for x, y in places[1:]:
            text += f"H{x:.1f}V{y:.1f}" if line.steps else f"L{x:.1f} {y:.1f}"
        if len(places) == 1:
            text += "h0.1"
        drawn = f'<path class="line {escape(line.look)}" d="{text}"/>'
        if not line.title:
            return drawn
        touch = f'<path class="touch" d="{text}"><title>{escape(line.title)}</title></path>'
        return _linked(f"{drawn}{touch}", line.href, key=False, name=line.title)

    def dots(self, dots: Sequence[Dot]) -> list[str]:
        """Return dots, those on one another as one."""
        room = _CELL if len(dots) <= _MANY else _COARSE
        seen: dict[tuple[int, int, str], tuple[Dot, int]] = {}
        for dot in dots:
            if not dot.key:
                x, y = self._at(dot.x, dot.y)
                cell = (round(x / room), round(y / room), dot.look)
                first, count = seen.get(cell, (dot, 0))
                seen[cell] = (first, count + 1)
        parts = [self._dot(dot, count) for dot, count in seen.values()]
        return parts + [self._dot(dot, 1) for dot in dots if dot.key]

    def _dot(self, dot: Dot, count: int) -> str:
        x, y = self._at(dot.x, dot.y)
        more = f" (and {count - 1} more here)" if count > 1 else ""
        says, href = (dot.title, dot.href) if isinstance(dot.title, str) else dot.title()
        title = f"{says}{more}"
        drawn = (
            f'<circle class="dot {escape(dot.look)}" cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if dot.key else 3.2}">'
            f"<title>{escape(title)}</title></circle>"
        )
        return _linked(drawn, href, key=dot.key, name=title)


def _linked(drawn: str, href: str, *, key: bool, name: str) -> str:
    """Return a drawing that leads somewhere; the keyboard reaches only those that matter, not thousands."""
    if not href:
        return drawn
    reach = f'aria-label="{escape(name)}"' if key else 'tabindex="-1" aria-hidden="true"'
    return f'<a href="{escape(href)}" {reach}>{drawn}</a>'
