"""NetCDF files: named variables, also in groups (``train/images``)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data import arrays
from detol.workers.data.raw import Array, Raw

MARKS = frozenset({"_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"})


def read(path: Path, variables: Mapping[str, str] | None, target: str | int | None) -> Raw:
    """Return the parts of a file; see :func:`detol.workers.data.arrays.read` for the names.

    Scale and offset of packed variables are applied; masked values become NaN, which features and labels may have.

    Raises:
        DataError: no NetCDF file, a damaged one, or no samples or labels in it.
    """
    import netCDF4

    try:
        with netCDF4.Dataset(str(path), "r") as file:
            held = dict(_variables(file, ""))
            shapes = {name: tuple(variable.shape) for name, variable in held.items()}

            def get(name: str) -> Array:
                variable = held[name]
                if variable.dtype != str and variable.dtype.itemsize == 1 and not MARKS & set(variable.ncattrs()):
                    variable.set_auto_mask(False)  # 255 is white, not netCDF's default for "never written"
                return _plain(variable[...])

            return arrays.read(path.stem, "netcdf", shapes, get, variables, target)
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
