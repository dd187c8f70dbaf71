"""Pictures of topologies: a self-contained SVG, and Mermaid text.

Both draw the topology as it is written, dead nodes faded; each cell is drawn once, beside the network.
"""

import html
import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TypeAlias

from detol.graph.digest import digest
from detol.graph.edit import concatenates, normal
from detol.graph.layout import Layout, Point, layered
from detol.graph.ops import KINDS, Operation
from detol.graph.shapes import infer
from detol.graph.topology import Topology

_PALETTE = {
    "conv": ("#dbeafe", "#2563eb"),
    "sepconv": ("#cffafe", "#0891b2"),
    "mbconv": ("#ccfbf1", "#0d9488"),
    "pool": ("#dcfce7", "#16a34a"),
    "global_pool": ("#dcfce7", "#16a34a"),
    "linear": ("#ede9fe", "#7c3aed"),
    "squeeze_excite": ("#fae8ff", "#c026d3"),
    "input": ("#334155", "#334155"),
    "output": ("#334155", "#334155"),
    "cell": ("#ffedd5", "#ea580c"),
    "add": ("#f1f5f9", "#64748b"),
    "concat": ("#f1f5f9", "#64748b"),
    "identity": ("#f8fafc", "#94a3b8"),
    "zero": ("#f8fafc", "#cbd5e1"),
}
_OTHER = ("#fef9c3", "#ca8a04")
_MARGIN = 24.0
_LETTER, _SMALL = 7.3, 6.1  # mean width of a letter of 13 and of 11 pixels
_RULES = (
    "text{font-family:Inter,Helvetica,Arial,sans-serif;text-anchor:middle;fill:#0f172a}",
    ".k{font-size:13px;font-weight:600}",
    ".p{font-size:11px;fill:#475569}",
    ".e{font-size:11px;font-weight:600;fill:#475569;stroke:#fff;stroke-width:3px;paint-order:stroke}",
    ".t{font-size:13px;font-weight:600;fill:#9a3412;text-anchor:start}",
    ".w{fill:#fff}",
    ".l{fill:none;stroke:#64748b;stroke-width:1.5}",
    ".dead{opacity:.35;stroke-dasharray:4 3}",
    ".added rect{stroke:#16a34a;stroke-width:3}",
    ".removed rect{stroke:#dc2626;stroke-width:3}",
    ".changed rect{stroke:#d97706;stroke-width:3}",
    "path.added{stroke:#16a34a;stroke-width:3}",
    "path.removed{stroke:#dc2626;stroke-width:3;stroke-dasharray:5 3}",
    "path.changed{stroke:#d97706;stroke-width:3}",
    ".same{opacity:.55}",
)
STYLE = "".join(f".topology {rule}" for rule in _RULES)
"""The style sheet of a drawing; every rule holds for drawings alone, so that a page can hold it once for all."""

Marks: TypeAlias = Mapping[str | tuple[str, str], str]
"""What is said of nodes, and of edges as (source, target): ``added``, ``removed``, ``changed`` or ``same``."""


@dataclass(frozen=True, slots=True)
class _Box:
    title: str
    lines: tuple[str, ...]
    look: str

    @property
    def size(self) -> Point:
        letters = max([len(self.title) * _LETTER, *(len(line) * _SMALL for line in self.lines)])
        return max(48.0, letters + 22), 28.0 + 14 * len(self.lines)


