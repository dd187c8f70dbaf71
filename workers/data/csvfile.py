"""Reading a CSV file as text: separator, header and row lengths are found or checked, nothing is guessed silently."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from detol.errors import DataError
from detol.workers.data.columns import absent
from detol.workers.data.lazy_table import LazyFrame
from detol.workers.data.raw import Frame
from detol.workers.data.spool import Spool

CELLS = 2**20  # of a table that is laid down by columns, at once
HEADERS = ("auto", "yes", "none")
SEPARATORS = (",", ";", "\t", "|")


def read(
    path: Path, header: str, names: list[str] | None, kept: Spool | None = None
) -> tuple[Frame | LazyFrame, list[str]]:
    """Return all cells as text without surrounding spaces, under the header's names or ``c0``, ``c1`` ...

    Args:
        path: UTF-8 text, may be gzipped.
        header: ``auto``, ``yes`` or ``none``.
        names: of the columns of the file that this one belongs to; a first row that equals them is its header.
        kept: the cells are laid down by columns in its folder, and read as they are wanted; ``None``: all are held.

    Raises:
        DataError: rows of different lengths, a name twice, text that is not UTF-8, or no rows.
    """
    separator = _separator(path)
    _even(path, separator)
    cells = _cells(path, separator, kept)
    first = [str(cell) for cell in cells.head(1).iloc[0]]
    notes = [] if separator == "," else [f"cells are separated by {separator!r}"]
    if names is not None:
        named = header == "yes" or (
            header == "auto" and (first == names or bool(_headed(cells) and set(first) & set(names)))
        )
        columns = first if named else names
        if not named and len(names) != cells.shape[1]:
            raise DataError(f"{path} must have {len(names)} columns like its training file, it has {cells.shape[1]}")
    else:
        named = header == "yes" or (header == "auto" and _headed(cells))
        columns = first if named else [f"c{number}" for number in range(cells.shape[1])]
    if not named and names is None:
        notes.append("no header found: columns are called c0, c1 ...; --header yes takes the first row")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"each column needs a name of its own: {path} has {twice[0]!r} twice; rename one")
    return _without_index(_called(cells, columns, named=named), notes)


def _cells(path: Path, separator: str, kept: Spool | None) -> Frame | LazyFrame:
    """Return the cells as they stand, the header's too; columns are called by their numbers."""
    import pandas as pd

    how: dict[str, Any] = {"sep": separator, "header": None, "dtype": str, "keep_default_na": False}
    how |= {"skipinitialspace": True, "encoding": "utf-8-sig"}
    try:
        if kept is None:
            return pd.read_csv(path, **how).apply(lambda column: column.str.strip())
        with pd.read_csv(path, **how, iterator=True) as reader:
            parts = (part.apply(lambda column: column.str.strip()) for part in _parts(reader))
            return kept.texts(parts)
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None


def _parts(reader: Any) -> Iterator[Frame]:
    """Yield the rows of a file in blocks of about ``CELLS`` cells."""
    part = reader.get_chunk(1)
    while True:
        yield part
        try:
            part = reader.get_chunk(max(1, CELLS // part.shape[1]))
        except StopIteration:
            return


def _called(cells: Frame | LazyFrame, columns: list[str], *, named: bool) -> Frame | LazyFrame:
    """Return the rows below the header, under the names of their columns."""
    if isinstance(cells, LazyFrame):
        return cells.called(columns, skipped=int(named))
    frame = cells.iloc[1:].reset_index(drop=True) if named else cells
    frame.columns = columns
    return frame


def _separator(path: Path) -> str:
    with _text(path) as file:
        lines = [line for line, _ in zip(file, range(50), strict=False) if line.strip()]
        widths = {sep: [len(row) for row in csv.reader(lines, delimiter=sep)] for sep in SEPARATORS}
    if not lines:
        raise DataError(f"a table needs rows: {path} is empty")
    # Most rows agree on more than one cell: the true separator. Ragged rows are told later, with their number.
    scores = {sep: sum(w == width[0] for w in width) * (width[0] > 1) for sep, width in widths.items()}
    return max(SEPARATORS, key=lambda sep: (scores[sep], widths[sep][0]))


def _even(path: Path, separator: str) -> None:
    """Refuse rows of different lengths, which pandas would fill up."""
    with _text(path) as file:
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
        width = 0
        for row in reader:
            if len(row) < 2 and not "".join(row).strip():
                continue  # a blank line
            width = width or len(row)
            if len(row) != width:
                raise DataError(
                    f"all rows of a table must have as many cells: line {reader.line_num} of {path} has {len(row)}, the"
                    f" first has {width}; mend that line"
                )


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """Open a text, gzipped or not; what cannot be read is a :class:`DataError`."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="")
        ) as file:
            yield file
    except (UnicodeDecodeError, OSError, EOFError, zlib.error, csv.Error) as error:
        raise _unreadable(path, error) from None


def _headed(cells: Frame | LazyFrame) -> bool:
    """Return whether the first row names columns.

    It does when no cell of it is missing, twice or a number (or all are the numbers of their columns), and below it a
    column is of numbers, or no cell of it occurs again in its column.
    """
    head = cells.head(1001)
    first = [str(cell) for cell in head.iloc[0]]
    if len(cells) < 2 or len(set(first)) < len(first) or any(not cell for cell in first[1:]):
        return False
    if len(first) > 3 and first in ([str(n) for n in range(len(first))], ["", *map(str, range(len(first) - 1))]):
        return True
    if any(_number(cell) for cell in first) or any(absent(head.iloc[0])[1:]):
        return False
    head = head.iloc[1:]
    numeric = any(
        all(_number(cell) for cell in head.iloc[:, position][~absent(head.iloc[:, position])].tolist())
        for position in range(len(first))
    )
    names = list(cells.columns)
    return numeric or not any(cell in set(cells[names[place]].iloc[1:]) for place, cell in enumerate(first))


def _number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _without_index(frame: Frame | LazyFrame, notes: list[str]) -> tuple[Frame | LazyFrame, list[str]]:
    """Drop the row numbers that pandas writes as a first column without a name."""
    first = str(frame.columns[0])
    if first in ("", "Unnamed: 0") and frame.shape[1] > 1:
        return frame.drop(columns=first), [*notes, "first column has no name: taken as row numbers and left out"]
    return frame, notes


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, UnicodeDecodeError):
        return DataError(f"a table must be UTF-8 text: {path} is not; convert it, e.g. iconv -f latin1 -t utf8")
    return DataError(f"{path} must be a readable table: {(str(error).splitlines() or ['it is cut off'])[0]}")
