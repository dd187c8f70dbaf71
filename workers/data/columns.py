"""From columns of a table to numbers: imputed, one-hot; fitted on training rows alone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data.labels import MISSING, SLIPS
from detol.workers.data.raw import Array, Frame
from detol.workers.data.written import DECIMAL_COMMAS, WRITINGS, Writing

MOST_CATEGORIES = 64
PROBE = 100
NUMBER, CATEGORY = "number", "category"


@dataclass(frozen=True, slots=True)
class Column:
    """What was learnt about one raw column.

    Args:
        name: of the raw column.
        type: ``number`` or ``category``.
        median: of the training values; stands in for missing numbers.
        offset: taken off before numbers become float32, not 0 only where float32 would lose their differences.
        flag: whether a column 1/0 for missing follows: only where training had missing values.
        categories: each gets a column, 1 where it stands.
        rare: share one column. What is in neither list has zeros in all.
        comma: whether numbers stand as text with a decimal comma.
        grouped: whether they stand as text with thousands grouped by the other mark.
    """

    name: str
    type: str
    median: float = 0.0
    offset: float = 0.0
    flag: bool = False
    categories: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    comma: bool = False
    grouped: bool = False

    @property
    def writing(self) -> Writing:
        """How its numbers are written."""
        return Writing(self.comma, self.grouped)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns it becomes."""
        flag = (f"{self.name}=(missing)",) if self.flag else ()
        if self.type == NUMBER:
            return (self.name, *flag)
        rare = (f"{self.name}=(rare)",) if self.rare else ()
        return (*(f"{self.name}={category}" for category in self.categories), *rare, *flag)

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads; what came later is there only where it says something (digests)."""
        record = asdict(self)
        return record if self.grouped else {key: value for key, value in record.items() if key != "grouped"}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Column":
        """Return the column of a record."""
        lists = {name: tuple(record.get(name, ())) for name in ("categories", "rare")}
        return cls(**{**record, **lists})


def fit(frame: Frame, *, commas: bool = False) -> tuple[tuple[Column, ...], list[str]]:
    """Learn every column of a frame of training rows.

    A column is of numbers when 99 % of the values that are not missing read as one; the others then count as missing.
    Of the ways to write numbers that agree on these the one counts by which the most do. Categories with few training
    rows (fewer than a hundredth of all rows, at most 10; always those with one), and those beyond the 64 most frequent,
    are pooled. ``1,234`` is more than a thousand where the column's numbers all read so, unless another column has
    decimal commas.

    Args:
        frame: of the rows.
        commas: whether decimal commas stand elsewhere in the table, in its target.

    Returns:
        The columns in order, without those that say nothing, and notes on these and on how numbers were read.

    Raises:
        DataError: an infinite number, or no column that is of use.
    """
    columns, notes = [], []
    writings = DECIMAL_COMMAS if commas else WRITINGS
    for name in frame.columns:
        series = frame[name]
        if bool(absent(series).all()):
            notes.append(f"column {name!r} is empty in training: left out")
            continue
        column = _fit_number(str(name), series, writings) or _fit_category(str(name), series)
        odd = _odd(series) if column.type == CATEGORY else ""
        how = f" (mostly numbers, but it holds {odd!r})" if odd else ""
        if column.type == CATEGORY and not column.categories:
            notes.append(f"column {name!r} has hardly a value twice{how}: left out")
            continue
        if odd:
            notes.append(f"column {name!r} taken as categories{how}")
        columns.append(column)
    if not columns:
        raise DataError("a table needs a column besides the target that is not empty: it has none")
    columns = _agreed(columns, frame)
    notes += [
        f"column {column.name!r} read as numbers: {column.writing.told}" for column in columns if column.writing.told
    ]
    return tuple(columns), notes


def commas(frame: Frame) -> bool:
    """Return whether a column of a frame has decimal commas, by its first rows."""
    head = frame.head(10 * PROBE)
    made = (_fit_number(str(name), head[name], WRITINGS) for name in head.columns if not absent(head[name]).all())
    return any(column is not None and column.comma for column in made)


def encode(columns: Sequence[Column], frame: Frame) -> Array:
    """Return the columns as (n, F) float32, contiguous; nothing in it is missing.

    Raises:
        DataError: a column that the frame lacks, or an infinite number.
    """
    blocks = []
    for column in columns:
        if column.name not in frame.columns:
            raise DataError(f"a row needs the column {column.name!r}; got {', '.join(map(str, frame.columns[:8]))}")
        series = frame[column.name]
        blocks.append(_encode_number(column, series) if column.type == NUMBER else _encode_category(column, series))
    return np.ascontiguousarray(np.concatenate(blocks, axis=1), dtype=np.float32)


def values(columns: Sequence[Column], frame: Frame) -> Array:
    """Return columns of numbers as they are, (n, columns) float64, NaN where missing."""
    return np.stack([_numbers(frame[column.name], column.writing) for column in columns], axis=1)


def plain(columns: Sequence[Column]) -> Array:
    """Return (F,) which encoded columns are quantities, to be standardised; the others are 0 or 1 and stay so."""
    marks = [[column.type == NUMBER, *[False] * (len(column.names) - 1)] for column in columns]
    return np.concatenate([np.array(mark, np.bool_) for mark in marks])


def absent(series: Any) -> Array:
    """Return (n,) which values of a pandas series are missing: null, or text such as ``?``, ``NA`` or nothing."""
    gone = series.isna().to_numpy(dtype=np.bool_)
    if _textual(series):
        gone = gone | series.astype(str).str.strip().str.lower().isin(list(MISSING)).to_numpy(dtype=np.bool_)
    return np.asarray(gone)


def _textual(series: Any) -> bool:
    from pandas.api import types

    return bool(types.is_object_dtype(series) or types.is_string_dtype(series) or hasattr(series, "cat"))


def _numbers(series: Any, writing: Writing) -> Array:
    """Return (n,) float64, NaN for what is missing or no number; moments in time are seconds."""
    import pandas as pd
    from pandas.api import types

    if types.is_datetime64_any_dtype(series) or types.is_timedelta64_dtype(series):
        origin = pd.Timedelta(0) if types.is_timedelta64_dtype(series) else pd.Timestamp(0, tz=series.dt.tz)
        return np.asarray(((series - origin) / pd.Timedelta(seconds=1)).to_numpy(dtype=np.float64, na_value=np.nan))
    if not _textual(series):
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    found = writing.read(series.astype(str).str.strip().mask(absent(series)))
    if writing.told and types.is_object_dtype(series):  # 1.234 beside text is a number, whatever a dot means in text
        found = np.array(
            [value if isinstance(value, Real) else read for value, read in zip(series, found, strict=True)], np.float64
        )
    return found


def _finite(values: Array, series: Any) -> Array:
    beyond = np.abs(values) > np.finfo(np.float32).max
    if beyond.any():
        row = series.index[int(np.flatnonzero(beyond)[0])]
        raise DataError(
            f"numbers must be finite in float32: column {series.name!r} is not in row {row} (from 0); write NA for"
            " a missing one"
        )
    return values


def _agreed(columns: Sequence[Column], frame: Frame) -> list[Column]:
    """Return the columns, those whose commas may group thousands learnt anew where another's commas are decimal."""
    if not any(column.comma for column in columns):
        return list(columns)
    return [
        (column.writing.unsure and _fit_number(column.name, frame[column.name], DECIMAL_COMMAS)) or column
        for column in columns
    ]


