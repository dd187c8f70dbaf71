"""A pool of candidates as arrays, and how far they are from each other.

A small space is laid out as a whole, once in a process, and shared by all strategies that search it. A large space
has a pool in each strategy, which grows.
"""

import contextlib
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from detol.embedding.features import is_path_statistic
from detol.embedding.graph_features import BUCKETS, Floats
from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Decisions
from detol.strategies.guided.encoder import CLOSED, Encoder
from detol.strategies.guided.view import View

WHOLE = 20_000
"""Spaces of up to so many decision sequences are laid out as a whole."""
COLUMNS = 512
"""Of a whole space, so many columns of distances are remembered."""


class Pool:
    """Rows of decisions; a row once added keeps its number.

    Args:
        space: what the decisions belong to.
        embedding: see :class:`detol.strategies.guided.encoder.Encoder`; ``either`` has two views of the graphs, as by
            ``off`` and as by ``paths``.

    Attributes:
        rows: the decisions, by number.
        whole: whether the rows are all there are.
    """

    def __init__(self, space: SearchSpace, embedding: str = "off") -> None:
        self.rows: list[Decisions] = []
        self.whole = False
        self._space = space
        self._encoder = Encoder(space, embedding)
        self._place: dict[Decisions, int] = {}
        self._names: dict[str, int] = {}
        self._options = np.full((256, len(self._encoder.columns)), CLOSED, np.float32)
        self._patterns = np.zeros((256, BUCKETS), np.float32)
        self._figures = np.zeros((256, 0), np.float32)
        self._vectors = np.zeros((256, 0), np.float32)
        self._views: list[View] = []
        self._settled = 0  # rows that the views are of
        self._known: OrderedDict[int, tuple[Floats, tuple[Floats, ...]]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    @property
    def views(self) -> int:
        """How many views of its graphs it has."""
        return 2 if self._encoder.embedding == "either" else 1

    @property
    def width(self) -> int:
        """How many choices a row has."""
        return len(self._encoder.columns)

    def place(self, decisions: Decisions) -> int | None:
        """Return the number of the row, or ``None``."""
        return self._place.get(decisions)

    def add(self, many: Iterable[Decisions]) -> list[int]:
        """Return the rows of decisions, those that are new added; call :meth:`settle` before distances are asked for.

        Raises:
            SpaceError: the space cannot decode some.
        """
        return [self._add(decisions) for decisions in many]

    def lay_out(self) -> None:
        """Add all that the space has, which is then the whole; settled.

        Learned vectors are made in one go, in a tenth of the time. (Rows that come singly get them singly: the last
        digits depend on what is beside them, and a search that is replayed adds the same rows in other parts.)
        """
        every = list(dict.fromkeys(self._space.enumerate()))
        topologies = [self._space.decode(decisions) for decisions in every]
        for decisions, topology, vector in zip(every, topologies, self._encoder.vectors(topologies), strict=True):
            self._put(decisions, topology, vector)
        self.settle()
        self.whole = True

    def _add(self, decisions: Decisions) -> int:
        found = self._place.get(decisions)
        if found is not None:
            return found
        topology = self._space.decode(decisions)
        return self._put(decisions, topology, self._encoder.vectors([topology])[0])

    def _put(self, decisions: Decisions, topology: Topology, vector: Floats) -> int:
        options = self._encoder.options(decisions)
        patterns, figures = self._encoder.graph(topology)
        row = len(self.rows)
        for name in figures:
            self._names.setdefault(name, len(self._names))
        self._make_room(row, len(vector))
        self._vectors[row] = vector
        self._options[row, : len(options)] = options
        self._patterns[row] = patterns
        for name, value in figures.items():
            self._figures[row, self._names[name]] = value
        self.rows.append(decisions)
        self._place[decisions] = row
        return row

    def _make_room(self, row: int, learned: int) -> None:
        tall = len(self._options) if row < len(self._options) else max(256, 2 * row)
        self._options = _grown(self._options, tall, len(self._encoder.columns), CLOSED)
        self._patterns = _grown(self._patterns, tall, BUCKETS, 0.0)
        self._figures = _grown(self._figures, tall, len(self._names), 0.0)
        self._vectors = _grown(self._vectors, tall, learned, 0.0)

    def settle(self) -> None:
        """Bring means, spreads and lengths up to date with the rows."""
        count, embedding = len(self.rows), self._encoder.embedding
        if self._settled == count:
            return
        self._known.clear()
        figures, patterns = self._figures[:count], self._patterns[:count]
        self._views = []
        if embedding in ("off", "either"):
            plain = [not is_path_statistic(name) for name in self._names]
            self._views.append(View(patterns, figures[:, np.flatnonzero(plain)]))
        if embedding != "off":
            self._views.append(View(patterns, figures, self._vectors[:count], wide=True))
        self._settled = count

    def compact(self, rows: Iterable[int]) -> dict[int, int]:
        """Keep some rows of a growing pool alone; return their new numbers by the old ones. Settles the pool."""
        old = list(dict.fromkeys(rows))
        places = np.asarray(old, np.intp)
        self._options, self._patterns = self._options[places], self._patterns[places]
        self._figures, self._vectors = self._figures[places], self._vectors[places]
        self.rows = [self.rows[row] for row in old]
        self._place = {decisions: row for row, decisions in enumerate(self.rows)}
        self._settled = 0
        self.settle()
        return {row: number for number, row in enumerate(old)}

    def inputs(self, rows: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Return options and figures side by side, as they are: float32 (rows, columns); columns may be added later."""
        places = np.asarray(rows, np.intp)
        return np.hstack([self._options[places], self._figures[places]])

    def hamming(self, left: NDArray[np.intp], right: NDArray[np.intp] | slice) -> Floats:
        """Return in [0, 1] the share of choices that differ; of an ordered choice how far, in steps of its range."""
        a, b = self._options[left].T, self._options[: len(self.rows)][right].T
        ordered = np.asarray(self._encoder.ordered, bool)
        # Numbers of options as short integers: they are compared and counted in a fifth of the time.
        short = np.int16 if self._options.max(initial=0) < 2**15 else np.int32
        apart = np.zeros((a.shape[1], b.shape[1]), np.uint16)
        for x, y in zip(a[~ordered].astype(short), b[~ordered].astype(short), strict=True):
            apart += x[:, None] != y
        total = apart.astype(np.float32)
        for x, y in zip(a[ordered], b[ordered], strict=True):
            # Places are in [0, 1] and ``CLOSED`` is -1: what is open on one side alone differs by 1 or more.
            total += np.minimum(np.abs(x[:, None] - y), np.float32(1))
        return total / np.float32(max(1, len(ordered)))

    def structural(self, left: NDArray[np.intp], right: NDArray[np.intp] | slice, view: int = 0) -> Floats:
        """Return squared distances of the graphs, 1 on average over the pool."""
        return self._views[view].structural(left, right)

    def linear(self, left: NDArray[np.intp], right: NDArray[np.intp] | slice, view: int = 0) -> Floats:
        """Return inner products of the standardised figures, divided by their number."""
        return self._views[view].linear(left, right)

    @property
    def figures(self) -> Floats:
        """The first view's figures, standardised, divided by the root of their number: float32 (rows, figures)."""
        return self._views[0].figures

    def linear_lengths(self) -> Sequence[Floats]:
        """Return the linear kernel of each row with itself, float32 (rows,), for each view."""
        return [np.asarray(np.einsum("ij,ij->i", view.figures, view.figures), np.float32) for view in self._views]

    def distances(
        self, left: Sequence[int] | NDArray[np.intp], right: NDArray[np.intp]
    ) -> tuple[Floats, tuple[Floats, ...]]:
        """Return Hamming distances of some rows to others, and the structural ones in each view.

        To a whole space they are remembered.
        """
        if not self.whole or len(right) < len(self.rows):
            places = np.asarray(left, np.intp)
            return self.hamming(places, right), tuple(view.structural(places, right) for view in self._views)
        for row in left:
            if row not in self._known:
                # One row at a time: the last digits of a matrix product depend on its shape, and whether a row is
                # remembered depends on what else runs in this process.
                place = np.asarray([row], np.intp)
                seen = tuple(view.structural(place, slice(None))[0] for view in self._views)
                self._known[row] = self.hamming(place, slice(None))[0], seen
        for row in left:
            self._known.move_to_end(row)
        known = [self._known[row] for row in left]
        seen = tuple(np.stack([apart[1][view] for apart in known]) for view in range(self.views))
        answer = np.stack([apart[0] for apart in known]), seen
        while len(self._known) > COLUMNS:
            self._known.popitem(last=False)
        return answer


_WHOLE: "weakref.WeakKeyDictionary[SearchSpace, dict[str, Pool]]" = weakref.WeakKeyDictionary()


def pool_of(space: SearchSpace, embedding: str = "off") -> Pool:
    """Return the shared pool of a small space, all rows laid out; of another space a new and empty pool."""
    if space.size is None or space.size > WHOLE:
        return Pool(space, embedding)
    known: dict[str, Pool] = {}
    with contextlib.suppress(TypeError):  # a space that can be no key
        known = _WHOLE.setdefault(space, known)
    if embedding not in known:
        found = Pool(space, embedding)
        found.lay_out()
        known[embedding] = found
    return known[embedding]


def _grown(array: Floats, tall: int, wide: int, fill: float) -> Floats:
    if array.shape[0] >= tall and array.shape[1] >= wide:
        return array
    larger = np.full((max(tall, array.shape[0]), max(wide, array.shape[1])), fill, np.float32)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
