"""The record of how raw rows become a network's input; it travels with an exported model as JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data.columns import Column, encode
from detol.workers.data.layout import Layout
from detol.workers.data.raw import Array, Frame

VERSION = 1


def record(
    layout: Layout | None,
    columns: tuple[Column, ...],
    raw_columns: tuple[str, ...],
    mean: Array,
    std: Array,
    x: Array,
) -> dict[str, Any]:
    """Return the JSON-able record of samples ``x``: ``layout`` for images and signals, ``columns`` for features."""
    return {
        "version": VERSION,
        "kind": layout.kind if layout else "features",
        "shape": [int(size) for size in x.shape[1:]],
        "dtype": str(x.dtype),
        "axes": layout.axes if layout else "nf",
        "source_shape": [int(size) for size in layout.shape] if layout else [len(raw_columns)],
        "raw_columns": list(raw_columns),
        "columns": [column.to_json() for column in columns],
        "names": [name for column in columns for name in column.names],
        "mean": mean.astype(np.float64).tolist(),
        "std": std.astype(np.float64).tolist(),
    }


def apply(record: Mapping[str, Any], rows: Array | Frame | Any, *, standardise: bool = False) -> Array:
    """Turn raw rows into what the data set that left this record holds in ``x``.

    Args:
        record: ``Dataset.preprocessing``, also after a round trip through JSON.
        rows: for features a data frame, a list of mappings from column to value, a mapping of columns, or an array
            whose columns stand in the order of the source, the target left out; else samples in the layout of the
            source, or channels first.
        standardise: whether to take off the mean and divide by the standard deviation too, as training does.

    Returns:
        (n, *shape), uint8 for images that are, else float32.

    Raises:
        DataError: a column that is not there, samples of another shape, or a record of another version.
    """
    if record.get("version") != VERSION:
        raise DataError(f"a preprocessing record must be of version {VERSION}, got {record.get('version')!r}")
    if record["kind"] == "features":
        columns = [Column.from_json(column) for column in record["columns"]]
        x = encode(columns, _frame(rows, list(record["raw_columns"])))
    else:
        x = np.asarray(rows)
        shape, source = tuple(record["shape"]), tuple(record["source_shape"])
        if x.shape[1:] == shape != source:  # already channels first
            x = np.ascontiguousarray(x, dtype=record["dtype"])
        else:
            x = Layout(record["kind"], record["axes"], source).arrange(x)
    if not standardise:
        return x
    mean, std = (np.asarray(record[name], np.float32) for name in ("mean", "std"))
    return np.ascontiguousarray((x.astype(np.float32) - mean) / std, dtype=np.float32)


def _frame(rows: Any, names: list[str]) -> Frame:
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        return rows.set_axis([str(name) for name in rows.columns], axis=1)
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise DataError(f"rows must be (n, {len(names)}), in the order {', '.join(names[:8])}; got {rows.shape}")
        return pd.DataFrame(rows, columns=names)
    if isinstance(rows, Mapping):
        return pd.DataFrame(dict(rows))
    return pd.DataFrame([dict(row) for row in rows])
