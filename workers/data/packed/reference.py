"""Arrays that live in a packed file: pickled, they are its path and hash, and not their bytes."""

from dataclasses import dataclass
from typing import Any

import numpy as np


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

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.reference is None:
            return np.asarray(self).__reduce_ex__(protocol)
        return restored, (self.reference, self.section)


def restored(reference: Reference, section: str) -> Any:
    """Return an array of a packed file again, in whatever process.

    Raises:
        DataError: the file is not there, or another one is.
    """
    from detol.workers.data.packed.reader import opened

    return opened(reference).array(section)
