"""HDF5 files: named data sets, also in groups (``train/images``)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from detol.errors import DataError
from detol.workers.data import arrays
from detol.workers.data.raw import Array, Raw


def read(path: Path, variables: Mapping[str, str] | None, target: str | int | None) -> Raw:
    """Return the parts of a file; see :func:`detol.workers.data.arrays.read` for the names.

    Raises:
        DataError: no HDF5 file, a damaged one, or no samples or labels in it.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            shapes: dict[str, tuple[int, ...]] = {}

            def note(name: str, item: object) -> None:
                if isinstance(item, h5py.Dataset) and item.shape is not None:
                    shapes[name] = tuple(item.shape)

            file.visititems(note)

            def get(name: str) -> Array:
                held = file[name]
                if held.dtype.names:
                    raise DataError(f"{name!r} of {path} must be a plain array, it has fields; write x and y apart")
                return np.asarray(held.asstr("utf-8")[()] if h5py.check_string_dtype(held.dtype) else held[()])

            return arrays.read(path.stem, "hdf5", shapes, get, variables, target)
    except (OSError, RuntimeError, KeyError, UnicodeDecodeError) as error:  # what h5py raises for a damaged file
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path} must be a whole HDF5 file: {first}; copy or save it again") from None
