"""A table that stays in a Parquet file: a column at a time to learn from, a block of rows at a time to encode."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data.raw import Array, Frame


class LazyFrame:
    """Rows and columns of a Parquet file, in the place of a data frame: what reading a table asks of one.

    Blocks are its row groups; only one is held at a time, and of whole columns only the one that is asked for.

    Args:
        path: of the file.
        names: of the columns that are seen, by their names in the file; ``None``: all under their own.
        rows: ascending numbers of rows in the file; ``None``: all.
        skipped: rows at the head of the file that are none of the table: labels count from behind them.
    """

    def __init__(
        self, path: Path, names: dict[str, str] | None = None, rows: Array | None = None, skipped: int = 0
    ) -> None:
        import pyarrow.parquet as pq

        self._path, self._skipped = path, skipped
        self._file = pq.ParquetFile(path)
        groups = [self._file.metadata.row_group(number).num_rows for number in range(self._file.num_row_groups)]
        self._bounds = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)])
        if names is None:
            names = {column: str(column) for column in self._file.schema_arrow.empty_table().to_pandas().columns}
        self._names = names
        self._held = {seen: held for held, seen in names.items()}
        self._rows = np.arange(skipped, self._bounds[-1]) if rows is None else rows
        self._types: dict[str, Any] = {}
        self._latest: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._held)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, columns."""
        return len(self._rows), len(self._held)

    @property
    def nested(self) -> list[str]:
        """Names of the columns whose cells are lists or records."""
        import pyarrow.types as types

        schema = self._file.schema_arrow
        return [seen for held, seen in self._names.items() if types.is_nested(schema.field(held).type)]

    def take(self, rows: Array) -> "LazyFrame":
        """Return the table with these rows only: positions, ascending."""
        return self._like(self._names, self._rows[rows])

    def drop(self, columns: str) -> "LazyFrame":
        """Return the table without a column."""
        return self._like({held: seen for held, seen in self._names.items() if seen != columns}, self._rows)

    def called(self, names: Sequence[str], skipped: int = 0) -> "LazyFrame":
        """Return the table under other names of its columns, without so many rows at its head."""
        return LazyFrame(self._path, dict(zip(self._names, names, strict=True)), self._rows[skipped:], skipped)

    def select(self, names: Sequence[str]) -> "LazyFrame":
        """Return the table with these columns, in this order."""
        return self._like({self._held[name]: name for name in names}, self._rows)

    def __getitem__(self, name: str) -> Any:
        """Read a whole column, a pandas series; its labels are numbers of rows of the table."""
        held = self._held[name]
        series = self._latest.get(held)
        if series is None:  # the splits of a table ask for a column one after the other
            with self._whole():
                series = _moments(self._file.read(columns=[held]).to_pandas()[held].reset_index(drop=True))
            self._latest.clear()
            self._latest[held] = series
        self._types[name] = series.dtype  # before rows are chosen: of all of the file
        series = series.iloc[self._rows].rename(name)
        series.index = series.index - self._skipped
        return series

    def head(self, count: int) -> Frame:
        """Read the first rows."""
        return self.block(np.arange(min(count, len(self))))

    def block(self, rows: Array) -> Frame:
        """Read the rows at some positions, ascending, as a data frame."""
        return self._read(self._rows[rows])

    def blocks(self) -> Iterator[Frame]:
        """Yield all rows as data frames, in order; one without rows when there are none."""
        for first, last in zip(self._bounds, self._bounds[1:], strict=False):
            start, stop = np.searchsorted(self._rows, (first, last))
            if stop > start:
                yield self._read(self._rows[start:stop])

    def _read(self, rows: Array) -> Frame:
        import pandas as pd

        groups = np.searchsorted(self._bounds, rows, side="right") - 1
        parts = []
        for group in np.unique(groups).tolist():
            with self._whole():
                table = self._file.read_row_group(group, columns=list(self._names))
            frame = table.to_pandas().reset_index(drop=True)[list(self._names)]
            parts.append(frame.iloc[rows[groups == group] - self._bounds[group]])
        frame = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0].reset_index(drop=True)
        for held in frame.columns:
            frame[held] = self._typed(_moments(frame[held]), self._names[held])
        frame = frame.set_axis([self._names[held] for held in frame.columns], axis=1)
        return frame.set_axis(rows - self._skipped, axis=0)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # pyarrow raises a family of its own, and OSError
            raise DataError(f"{self._path} must be a whole Parquet file: {str(error).splitlines()[0][:200]}") from None

    def _typed(self, series: Any, name: str) -> Any:
        """Give a block's column the type of the whole one: whole numbers with holes are floats, for one."""
        if name not in self._types:
            self._types[name] = self[name].dtype
        return series.astype(self._types[name])

    def _like(self, names: dict[str, str], rows: Array) -> "LazyFrame":
        made = LazyFrame(self._path, names, rows, self._skipped)
        made._types, made._latest = self._types, self._latest
        return made


class Matrix:
    """Columns of numbers of a lazy table as samples (n, F), float64: signals and images that stand in rows.

    Args:
        frame: of the numbers.
        values: makes float64 (k, F) of a data frame.
    """

    grain = 1

    def __init__(self, frame: LazyFrame, values: Any) -> None:
        self._frame, self._values = frame, values
        self.shape: tuple[int, ...] = frame.shape
        self.dtype = np.dtype(np.float64)

    def take(self, rows: Array) -> Array:
        """Return the samples with these numbers, ascending."""
        found: Array = self._values(self._frame.block(rows))
        return found


def _moments(series: Any) -> Any:
    """Return dates as moments in time."""
    import datetime

    import pandas as pd

    index = series.first_valid_index()
    value = None if index is None else series.loc[index]
    return pd.to_datetime(series) if isinstance(value, datetime.date) else series
