"""From raw parts to a data set: labels, splits, layout or columns, measures."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data import columns as tables
from detol.workers.data import labels, preprocessing
from detol.workers.data.columns import Column
from detol.workers.data.dataset import Dataset, Split, content_digest
from detol.workers.data.layout import LEAST_LENGTH, MARGIN, SMOOTH, Layout, smoothness, understand
from detol.workers.data.moments import moments
from detol.workers.data.raw import PARTS, Array, Frame, Part, Raw
from detol.workers.data.split import TEST_SEED, hold_out

LEAST_SAMPLES = 10


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
) -> Dataset:
    """Return the data set of raw parts; arguments as of :func:`detol.workers.data.read`.

    Raises:
        DataError: too few samples, a limit beyond them, or what labels, layout and columns refuse.
    """
    found = labels.encode({role: part.y for role, part in raw.parts.items()}, task, raw.classes, raw.target)
    parts = {role: _labelled(part, found.kept[role], found.y[role]) for role, part in raw.parts.items()}
    parts = {role: part for role, part in parts.items() if len(part.y) or role == "train"}
    notes = [*raw.notes, *found.notes]
    parts, test_from = _split(parts, raw, found.task, validation, test, seed, limit, notes)
    xs, layout, columns, said_columns = _samples({role: part.x for role, part in parts.items()}, kind, raw, notes)
    splits = {role: Split(xs[role], np.ascontiguousarray(parts[role].y)) for role in PARTS if role in parts}
    mean, std = moments(splits["train"].x)
    if columns:
        quantity = tables.plain(columns)
        mean, std = np.where(quantity, mean, 0).astype(np.float32), np.where(quantity, std, 1).astype(np.float32)
    record = preprocessing.record(layout, columns, mean, std, splits["train"].x)
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
            **said_columns,
            "notes": notes,
        },
    )


def _split(
    parts: dict[str, Part],
    raw: Raw,
    task: str,
    validation: float,
    test: float,
    seed: int,
    limit: int | None,
    notes: list[str],
) -> tuple[dict[str, Part], str]:
    """Hold out what the source does not bring: the test first, then what is over the limit, then the validation."""
    classes = task == "classification"
    pool = parts["train"]
    total = len(pool.y) + len(parts["validation"].y if "validation" in parts else ())
    if total < LEAST_SAMPLES:
        raise DataError(f"a search needs at least {LEAST_SAMPLES} labelled samples: {raw.name!r} has {total}")
    if classes:
        sizes = np.bincount(pool.y)
        alone = np.flatnonzero(sizes == 1)
        if len(alone):
            notes.append(f"{len(alone)} classes have one sample only: it trains and is neither validated nor tested")
    if "test" in parts:
        test_from = raw.test_from
    elif test:
        rest, held = hold_out(pool.y, test, TEST_SEED, stratified=classes)
        parts, pool = {**parts, "test": pool.take(held)}, pool.take(rest)
        test_from = f"held out, {test:.0%} of the rows{', stratified' if classes else ''}, the same for every seed"
    else:
        test_from = "none"
    given = len(parts["validation"].y) if "validation" in parts else 0
    if limit is not None:
        if limit > len(pool.y) + given:
            raise DataError(
                f"limit must be at most the {len(pool.y) + given} samples that train and validate, got {limit}"
            )
        keep = round(limit * len(pool.y) / (len(pool.y) + given))
        pool = _draw(pool, keep, seed, classes)
        if given:
            parts = {**parts, "validation": _draw(parts["validation"], limit - keep, seed, classes)}
    if not given:
        rest, held = hold_out(pool.y, validation, seed, stratified=classes)
        parts, pool = {**parts, "validation": pool.take(held)}, pool.take(rest)
    for role, part in (("training", pool), ("validation", parts["validation"])):
        if not len(part.y):
            raise DataError(
                f"{role} needs samples: {total} samples of {raw.name!r} leave none for it; change the shares"
            )
    return {**parts, "train": pool}, test_from


def _labelled(part: Part, kept: Array, y: Array) -> Part:
    return Part(part.x if kept.all() else part.take(kept).x, y)


def _draw(part: Part, count: int, seed: int, classes: bool) -> Part:
    if count >= len(part.y):
        return part
    rest, _ = hold_out(part.y, 1 - count / len(part.y), seed + 1, stratified=classes)
    return part.take(rest)


def _samples(
    xs: dict[str, Array | Frame], kind: str, raw: Raw, notes: list[str]
) -> tuple[dict[str, Array], Layout | None, tuple[Column, ...], dict[str, Any]]:
    """Return the samples of each part, the layout or the columns by which they were arranged, and what was in these."""
    chosen = raw.kind if kind == "auto" and raw.kind else kind
    if not isinstance(xs["train"], np.ndarray) and chosen != "features":
        xs = {role: _matrix(x) for role, x in xs.items()}
    layout = None
    if isinstance(xs["train"], np.ndarray):
        layout, said = understand(xs["train"], chosen)
        notes += said
    if layout is None or layout.kind == "features":
        frames = {role: _frame(layout.check(x)) for role, x in xs.items()} if layout else xs
        columns, said = tables.fit(frames["train"])
        notes += said
        if layout is None:
            _hint(columns, frames["train"], notes)
        encoded = {role: tables.encode(columns, frame) for role, frame in frames.items()}
        return encoded, None, columns, _about(columns, frames)
    arranged = {role: layout.arrange(x) for role, x in xs.items()}
    for role, x in arranged.items():
        _finite(x, role, layout.kind)
    return arranged, layout, (), {}


def _finite(x: Array, role: str, kind: str) -> None:
    if x.dtype == np.uint8:
        return
    bad = ~np.isfinite(x.reshape(len(x), -1)).all(axis=1)
    if bad.any():
        raise DataError(
            f"values of {kind}s must be finite: {int(bad.sum())} of {len(x)} samples of the {role} split hold NaN or"
            f" infinity (first: {int(np.flatnonzero(bad)[0])}); drop or fill them"
        )


def _frame(x: Array) -> Frame:
    import pandas as pd

    return pd.DataFrame(x.astype(np.float64), columns=[f"c{number}" for number in range(x.shape[1])])


def _matrix(frame: Frame) -> Array:
    """Return a table of numbers as (n, columns), for signals and images that stand in rows."""
    columns, _ = tables.fit(frame)
    odd = [column.name for column in columns if column.type != tables.NUMBER]
    if odd or len(columns) != frame.shape[1]:
        raise DataError(f"a row of a signal or image must be numbers: column {(odd or ['?'])[0]!r} is not")
    return tables.values(columns, frame)


def _hint(columns: tuple[Column, ...], frame: Frame, notes: list[str]) -> None:
    if len(columns) >= LEAST_LENGTH and all(column.type == tables.NUMBER for column in columns):
        found, chance = smoothness(tables.values(columns, frame.iloc[:2000]))
        if found >= SMOOTH and found - chance >= MARGIN:
            notes.append(f"columns look like one signal (neighbours correlate by {found:.2f}): see the kind signal")


def _about(columns: tuple[Column, ...], frames: Mapping[str, Frame]) -> dict[str, Any]:
    """Return what stands in each raw column, and how much is missing over all splits."""
    if not columns:
        return {}
    gone = {column.name: sum(int(tables.absent(x[column.name]).sum()) for x in frames.values()) for column in columns}
    listed = [
        {"name": column.name, "type": column.type, "missing": gone[column.name], "inputs": len(column.names)}
        | ({"categories": len(column.categories), "rare": len(column.rare)} if column.type == tables.CATEGORY else {})
        for column in columns
    ]
    return {"columns": listed, "missing": sum(gone.values())}
