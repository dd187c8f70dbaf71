"""A topology, drawn where a notebook shows it."""

import base64
from collections.abc import Sequence

from detol.errors import TopologyError
from detol.graph.topology import Topology


class Drawing:
    """The picture of a topology: a notebook shows it inline, and ``save`` writes it to a file.

    Args:
        topology: what is drawn.
        shape: of one sample, so that each node shows the shape that leaves it; left out where it does not fit.
        title: what it is a picture of, where it cannot be seen.
    """

    def __init__(self, topology: Topology, shape: Sequence[int] | None = None, title: str = "") -> None:
        from detol.graph.draw import svg

        self.topology, self.title = topology, title or f"a topology of {len(topology.nodes)} nodes"
        try:
            self.svg = svg(topology, shape)
        except TopologyError:  # a space of a table's symbols, say: there is a graph, and nothing that can be built
            self.svg = svg(topology)

    def save(self, path: str) -> None:
        """Write the picture as SVG."""
        from pathlib import Path

        Path(path).write_text(self.svg)

    def image(self, height: int) -> str:
        """Return an HTML image at most so many pixels high, whose styles and ids touch nothing else on the page."""
        from html import escape

        data = base64.b64encode(self.svg.encode()).decode()
        return (
            f'<img alt="{escape(self.title)}" src="data:image/svg+xml;base64,{data}" '
            f'style="max-height:{height}px;max-width:100%">'
        )

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        """Return what a notebook without pictures shows."""
        return f"<drawing of {self.title}>"
