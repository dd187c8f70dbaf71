"""HDF5 files: named data sets, also in groups (``train/images``)."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data import arrays
from detol.workers.data.lazy import Selection, Sliced
from detol.workers.data.raw import Array, Raw


def read(
    path: Path, variables: Mapping[str, str] | None, target: str | int | None, kept: ExitStack | None = None
) -> Raw:
    """Return the parts of a file; see :func:`detol.workers.data.arrays.read` for the names.

    Args:
        path: of the file.
        variables: from role to name.
        target: name of the labels.
        kept: keeps the file open, and its samples are read as they are wanted; ``None``: all are read now.

    Raises:
        DataError: no HDF5 file, a damaged one, or no samples or labels in it.
    """
    import h5py

    with _whole(path), ExitStack() as own:
        file = (kept or own).enter_context(h5py.File(path, "r"))
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

        def lazy(name: str) -> Array | Selection:
            held = file[name]
            return _sliced(held, path) if held.dtype.kind in "biuf" and held.ndim else get(name)

        return arrays.read(path.stem, "hdf5", shapes, get, variables, target, lazy if kept is not None else None)


def _sliced(held: Any, path: Path) -> Selection:
    def get(rows: Any) -> Array:
        with _whole(path):
            return np.asarray(held[rows])

    grain = held.chunks[0] if held.chunks else 1
    return Selection(Sliced(get, tuple(held.shape), held.dtype, grain))


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, KeyError, UnicodeDecodeError) as error:  # what h5py raises for a damaged file
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path} must be a whole HDF5 file: {first}; copy or save it again") from None
