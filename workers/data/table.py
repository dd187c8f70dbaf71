"""Tables: CSV and Parquet."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError, unknown
from detol.workers.data import csvfile
from detol.workers.data.columns import absent
from detol.workers.data.lazy_table import LazyFrame
from detol.workers.data.raw import Frame, Part, Raw
from detol.workers.data.spool import Spool

USUAL_TARGETS = ("target", "label", "class", "y")


def read(path: Path, form: str, target: str | int | None, header: str, kept: Spool | None = None) -> Raw:
    """Return a table, with its test part from a sibling file where there is one (``a-train.csv``, ``a-test.csv``).

    Args:
        path: of the file.
        form: ``csv`` or ``parquet``.
        target: name of a column, ``last``, an index (from the end when negative), or None: a column called target,
            label, class or y, else the last.
        header: ``auto``, ``yes`` or ``none``.
        kept: the table is read as it is wanted (a column, or a row group of Parquet, at a time); ``None``: all is read.

    Raises:
        DataError: an unreadable or ragged file, an unknown target, or no column besides it.
    """
    frame, notes = _load(path, form, header, None, kept)
    if frame.shape[1] < 2:
        raise DataError(f"a table needs the target and at least one more column: {path} has {frame.shape[1]}")
    if not len(frame):
        raise DataError(f"a table needs rows: {path} has none below its header")
    name, note = _target(frame, target, path)
    parts = {"train": _part(frame, name)}
    notes += note
    sibling, test_from = _sibling(path), ""
    if sibling is not None:
        other, _ = _load(sibling, form, header, [str(column) for column in frame.columns], kept)
        gap = sorted(set(frame.columns) - set(other.columns))
        if name in gap or bool(absent(other[name]).all()):
            notes.append(f"{sibling.name} beside it has no {name!r}: not used as a test part")
        elif gap:
            raise DataError(
                f"{sibling} must have the columns of {path.name}: it lacks {gap[0]!r}; rename or complete it"
            )
        else:
            names = list(frame.columns)
            parts["test"] = _part(other.select(names) if isinstance(other, LazyFrame) else other[names], name)
            test_from = f"{sibling.name} beside it"
    return Raw(_name(path), form, parts, "features", None, name, test_from, tuple(notes))


def _load(
    path: Path, form: str, header: str, names: list[str] | None, kept: Spool | None
) -> tuple[Frame | LazyFrame, list[str]]:
    if form == "csv":
        return csvfile.read(path, header, names, kept)
    import pandas as pd

    try:
        frame = pd.read_parquet(path) if kept is None else LazyFrame(path)
    except Exception as error:  # pyarrow raises a family of its own, and OSError
        raise DataError(f"{path} must be a whole Parquet file: {str(error).splitlines()[0][:200]}") from None
    if isinstance(frame, LazyFrame):
        _refuse_nested(frame.nested, path)
        return frame, []
    lists = (list, dict, np.ndarray)
    _refuse_nested([column for column in frame.columns if isinstance(_first(frame[column]), lists)], path)
    for column in frame.columns:
        if isinstance(_first(frame[column]), datetime.date):
            frame[column] = pd.to_datetime(frame[column])
    return frame.set_axis([str(column) for column in frame.columns], axis=1).reset_index(drop=True), []


def _refuse_nested(nested: list[str], path: Path) -> None:
    if nested:
        raise DataError(f"columns must hold single values: {nested[0]!r} of {path} holds lists; use .npz for arrays")


def _first(series: Any) -> object:
    index = series.first_valid_index()
    return None if index is None else series.loc[index]


def _target(frame: Frame | LazyFrame, target: str | int | None, path: Path) -> tuple[str, list[str]]:
    names = [str(column) for column in frame.columns]
    if target is None:
        usual = [name for name in names if name.lower() in USUAL_TARGETS]
        chosen = usual[0] if len(usual) == 1 else names[-1]
        how = "called so" if len(usual) == 1 else "the last column"
        return chosen, [f"target {chosen!r} ({how}); --target NAME chooses another"]
    if str(target) in names:
        return str(target), []
    if target == "last":
        return names[-1], []
    try:
        position = int(target)
    except ValueError:
        raise unknown(f"target column of {path.name}", str(target), names, DataError) from None
    if not -len(names) <= position < len(names):
        raise DataError(
            f"a target's index must be in [{-len(names)}, {len(names) - 1}], got {position}; or give its name"
        )
    return names[position], []


def _part(frame: Frame | LazyFrame, target: str) -> Part:
    y = frame[target]
    if y.dtype.kind in "mM":
        raise DataError(f"a target must be text or numbers: {target!r} holds moments in time; name another target")
    if y.dtype.kind in "biuf" and isinstance(y.dtype, np.dtype):
        return Part(frame.drop(columns=target), y.to_numpy())
    values = y.astype(object).to_numpy().copy()
    values[y.isna().to_numpy(dtype=np.bool_)] = None  # words that say so are told from names of classes with the labels
    return Part(frame.drop(columns=target), values)


def _sibling(path: Path) -> Path | None:
    stem, dot, rest = path.name.partition(".")
    for train, test in (("train", "test"), ("TRAIN", "TEST"), ("Train", "Test")):
        if stem == train or stem.endswith((f"-{train}", f"_{train}")):
            sibling = path.with_name(stem.removesuffix(train) + test + dot + rest)
            return sibling if sibling.is_file() else None
    return None


def _name(path: Path) -> str:
    stem = path.name.partition(".")[0]
    for suffix in ("-train", "_train"):
        stem = stem[: -len(suffix)] if stem.lower().endswith(suffix) else stem
    return stem