def svg(
    topology: Topology,
    shape: Sequence[int] | None = None,
    *,
    marks: Mapping[str, Marks] | None = None,
    style: bool = True,
) -> str:
    """Return a self-contained SVG: nodes in layers from top to bottom, cells beside it, tooltips with all details.

    The text is escaped; nothing is fetched and nothing runs. A multiplicity stands at its edge as ``x2``, the parts of
    a ``concat`` are numbered; what lies on no path from input to output is faded.

    Args:
        topology: any, also a dead one.
        shape: of one sample; when given, each node of the network shows the shape that leaves it.
        marks: of the network's nodes and edges under ``""``, and of each cell's under its digest.
        style: whether the drawing holds ``STYLE``; without it, the page has to.

    Raises:
        ShapeError: the topology does not fit ``shape``.
        TopologyError: ``shape`` is given and the topology is dead, or holds what cannot be built.
    """
    cells = _cells(topology)
    letters = {key: letter for key, letter, *_ in cells}
    marks = marks or {}
    groups = [_group(topology, letters, "", {} if shape is None else infer(topology, shape), marks.get("", {}))]
    for key, letter, cell, times in cells:
        title = f"cell {letter}" + (f" \u00d7{times}" if times > 1 else "")
        groups.append(_group(cell, letters, title, {}, marks.get(key, {})))
    body: list[str] = []
    highest = max(height for _, _, height in groups)
    x, y, column = _MARGIN, _MARGIN, 0.0
    width = 0.0
    for number, (text, wide, high) in enumerate(groups):
        if number == 1 or (number > 1 and y + high > highest + _MARGIN):
            x, y, column = x + column + _MARGIN, _MARGIN, 0.0
        body.append(f'<g transform="translate({x:.1f} {y:.1f})">{text}</g>')
        y, column = y + high + _MARGIN, max(column, wide)
        width = max(width, x + column + _MARGIN)
    height = highest + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img"><title>{_escape(repr(topology))}</title>'
        f"{f'<style>{STYLE}</style>' if style else ''}"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10" markerHeight="10" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0.5L8 4L0 7.5z" fill="#64748b"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(body)}</svg>'
    )


def mermaid(topology: Topology) -> str:
    """Return the topology as a Mermaid flowchart; each cell is a subgraph, drawn once."""
    cells = _cells(topology)
    letters = {key: letter for key, letter, *_ in cells}
    lines = ["flowchart TD", *_flow(topology, letters, "n", "  ")]
    for _, letter, cell, _ in cells:
        lines += [f'  subgraph {letter}["cell {letter}"]', *_flow(cell, letters, f"{letter}_", "    "), "  end"]
    return "\n".join(lines) + "\n"


def _cells(topology: Topology) -> list[tuple[str, str, Topology, int]]:
    """Return (digest, letter, cell, uses) of each different cell, outermost first."""
    found: dict[str, Topology] = {}
    uses: Counter[str] = Counter()
    waiting = [topology]
    for outer in waiting:
        for node in outer.nodes.values():
            if isinstance(node, Topology):
                key = digest(node)
                uses[key] += 1
                if key not in found:
                    found[key] = node
                    waiting.append(node)
    return [(key, _letter(number), cell, uses[key]) for number, (key, cell) in enumerate(found.items())]


