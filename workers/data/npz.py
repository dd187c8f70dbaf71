"""NumPy archives: ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test``, ``y_test``."""

import shutil
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from detol.errors import DataError
from detol.workers.data import arrays
from detol.workers.data.lazy import BLOCK_BYTES, Selection, Sliced
from detol.workers.data.raw import Array, Raw
from detol.workers.data.spool import Spool

_LOCAL_HEADER = 30  # bytes of a member's header before its name (ZIP specification, 4.3.7)


def read(path: Path, variables: Mapping[str, str] | None, target: str | int | None, kept: Spool | None = None) -> Raw:
    """Return the parts of an archive. Nothing pickled is loaded: that could run code.

    Args:
        path: of the archive.
        variables: from role to name.
        target: name of the labels.
        kept: samples are read as they are wanted, where they lie; compressed ones, which can be read from their
            beginning alone, are unpacked into its folder first. ``None``: all are read now.

    Raises:
        DataError: no archive, a damaged one, pickled objects, or no samples or labels in it.
    """
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} must be a whole .npz archive, it is none or cut off; copy or save it again")
    try:
        with np.load(path, allow_pickle=False) as archive:
            held: dict[str, Array] = {}

            def get(name: str) -> Array:
                if name not in held:
                    held[name] = archive[name]
                return held[name]

            def lazy(name: str) -> Array | Selection:
                return _mapped(path, archive, name, kept) if kept and shapes[name] else get(name)

            shapes = {name: _shape(archive, name) for name in archive.files}
            return arrays.read(path.stem, "npz", shapes, get, variables, target, lazy if kept else None)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise DataError(f"{path} must be a whole .npz archive: {_line(error)}; copy or save it again") from None
    except ValueError as error:
        if "allow_pickle" in str(error) or "pickle" in str(error):
            raise DataError(
                f"{path} must hold plain arrays: pickled objects are not loaded, they could run code; save arrays of"
                " numbers of one shape"
            ) from None
        raise DataError(f"{path} must be a whole .npz archive: {_line(error)}; copy or save it again") from None


def _shape(archive: "np.lib.npyio.NpzFile", name: str) -> tuple[int, ...]:
    """Read an array's shape from its header alone."""
    try:
        with archive.zip.open(f"{name}.npy") as member:  # type: ignore[union-attr]
            version = np.lib.format.read_magic(member)
            reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            return tuple(reader(member)[0])
    except (KeyError, ValueError):
        return ()


def _mapped(path: Path, archive: "np.lib.npyio.NpzFile", name: str, kept: Spool) -> Selection:
    """Return the samples of a member as they lie in the archive, or in a copy where they are compressed."""
    member = archive.zip.getinfo(f"{name}.npy")  # type: ignore[union-attr]
    place, start = path, 0
    if member.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(member.header_offset)
            header = file.read(_LOCAL_HEADER)
        # The local header's name and extra field may differ in length from those of the directory.
        start = member.header_offset + _LOCAL_HEADER + sum(struct.unpack("<HH", header[26:30]))
    else:
        place = kept.path(".npy")
        with archive.zip.open(member) as packed, place.open("wb") as out:  # type: ignore[union-attr]
            shutil.copyfileobj(packed, out, BLOCK_BYTES)
    with place.open("rb") as file:
        file.seek(start)
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(file)
        offset = file.tell()
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
    order: Literal["F", "C"] = "F" if fortran else "C"
    held = np.memmap(place, dtype, "r", offset, tuple(shape), order)

    def get(rows: Any) -> Array:
        return np.array(held[rows])

    return Selection(Sliced(get, tuple(shape), dtype))


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
