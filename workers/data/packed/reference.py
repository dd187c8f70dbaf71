"""Arrays that live in a packed file: pickled, they are its path and hash, and not their bytes."""

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np

from detol.workers.data.raw import Array

GAP = 32
"""Pages between two rows that are read along rather than asked for apart."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A packed file, for whoever has to find it on another machine.

    Args:
        path: absolute, where it was opened.
        hash: of its header, which has those of all arrays.
        size: bytes.
        copy: whether it is to be read from a copy on each node.
    """

    path: str
    hash: str
    size: int
    copy: bool = False


class Mapped(np.memmap[Any, Any]):
    """A whole array of a packed file, read-only, loaded by the operating system where it is looked at.

    Attributes:
        reference: of the file; ``None`` for what was computed or cut from it, which is pickled as any array.
        section: name of the array.
    """

    reference: Reference | None = None
    section: str = ""

    def __array_finalize__(self, obj: Any) -> None:
        super().__array_finalize__(obj)
        self.reference, self.section = None, ""

    def will_need(self, rows: Array) -> None:
        """Tell the operating system which rows, ascending, are wanted soon: it reads them all at once, not in turn."""
        region: object = self.base
        if self.reference is None or not len(rows) or not isinstance(region, mmap.mmap):
            return
        for start, stop in stretches(rows, self.strides[0], self.offset % mmap.ALLOCATIONGRANULARITY):
            region.madvise(mmap.MADV_WILLNEED, start * mmap.PAGESIZE, (stop - start) * mmap.PAGESIZE)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.reference is None:
            return np.asarray(self).__reduce_ex__(protocol)
        return restored, (self.reference, self.section)


def stretches(rows: Array, size: int, offset: int) -> list[tuple[int, int]]:
    """Return the pages (first, last + 1) of a map in which rows lie, those in between along where they are few.

    Args:
        rows: their numbers, ascending, at least one.
        size: bytes of a row.
        offset: of row 0 in the map.
    """
    places = offset + rows.astype(np.int64) * size
    first, stop = places // mmap.PAGESIZE, (places + size - 1) // mmap.PAGESIZE + 1
    breaks = np.flatnonzero(first[1:] > stop[:-1] + GAP)
    starts, stops = first[np.r_[0, breaks + 1]], stop[np.r_[breaks, len(rows) - 1]]
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def restored(reference: Reference, section: str) -> Any:
    """Return an array of a packed file again, in whatever process.

    Raises:
        DataError: the file is not there, or another one is.
    """
    from detol.workers.data.packed.reader import opened

    return opened(reference).array(section)
