"""Packing a data set: from any source to one file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detol.errors import DataError, unknown
from detol.workers.data.options import checked
from detol.workers.data.packed.layout import read_header
from detol.workers.data.packed.reader import SUFFIX, Pack, defaults, is_pack, normal, opened
from detol.workers.data.packed.reference import Reference
from detol.workers.data.packed.writer import Progress, Writer
from detol.workers.data.raw import Array
from detol.workers.data.reading import streamed
from detol.workers.data.spool import Spool


def pack(
    source: "str | os.PathLike[str] | Mapping[str, Array]",
    to: "str | os.PathLike[str]",
    *,
    encoded: bool = False,
    replace: bool = False,
    progress: Progress | None = None,
    **given: Any,
) -> Pack:
    """Read, split and measure a data set, and write it into one file that is mapped into memory and not loaded.

    Sources are read block by block, so that they may be larger than memory: folders of images decoded in threads, HDF5
    and NetCDF by slices, ``.npz`` in place or, where compressed, unpacked beside the file first, CSV laid down by
    columns beside it first, Parquet by row group. Held at once are the labels, the numbers of the rows, and of a table
    one column; built-in sets and mappings of arrays are in memory anyway.

    Args:
        source: as for :func:`detol.workers.data.read`.
        to: the file, ``*.pack``. It appears when it is whole; whatever fails leaves nothing behind.
        encoded: whether the images of a folder stay encoded as they are in their files, to be decoded in threads when
            they are read: smaller, and slower. Else they are decoded now.
        replace: whether a file that is there already may be replaced.
        progress: told (samples written, samples in all).
        given: other options of :func:`detol.workers.data.read`; the file is split and encoded by them for good.

    Raises:
        DataError: whatever is wrong with the source, the options or the place, in one line.
    """
    path, usual = Path(to), defaults()
    for name in given:
        if name not in usual:
            raise unknown("option of data", name, usual, DataError)
    given = checked({**usual, **given})
    _place(path, replace=replace)
    if is_pack(source):
        raise DataError(f"what is packed must not be packed yet: {source} is; copy it, or pack its source again")
    if encoded and (isinstance(source, Mapping) or not Path(source).is_dir()):
        raise DataError(f"only a folder of images can stay encoded, {source} is none: leave --encoded out")
    try:
        with Spool(path.parent) as spool, Writer(path, spool, encoded=encoded, progress=progress) as writer:
            dataset = streamed(source, spool, writer, **given)
            writer.finish(dataset, normal(given))
    except OSError as error:
        raise DataError(
            f"a packed file must be writable: {path}: {error.strerror or error}; free space, or name another place"
        ) from None
    return opened(Reference(str(path.resolve()), read_header(path).hash, path.stat().st_size))


def _place(path: Path, *, replace: bool) -> None:
    if path.suffix != SUFFIX:
        raise DataError(f"a packed file is told by its ending: {path.name!r} must end in {SUFFIX}; rename it")
    if not path.parent.is_dir():
        raise DataError(f"the folder of a packed file must be there: {path.parent} is not; make it first")
    if path.is_dir() or (path.exists() and not replace):
        raise DataError(f"a packed file must be new: {path} is there already; name another, or --replace it")