def _letter(number: int) -> str:
    """Return A, B, ... Z, AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = ascii_uppercase[rest] + text
    return text


def _box(node: Operation | Topology, letters: Mapping[str, str], shape: Sequence[int] | None) -> _Box:
    leaves = () if shape is None else ("\u00d7".join(map(str, shape)),)
    if isinstance(node, Topology):
        return _Box(f"cell {letters[digest(node)]}", leaves, "cell")
    rules = KINDS[node.kind].parameters
    shown = ", ".join(f"{key}={value}" for key, value in node.parameters if value != rules[key].default)
    return _Box(node.kind, (*textwrap.wrap(shown, 24)[:6], *leaves), node.kind)


def _group(
    topology: Topology, letters: Mapping[str, str], title: str, shapes: Mapping[str, Sequence[int]], marks: Marks
) -> tuple[str, float, float]:
    """Return the drawing of one graph, framed when it has a title, with its width and height."""
    boxes = {name: _box(node, letters, shapes.get(name)) for name, node in topology.nodes.items()}
    sizes = {
        name: (max(box.size[0], 26.0 * len(set(topology.sources[name]))), box.size[1]) for name, box in boxes.items()
    }
    found = layered(sizes, topology.edges, topology.order)
    form = normal(topology)
    live = frozenset[str]() if form.dead else {*form.nodes, *form.contracted}
    parts = [*_lines(topology, found, live, marks), *_boxes(topology, found, boxes, sizes, live, marks)]
    if not title:
        return "".join(parts), found.width, found.height
    pad, head = 16.0, 40.0
    width, height = max(found.width, len(title) * _LETTER) + 2 * pad, found.height + head + pad
    shift = (width - found.width) / 2
    return (
        (
            f'<rect width="{width:.1f}" height="{height:.1f}" rx="12" fill="#fffbf5" stroke="#fdba74"/>'
            f'<text class="t" x="{pad}" y="25">{_escape(title)}</text>'
            f'<g transform="translate({shift:.1f} {head})">{"".join(parts)}</g>'
        ),
        width,
        height,
    )


def _lines(topology: Topology, found: Layout, live: frozenset[str] | set[str], marks: Marks) -> Iterator[str]:
    for (source, target), points in found.routes.items():
        dead = "" if source in live and target in live else " dead"
        mark = f" {_escape(marks[source, target])}" if (source, target) in marks else ""
        yield f'<path class="l{dead}{mark}" d="{_curve(points)}" marker-end="url(#a)"/>'
    for (source, target), text in _marks(topology).items():
        x, y = found.routes[source, target][-1]
        yield f'<text class="e" x="{x + 9:.1f}" y="{y - 9:.1f}">{text}</text>'


def _marks(topology: Topology) -> dict[tuple[str, str], str]:
    """Return what is written at edges: multiplicities, and the places of the parts of a concat."""
    marks: dict[tuple[str, str], str] = {}
    for name, sources in topology.sources.items():
        if concatenates(topology.nodes[name]):
            for source in dict.fromkeys(sources):
                places = [str(slot) for slot, other in enumerate(sources, start=1) if other == source]
                marks[source, name] = ",".join(places)
        else:
            marks |= {(source, name): f"\u00d7{times}" for source, times in Counter(sources).items() if times > 1}
    return marks


def _boxes(
    topology: Topology,
    found: Layout,
    boxes: Mapping[str, _Box],
    sizes: Mapping[str, Point],
    live: frozenset[str] | set[str],
    marks: Marks,
) -> Iterator[str]:
    for name, box in boxes.items():
        (x, y), (width, height) = found.centres[name], sizes[name]
        fill, edge = _PALETTE.get(box.look, _OTHER)
        white = " w" if box.look in ("input", "output") else ""
        first = y + 4.5 - 7 * len(box.lines)
        lines = "".join(
            f'<text class="p{white}" x="{x:.1f}" y="{first + 14 * number:.1f}">{_escape(line)}</text>'
            for number, line in enumerate(box.lines, start=1)
        )
        yield (
            f'<g class="{_escape(" ".join(_looks(name, name in live, marks)))}" data-node="{_escape(name)}">'
            f"<title>{_escape(name)}: {_escape(_full(topology.nodes[name], box))}</title>"
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{14 if white else 7}" fill="{fill}" stroke="{edge}" stroke-width="1.5"/>'
            f'<text class="k{white}" x="{x:.1f}" y="{first:.1f}">{_escape(box.title)}</text>{lines}</g>'
        )


def _looks(name: str, live: bool, marks: Marks) -> list[str]:
    """Return the classes of a node."""
    return ["n", *([] if live else ["dead"]), *([marks[name]] if name in marks else [])]


def _full(node: Operation | Topology, box: _Box) -> str:
    if isinstance(node, Topology):
        return f"{box.title}, {len(node.nodes)} nodes"
    return f"{node.kind}({', '.join(f'{key}={value}' for key, value in node.parameters)})"


def _curve(points: Sequence[Point]) -> str:
    """Return a path that leaves and enters vertically."""
    text = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (then, below) in itertools.pairwise(points):
        middle = (y + below) / 2
        text += (
            f"L{then:.1f} {below:.1f}"
            if abs(x - then) < 0.05
            else f"C{x:.1f} {middle:.1f} {then:.1f} {middle:.1f} {then:.1f} {below:.1f}"
        )
    return text


def _escape(text: str) -> str:
    """Escape for XML, characters that XML does not allow replaced."""
    return html.escape(re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def _flow(topology: Topology, letters: Mapping[str, str], prefix: str, indent: str) -> Iterator[str]:
    keys = {name: f"{prefix}{number}" for number, name in enumerate(topology.nodes)}
    for name, node in topology.nodes.items():
        cell = isinstance(node, Topology)
        text = f"cell {letters[digest(node)]}" if isinstance(node, Topology) else str(node)
        opening, closing = ("[[", "]]") if cell else ("([", "])") if text in ("input", "output") else ("[", "]")
        yield f'{indent}{keys[name]}{opening}"{_mermaid(text)}"{closing}'
    marks = _marks(topology)
    for source, target in dict.fromkeys(topology.edges):
        mark = f'|"{marks[source, target]}"|' if (source, target) in marks else ""
        yield f"{indent}{keys[source]} -->{mark} {keys[target]}"


def _mermaid(text: str) -> str:
    """Escape for a quoted Mermaid label: entity codes for all but plain text."""
    return re.sub(r"[^\w \-=,.()]", lambda match: f"#{ord(match.group())};", text)
