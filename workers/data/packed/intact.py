"""Whether the bytes of packed files are those that were packed: looked at once, remembered while a file is the same.

The verdict is a small file in the cache of this user; it says of which path, size, times and header it is. Only that a
file is whole is kept, so a damaged one is looked at again when it has been repaired.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from detol.errors import DataError
from detol.workers.data.dataset import Dataset
from detol.workers.data.packed import nodes
from detol.workers.data.packed.layout import Header, read_header
from detol.workers.data.packed.verify import sections

SETTLED = 2 * 10**9
"""Nanoseconds after a change within which another one may leave the same time of change: no verdict is kept then."""


def intact(dataset: Dataset) -> None:
    """Check every array of the packed files that a data set is read from against its hash.

    Args:
        dataset: from any source; one without packed files passes.

    Raises:
        DataError: which array of which file is damaged, or that it cannot be read.
    """
    for reference in sorted(nodes.references(dataset), key=lambda each: each.path):
        whole(nodes.place(reference))


def whole(path: Path) -> None:
    """Check every array of a packed file against its hash, unless that was done since it was last changed.

    Args:
        path: of the file.

    Raises:
        DataError: which array is damaged, or that the file cannot be read.
    """
    header = read_header(path)
    try:
        now, before = time.time_ns(), _facts(path, header)
        if _known(path) == before:
            return
        sections(path, header)
        same = before == _facts(path, header)
    except OSError as error:
        raise DataError(
            f"a packed file must be readable: {path}: {error.strerror or error}; copy it or pack the data again"
        ) from None
    if same and now - before["mtime_ns"] > SETTLED:
        _keep(path, before)


def verdict(path: Path) -> Path:
    """Return where the verdict on a file is kept: by host and path, beside the copies of packed files."""
    named = hashlib.sha256(f"{os.uname().nodename}:{path.resolve()}".encode(errors="surrogateescape")).hexdigest()
    return nodes.folder() / f"{named[:32]}.intact.json"


def _facts(path: Path, header: Header) -> dict[str, Any]:
    """Return what changes when a file does; the time of its inode tells a copy that kept the time of its content."""
    there = path.stat()
    return {
        "path": os.fsencode(path.resolve()).decode(errors="backslashreplace"),
        "size": there.st_size,
        "mtime_ns": there.st_mtime_ns,
        "ctime_ns": there.st_ctime_ns,
        "hash": header.hash,
    }


def _known(path: Path) -> Any:
    try:
        return json.loads(verdict(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _keep(path: Path, facts: dict[str, Any]) -> None:
    """Write a verdict, whole or not at all; where that fails, the file is looked at again next time."""
    place = verdict(path)
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".intact-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(facts, file)
            Path(name).replace(place)
        finally:
            Path(name).unlink(missing_ok=True)
