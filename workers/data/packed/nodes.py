"""Packed files on several nodes: read in place where their path is visible, else from one copy per node, by hash."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock

from detol.errors import DataError
from detol.workers.data.dataset import Dataset
from detol.workers.data.packed.layout import read_header
from detol.workers.data.packed.reference import Reference

CACHE = "DETOL_CACHE"
"""Environment variable: the folder of copies; by default ``$XDG_CACHE_HOME/detol`` or ``~/.cache/detol``."""
PIECE = 64 * 2**20
"""Bytes that are sent at once."""

Receive: TypeAlias = Callable[[Reference, int, bytes], None]
Call: TypeAlias = Callable[..., Any]


def folder() -> Path:
    """Return the folder of copies on this node."""
    given = os.environ.get(CACHE)
    if given:
        return Path(given) / "packs"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "detol" / "packs"


def copied(reference: Reference) -> Path:
    """Return where the copy of a file is on this node, if there is one."""
    return folder() / f"{reference.hash}.pack"


def place(reference: Reference) -> Path:
    """Return where a file is read on this node; makes the copy where one is asked for and the path is visible.

    Raises:
        DataError: it is neither visible nor copied.
    """
    path, copy = Path(reference.path), copied(reference)
    if reference.copy and not copy.exists() and path.exists():
        _fill(reference, pieces(path))
    if copy.exists() and (reference.copy or not path.exists()):
        return copy
    if path.exists():
        return path
    raise DataError(
        f"a packed file must be visible on each node, or copied there: {path} is not on {os.uname().nodename}, nor a"
        f" copy in {folder()}; put it on a shared file system"
    )


def lacks(reference: Reference) -> bool:
    """Return whether this node has a file neither at its path nor as a copy."""
    return not Path(reference.path).exists() and not copied(reference).exists()


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, a piece at a time."""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def receive(reference: Reference, start: int, piece: bytes) -> None:
    """Take a piece of a file on the node that lacks it, in order; the last one makes the copy, checked, visible.

    Raises:
        DataError: what came is not the file.
    """
    copy = copied(reference)
    part = copy.with_suffix(".part")
    if copy.exists():
        part.unlink(missing_ok=True)  # of another search, which sent the same file at the same time
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    # Never cut off: two searches may send the same file at once, and write the same bytes to the same places.
    with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
        file.seek(start)
        file.write(piece)
        if start + len(piece) < reference.size:
            return
        os.fsync(file.fileno())
    _checked(reference, part)
    part.replace(copy)


def send(reference: Reference, to: Receive) -> None:
    """Send a file, piece by piece, to a node: ``to`` calls :func:`receive` there."""
    start = 0
    for piece in pieces(Path(reference.path)):
        to(reference, start, piece)
        start += len(piece)


def _fill(reference: Reference, content: Iterator[bytes]) -> None:
    """Make the copy, once, whichever processes of this node want it."""
    copy = copied(reference)
    copy.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(copy.with_suffix(".lock")):
        if copy.exists():
            return
        handle, name = tempfile.mkstemp(dir=copy.parent, prefix=f".{reference.hash}-")
        part = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in content:
                    file.write(piece)
                os.fsync(file.fileno())
            _checked(reference, part)
            part.replace(copy)
        finally:
            part.unlink(missing_ok=True)


def _checked(reference: Reference, part: Path) -> None:
    """Refuse a copy that is not, byte by byte, the file.

    Raises:
        DataError: its header or an array has another hash.
    """
    from detol.workers.data.packed.verify import sections

    try:
        header = read_header(part)
        if header.hash != reference.hash:
            raise DataError(f"a copy must have the hash {reference.hash}, got {header.hash}: the file has changed")
        sections(part, header)
    except DataError:
        part.unlink(missing_ok=True)
        raise


def references(dataset: Dataset) -> set[Reference]:
    """Return the packed files that a data set is read from."""
    arrays = [array for part in dataset.splits().values() for array in (part.x, part.y)]
    found = (getattr(array, "reference", None) for array in arrays)
    return {reference for reference in found if reference is not None}


def shipped(dataset: Dataset) -> int:
    """Return about how many bytes a data set has that are sent to a worker: none of those in a packed file."""
    arrays = [array for part in dataset.splits().values() for array in (part.x, part.y)]
    return sum(array.nbytes for array in arrays if getattr(array, "reference", None) is None)


def spread(dataset: Dataset, names: Iterable[str], call: Call) -> int:
    """Send the packed files of a data set to the nodes that do not see them; return how many were sent.

    Args:
        dataset: on this node.
        names: of all nodes.
        call: runs a function with its arguments on a node, and returns what it returns.

    Raises:
        DataError: what came is not the file.
    """
    sent = 0
    for reference in references(dataset):
        for name in names:
            if call(name, lacks, reference):

                def to(known: Reference, start: int, piece: bytes, name: str = name) -> None:
                    call(name, receive, known, start, piece)

                send(reference, to)
                sent += 1
    return sent
