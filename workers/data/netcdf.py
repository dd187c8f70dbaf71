"""NetCDF files: named variables, also in groups (``train/images``)."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data import arrays
from detol.workers.data.lazy import Selection, Sliced, rows_at_once
from detol.workers.data.raw import Array, Raw

MARKS = frozenset({"_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"})


def read(
    path: Path, variables: Mapping[str, str] | None, target: str | int | None, kept: ExitStack | None = None
) -> Raw:
    """Return the parts of a file; see :func:`detol.workers.data.arrays.read` for the names.

    Scale and offset of packed variables are applied; masked values become NaN, which features and labels may have.

    Args:
        path: of the file.
        variables: from role to name.
        target: name of the labels.
        kept: keeps the file open, and its samples are read as they are wanted (twice: whether any is masked decides
            their type); ``None``: all are read now.

    Raises:
        DataError: no NetCDF file, a damaged one, or no samples or labels in it.
    """
    import netCDF4

    with _whole(path), ExitStack() as own:
        file = (kept or own).enter_context(netCDF4.Dataset(str(path), "r"))
        held = dict(_variables(file, ""))
        shapes = {name: tuple(variable.shape) for name, variable in held.items()}

        def ready(name: str) -> Any:
            variable = held[name]
            if variable.dtype != str and variable.dtype.itemsize == 1 and not MARKS & set(variable.ncattrs()):
                variable.set_auto_mask(False)  # 255 is white, not netCDF's default for "never written"
            return variable

        def get(name: str) -> Array:
            return _plain(ready(name)[...])

        def lazy(name: str) -> Array | Selection:
            variable = ready(name)
            numbers = variable.dtype != str and variable.dtype.kind in "biuf"
            return _sliced(variable, path) if numbers and variable.ndim and variable.shape[0] else get(name)

        return arrays.read(path.stem, "netcdf", shapes, get, variables, target, lazy if kept is not None else None)


def _sliced(variable: Any, path: Path) -> Selection:
    """Return the samples of a variable, of the type that all of them together have."""
    shape = tuple(int(size) for size in variable.shape)
    chunks = variable.chunking()
    grain = int(chunks[0]) if isinstance(chunks, list) else 1
    step = rows_at_once(shape, np.dtype(np.float64), grain)
    types = {_plain(variable[start : start + step]).dtype for start in range(0, shape[0], step)}
    dtype = np.dtype(np.result_type(*types))

    def get(rows: Any) -> Array:
        with _whole(path):
            return _plain(variable[rows]).astype(dtype, copy=False)

    return Selection(Sliced(get, shape, dtype, grain))


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # what netCDF4 raises for a damaged file
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path} must be a whole NetCDF file: {first}; copy or save it again") from None


def _variables(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, variable in group.variables.items():
        yield prefix + name, variable
    for name, inner in group.groups.items():
        yield from _variables(inner, f"{prefix}{name}/")


def _plain(values: Any) -> Array:
    """Return a masked array as a plain one, text of single characters as strings."""
    import netCDF4

    if np.ma.is_masked(values) and values.dtype.kind in "iuf":
        return np.asarray(values.astype(np.promote_types(values.dtype, np.float32)).filled(np.nan))
    data = np.ma.getdata(values)
    if data.dtype.kind == "S":
        return np.asarray(netCDF4.chartostring(data, encoding="utf-8") if data.ndim > 1 else data)
    return np.asarray(data)