def _fit_number(name: str, series: Any, writings: Sequence[Writing]) -> Column | None:
    if not _textual(series):
        writings = writings[:1]
    present = np.flatnonzero(~absent(series))
    few = present[np.linspace(0, len(present) - 1, min(PROBE, len(present))).astype(np.intp)]  # a table may be sorted
    found: tuple[Array, Writing, Array] | None = None
    for writing in writings:
        if np.isnan(_numbers(series.iloc[few], writing)).mean() > 0.5:
            continue  # text is told from a few values; parsing all is slow
        values = _finite(_numbers(series, writing), series)
        read = ~np.isnan(values)
        # What reads more values takes the place of what reads most, if it does not read these otherwise: 1.234 is not
        # more than a thousand for the sake of one comma.
        more = found is None or (read.sum() > found[0].sum() and bool((values == found[2])[found[0]].all()))
        if more and read.sum() >= (1 - SLIPS) * len(present):
            found = read, writing, values
            if read.sum() == len(present):
                break
    if found is None:
        return None
    read, writing, values = found
    known = values[read]
    far = abs(known.mean()) > 1e3 * known.std() > 0  # float32 has 7 digits; keep at least 4 of the differences
    offset = float(known.mean()) if far else 0.0
    flag = len(known) < len(values)
    return Column(name, NUMBER, float(np.median(known)), offset, flag, comma=writing.comma, grouped=writing.grouped)


def strange(column: Column, series: Any) -> int:
    """Return how many values of a column of numbers are none, and count as missing though they do not say so."""
    if column.type != NUMBER:
        return 0
    return int((np.isnan(_numbers(series, column.writing)) & ~absent(series)).sum())


def _odd(series: Any) -> str:
    """Return the first value that is no number, in a column whose first values mostly are."""
    if not _textual(series):
        return ""
    head = series.iloc[np.flatnonzero(~absent(series))[: 10 * PROBE]]
    text = np.isnan(_numbers(head, WRITINGS[0]))
    return str(head.iloc[int(text.argmax())]).strip() if 0 < text.mean() < 0.5 else ""


def _fit_category(name: str, series: Any) -> Column:
    gone = absent(series)
    counts = series[~gone].astype(str).str.strip().value_counts()
    least = max(2, min(10, len(series) // 100))
    often = sorted(counts.index[counts >= least], key=lambda category: (-int(counts[category]), category))
    often = often[:MOST_CATEGORIES]
    rare = sorted(set(counts.index) - set(often)) if often else []
    return Column(name, CATEGORY, flag=bool(gone.any()), categories=tuple(sorted(often)), rare=tuple(rare))


def _encode_number(column: Column, series: Any) -> Array:
    values = _finite(_numbers(series, column.writing), series)
    gone = np.isnan(values)
    values = np.where(gone, column.median, values) - column.offset
    return np.stack([values, gone], axis=1) if column.flag else values[:, None]


def _encode_category(column: Column, series: Any) -> Array:
    import pandas as pd

    gone = absent(series)
    width = len(column.categories)
    place = {category: code for code, category in enumerate(column.categories)} | dict.fromkeys(column.rare, width)
    codes = series.astype(str).str.strip().map(place)
    codes = pd.to_numeric(codes, errors="coerce").fillna(-1).to_numpy(dtype=np.int64)
    codes = np.where(gone, len(column.names) - 1 if column.flag else -1, codes)
    hot = np.zeros((len(codes), len(column.names)), np.float32)
    rows = np.flatnonzero(codes >= 0)
    hot[rows, codes[rows]] = 1
    return hot
