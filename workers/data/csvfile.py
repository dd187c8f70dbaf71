"""Reading a CSV file as text: separator, header and row lengths are found or checked, nothing is guessed silently."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from detol.errors import DataError
from detol.workers.data.columns import absent
from detol.workers.data.raw import Frame

HEADERS = ("auto", "yes", "none")
SEPARATORS = (",", ";", "\t", "|")


def read(path: Path, header: str, names: list[str] | None) -> tuple[Frame, list[str]]:
    """Return all cells as text without surrounding spaces, under the header's names or ``c0``, ``c1`` ...

    Args:
        path: UTF-8 text, may be gzipped.
        header: ``auto``, ``yes`` or ``none``.
        names: of the columns of the file that this one belongs to; a first row that equals them is its header.

    Raises:
        DataError: rows of different lengths, a name twice, text that is not UTF-8, or no rows.
    """
    import pandas as pd

    separator = _separator(path)
    _even(path, separator)
    try:
        frame = pd.read_csv(
            path,
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
        )
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, EOFError) as error:
        raise _unreadable(path, error) from None
    frame = frame.apply(lambda column: column.str.strip())
    first = [str(cell) for cell in frame.iloc[0]]
    notes = [] if separator == "," else [f"cells are separated by {separator!r}"]
    if names is not None:
        named = header == "yes" or (
            header == "auto" and (first == names or (_headed(frame) and set(first) & set(names)))
        )
        columns = first if named else names
        if not named and len(names) != frame.shape[1]:
            raise DataError(f"{path} must have {len(names)} columns like its training file, it has {frame.shape[1]}")
    else:
        named = header == "yes" or (header == "auto" and _headed(frame))
        columns = first if named else [f"c{number}" for number in range(frame.shape[1])]
    frame = frame.iloc[1:].reset_index(drop=True) if named else frame
    if not named and names is None:
        notes.append("no header found: columns are called c0, c1 ...; --header yes takes the first row")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"each column needs a name of its own: {path} has {twice[0]!r} twice; rename one")
    frame.columns = columns
    return _without_index(frame, notes)


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


def _headed(frame: Frame) -> bool:
    """Return whether the first row names columns.

    It does when no cell of it is missing, twice or a number (or all are the numbers of their columns), and below it a
    column is of numbers, or no cell of it occurs again in its column.
    """
    first, below = [str(cell) for cell in frame.iloc[0]], frame.iloc[1:]
    if not len(below) or len(set(first)) < len(first) or any(not cell for cell in first[1:]):
        return False
    if len(first) > 3 and first in ([str(n) for n in range(len(first))], ["", *map(str, range(len(first) - 1))]):
        return True
    if any(_number(cell) for cell in first) or any(absent(frame.iloc[0])[1:]):
        return False
    head = below.iloc[:1000]
    numeric = any(
        all(_number(cell) for cell in head.iloc[:, position][~absent(head.iloc[:, position])].tolist())
        for position in range(len(first))
    )
    return numeric or not any(cell in set(below.iloc[:, position]) for position, cell in enumerate(first))


def _number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _without_index(frame: Frame, notes: list[str]) -> tuple[Frame, list[str]]:
    """Drop the row numbers that pandas writes as a first column without a name."""
    first = str(frame.columns[0])
    if first in ("", "Unnamed: 0") and frame.shape[1] > 1:
        return frame.iloc[:, 1:], [*notes, "first column has no name: taken as row numbers and left out"]
    return frame, notes


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, UnicodeDecodeError):
        return DataError(f"a table must be UTF-8 text: {path} is not; convert it, e.g. iconv -f latin1 -t utf8")
    return DataError(f"{path} must be a readable table: {(str(error).splitlines() or ['it is cut off'])[0]}")
