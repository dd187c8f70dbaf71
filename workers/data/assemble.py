"""From raw parts to a data set: labels, splits, layout or columns, measures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data import columns as tables
from detol.workers.data import labels, preprocessing
from detol.workers.data.columns import Column
from detol.workers.data.dataset import Dataset, Split, content_digest
from detol.workers.data.divide import Shares, divide
from detol.workers.data.layout import LEAST_LENGTH, MARGIN, SMOOTH, Layout, smoothness, understand
from detol.workers.data.lazy import Selection, pieces
from detol.workers.data.lazy_table import LazyFrame, Matrix
from detol.workers.data.moments import moments
from detol.workers.data.raw import PARTS, Array, Frame, Part, Raw
from detol.workers.data.sink import Sink
from detol.workers.data.written import DECIMAL_COMMAS, Writing

ARRAYS = (np.ndarray, Selection)


@dataclass(frozen=True, slots=True)
class Arranged:
    """Samples of each part in their final form, and how they got it."""

    x: Mapping[str, Array]
    layout: Layout | None
    columns: tuple[Column, ...] = ()
    raw_columns: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=lambda: {"missing": 0})


def assemble(
    raw: Raw,
    *,
    kind: str,
    task: str,
    validation: float,
    test: float,
    seed: int,
    limit: int | None,
    about: Mapping[str, Any],
    sink: Sink | None = None,
) -> Dataset:
    """Return the data set of raw parts; arguments as of :func:`detol.workers.data.read`.

    Args:
        raw: parts whose samples are arrays or tables, or, with a ``sink``, may be lazy ones.
        kind: of the data.
        task: of the data.
        validation: share of the training rows.
        test: share of all rows.
        seed: of the validation split.
        limit: of the samples.
        about: how it was read.
        sink: takes lazy samples block by block; they are never held at once.

    Raises:
        DataError: too few samples, a limit beyond them, or what labels, layout and columns refuse.
    """
    found = _labels(raw, task)
    parts = {role: _labelled(part, found.kept[role], found.y[role]) for role, part in raw.parts.items()}
    parts = {role: part for role, part in parts.items() if len(part.y) or role == "train"}
    notes = [*raw.notes, *found.notes]
    shares = Shares(validation, test, seed, limit)
    parts, test_from = divide(parts, shares, notes, classes=found.task == "classification")
    test_from = test_from or raw.test_from
    done = _samples({role: part.x for role, part in parts.items()}, kind, raw, notes, sink, found.writing)
    splits = {role: Split(done.x[role], np.ascontiguousarray(parts[role].y)) for role in PARTS if role in parts}
    mean, std = moments(splits["train"].x)
    if done.columns:
        quantity = tables.plain(done.columns)
        mean, std = np.where(quantity, mean, 0).astype(np.float32), np.where(quantity, std, 1).astype(np.float32)
    record = preprocessing.record(done.layout, done.columns, done.raw_columns, mean, std, splits["train"].x)
    regression = found.task == "regression"
    y = splits["train"].y.astype(np.float64)
    record |= {"task": found.task, "classes": list(found.classes), "target": raw.target}
    how = {"task": found.task, "classes": found.classes, "preprocessing": record}
    return Dataset(
        name=raw.name,
        kind=str(record["kind"]),
        task=found.task,
        train=splits["train"],
        validation=splits["validation"],
        test=splits.get("test"),
        classes=found.classes,
        mean=mean,
        std=std,
        digest=content_digest(splits, how),
        target_mean=float(y.mean()) if regression else 0.0,
        target_std=(float(y.std()) or 1.0) if regression else 1.0,
        preprocessing=record,
        about={
            **about,
            "form": raw.form,
            "target_name": raw.target,
            "test_from": test_from,
            **done.about,
            "notes": notes,
        },
    )


def _labels(raw: Raw, task: str) -> labels.Labels:
    """Return the labels; where their commas may be either, columns beside them say what they are."""
    given = {role: part.y for role, part in raw.parts.items()}
    found = labels.encode(given, task, raw.classes, raw.target)
    x = raw.parts["train"].x
    if found.writing.unsure and not isinstance(x, ARRAYS) and tables.commas(x):
        return labels.encode(given, task, raw.classes, raw.target, writings=DECIMAL_COMMAS)
    return found


def _samples(xs: dict[str, Any], kind: str, raw: Raw, notes: list[str], sink: Sink | None, target: Writing) -> Arranged:
    chosen = raw.kind if kind == "auto" and raw.kind else kind
    if not isinstance(xs["train"], ARRAYS) and chosen != "features":
        xs = {role: _matrix(x) for role, x in xs.items()}
    layout = None
    if isinstance(xs["train"], ARRAYS):
        layout, said = understand(xs["train"], chosen)
        notes += said
    if layout is None or layout.kind == "features":
        frames: dict[str, Any] = {role: _frame(layout.check(x), sink) for role, x in xs.items()} if layout else xs
        columns, said = tables.fit(frames["train"], commas=target.comma)
        notes += said
        if layout is None:
            _hint(columns, frames["train"], notes)
        encoded = _encoded(columns, frames, sink)
        raw_columns = tuple(str(name) for name in frames["train"].columns)
        _tell_strange(columns, frames, notes)
        return Arranged(encoded, None, columns, raw_columns, _about(columns, frames))
    return Arranged(_arranged(layout, xs, sink), layout)


def _arranged(layout: Layout, xs: Mapping[str, Any], sink: Sink | None) -> Mapping[str, Array]:
    """Return images or signals in their final form, all values finite."""
    rows = {role: len(layout.check(x)) for role, x in xs.items()}
    strange = {role: Strange(role, layout.kind, count) for role, count in rows.items()}

    def ready(role: str, x: Array) -> Array:
        done = layout.arrange(x)
        strange[role].look(done)
        return done

    lazy = {role: x for role, x in xs.items() if isinstance(x, Selection)}
    found: Mapping[str, Array] = {}
    if lazy and sink is not None:
        kept = sink.keep(lazy)
        found = kept or sink.put(rows, ((role, ready(role, x)) for role, x in pieces(lazy)))
    found = {role: found[role] if role in found else ready(role, x) for role, x in xs.items()}
    for role in rows:
        strange[role].refuse()
    return found


def _encoded(columns: tuple[Column, ...], frames: Mapping[str, Any], sink: Sink | None) -> Mapping[str, Array]:
    """Return tables in their final form."""
    if sink is None or not isinstance(frames["train"], LazyFrame):
        return {role: tables.encode(columns, frame) for role, frame in frames.items()}
    blocks = ((role, tables.encode(columns, block)) for role, frame in frames.items() for block in frame.blocks())
    return sink.put({role: len(frame) for role, frame in frames.items()}, blocks)


def _labelled(part: Part, kept: Array, y: Array) -> Part:
    return Part(part.x if kept.all() else part.take(kept).x, y)


@dataclass
class Strange:
    """Counts samples of a split that hold values which are not finite.

    Args:
        role: of the split.
        kind: of the samples.
        rows: how many there are in all.
    """

    role: str
    kind: str
    rows: int
    seen: int = 0
    found: int = 0
    first: int = 0

    def look(self, x: Array) -> None:
        """Count those of the next samples."""
        if x.dtype != np.uint8:
            bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
            if len(bad) and not self.found:
                self.first = self.seen + int(bad[0])
            self.found += len(bad)
        self.seen += len(x)

    def refuse(self) -> None:
        """Raise the error of those that were found."""
        if self.found:
            raise DataError(
                f"values of {self.kind}s must be finite: {self.found} of {self.rows} samples of the {self.role} split"
                f" hold NaN or infinity (first: {self.first}); drop or fill them"
            )


def _frame(x: Array | Selection, sink: Sink | None) -> Frame | LazyFrame:
    import pandas as pd

    if isinstance(x, Selection):
        assert sink is not None, "lazy samples come with a sink"
        return sink.table(x)
    return pd.DataFrame(x.astype(np.float64), columns=[f"c{number}" for number in range(x.shape[1])])


def _matrix(frame: Frame | LazyFrame) -> Array | Selection:
    """Return a table of numbers as (n, columns), for signals and images that stand in rows."""
    columns, _ = tables.fit(frame)
    odd = [column.name for column in columns if column.type != tables.NUMBER]
    if odd or len(columns) != frame.shape[1]:
        raise DataError(f"a row of a signal or image must be numbers: column {(odd or ['?'])[0]!r} is not")
    if isinstance(frame, LazyFrame):
        return Selection(Matrix(frame, lambda block: tables.values(columns, block)))
    return tables.values(columns, frame)


def _tell_strange(columns: tuple[Column, ...], frames: Mapping[str, Frame], notes: list[str]) -> None:
    for column in columns:
        count = sum(tables.strange(column, frame[column.name]) for frame in frames.values())
        if count:
            notes.append(f"column {column.name!r} of numbers holds {count} other values: they count as missing")


def _hint(columns: tuple[Column, ...], frame: Frame, notes: list[str]) -> None:
    if len(columns) >= LEAST_LENGTH and all(column.type == tables.NUMBER for column in columns):
        found, chance = smoothness(tables.values(columns, frame.head(2000)))
        if found >= SMOOTH and found - chance >= MARGIN:
            notes.append(f"columns look like one signal (neighbours correlate by {found:.2f}): see the kind signal")


def _about(columns: tuple[Column, ...], frames: Mapping[str, Frame]) -> dict[str, Any]:
    """Return what stands in each raw column, and how much is missing over all splits."""
    gone = {column.name: sum(int(tables.absent(x[column.name]).sum()) for x in frames.values()) for column in columns}
    listed = [
        {"name": column.name, "type": column.type, "missing": gone[column.name], "inputs": len(column.names)}
        | ({"categories": len(column.categories), "rare": len(column.rare)} if column.type == tables.CATEGORY else {})
        for column in columns
    ]
    return {"columns": listed, "missing": sum(gone.values())}
