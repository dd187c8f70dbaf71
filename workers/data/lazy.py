"""Samples that stay in their source and are read block by block: how data larger than memory are packed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from detol.workers.data.raw import Array

BLOCK_BYTES = 16 * 2**20
"""Bytes of samples that are read at once."""
DENSE = 4
"""Rows that a slice may hold for each one that is wanted; scattered ones are read by their numbers."""


class Source(Protocol):
    """Samples of one shape that can be read in part.

    Attributes:
        shape: (n, ...) of all of them.
        dtype: of a sample.
        grain: rows that are stored together (a chunk of HDF5): blocks are whole multiples of it.
    """

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    grain: int

    def take(self, rows: Array) -> Array:
        """Return the samples (k, ...) with these numbers (k,), k >= 1, ascending."""
        ...


class Sliced:
    """A source that is read by slices, or by ascending numbers of rows: what HDF5, NetCDF and memory maps allow.

    Args:
        get: returns the rows of a slice or of ascending numbers.
        shape: (n, ...).
        dtype: of what ``get`` returns.
        grain: rows that are stored together.
    """

    def __init__(
        self, get: Callable[[Any], Array], shape: tuple[int, ...], dtype: "np.dtype[Any]", grain: int = 1
    ) -> None:
        self._get, self.shape, self.dtype, self.grain = get, shape, dtype, grain

    def take(self, rows: Array) -> Array:
        """Return the samples with these numbers, ascending."""
        first, last = int(rows[0]), int(rows[-1]) + 1
        if last - first > DENSE * len(rows):
            return self._get(rows)
        block = self._get(slice(first, last))
        return block if len(rows) == last - first else block[rows - first]


class Selection:
    """Some rows of a source, ascending; takes the place of an array of samples until they are read.

    Args:
        source: of the samples.
        rows: their numbers there, ascending; ``None``: all.
    """

    __slots__ = ("rows", "source")

    def __init__(self, source: Source, rows: Array | None = None) -> None:
        self.source = source
        self.rows = np.arange(source.shape[0]) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, ...)."""
        return (len(self.rows), *self.source.shape[1:])

    @property
    def ndim(self) -> int:
        """Axes, that of the samples included."""
        return len(self.source.shape)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Type of a value."""
        return self.source.dtype

    def take(self, rows: Array) -> "Selection":
        """Return a part of it: positions in it, ascending."""
        return Selection(self.source, self.rows[rows])

    def __getitem__(self, rows: Array) -> Array:
        """Read the samples at some positions, ascending."""
        return self.source.take(self.rows[rows])


def rows_at_once(shape: tuple[int, ...], dtype: "np.dtype[Any]", grain: int = 1, size: int = 0) -> int:
    """Return how many rows of ``shape`` (n, ...) a block of ``size`` bytes (0: ``BLOCK_BYTES``) has, >= 1.

    A multiple of ``grain``, unless a block is smaller than that.
    """
    row = max(1, dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64)))
    rows = max(1, (size or BLOCK_BYTES) // row)
    return rows - rows % grain if rows >= grain else rows


def pieces(selections: Mapping[str, Selection]) -> Iterator[tuple[str, Array]]:
    """Yield (role, samples) until each role has had all of its rows, in order.

    Each source is read once, from its beginning to its end, whichever roles its rows belong to.
    """
    sources = {id(selection.source): selection.source for selection in selections.values()}
    for key, source in sources.items():
        roles = {role: found.rows for role, found in selections.items() if id(found.source) == key}
        step = rows_at_once(source.shape, source.dtype, source.grain)
        for start in range(0, source.shape[0], step):
            wanted = {role: _within(rows, start, start + step) for role, rows in roles.items()}
            union = np.sort(np.concatenate(list(wanted.values())))
            if not len(union):
                continue
            block = source.take(union)
            for role, rows in wanted.items():
                if len(rows):
                    yield role, block if len(rows) == len(union) else block[np.searchsorted(union, rows)]


def _within(rows: Array, start: int, stop: int) -> Array:
    first, last = np.searchsorted(rows, (start, stop))
    return rows[first:last]
