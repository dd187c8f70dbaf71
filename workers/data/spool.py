"""What stays open while a source is read block by block: its files, and a folder for what must be unpacked first."""

import contextlib
import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path

from detol.workers.data.lazy import Selection, rows_at_once
from detol.workers.data.lazy_table import LazyFrame
from detol.workers.data.raw import Frame


class Spool(contextlib.ExitStack):
    """Closes the files and removes the folder at its end.

    Args:
        beside: where the folder is made, on its first use: it may become as large as the source is unpacked.
    """

    def __init__(self, beside: Path) -> None:
        super().__init__()
        self._beside = beside
        self._folder: Path | None = None
        self._numbers = itertools.count()

    def path(self, suffix: str) -> Path:
        """Return the path of a new file, not made yet."""
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix=".detol-spool-", dir=self._beside)
            self._folder = Path(self.enter_context(made))
        return self._folder / f"{next(self._numbers)}{suffix}"

    def texts(self, parts: Iterable[Frame]) -> LazyFrame:
        """Return blocks of text cells as one table of columns ``0``, ``1`` ..., laid down by columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(".parquet")
        with contextlib.ExitStack() as opened:
            writer = None
            for part in parts:
                names = [str(name) for name in part.columns]
                if writer is None:
                    schema = pa.schema([(name, pa.large_string()) for name in names])
                    writer = opened.enter_context(pq.ParquetWriter(path, schema))
                columns = [pa.array(part.iloc[:, place].to_list(), pa.large_string()) for place in range(len(names))]
                writer.write_table(pa.table(columns, schema=writer.schema))
        return LazyFrame(path)

    def table(self, x: Selection) -> LazyFrame:
        """Return samples (n, F) as a table of float64 columns ``c0``, ``c1`` ..., laid down by columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(".parquet")
        names = [f"c{number}" for number in range(x.shape[1])]
        step = rows_at_once(x.shape, x.dtype)
        with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
            for start in range(0, len(x), step):
                block = x.source.take(x.rows[start : start + step]).astype("float64")
                columns = [pa.array(block[:, number]) for number in range(len(names))]
                writer.write_table(pa.table(columns, names=names))
        return LazyFrame(path)
