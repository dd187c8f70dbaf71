"""NumPy archives: ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test``, ``y_test``."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from detol.errors import DataError
from detol.workers.data import arrays
from detol.workers.data.raw import Array, Raw


def read(path: Path, variables: Mapping[str, str] | None, target: str | int | None) -> Raw:
    """Return the parts of an archive. Nothing pickled is loaded: that could run code.

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

            shapes = {name: _shape(archive, name) for name in archive.files}
            return arrays.read(path.stem, "npz", shapes, get, variables, target)
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


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
