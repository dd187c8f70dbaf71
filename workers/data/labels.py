"""From labels as they stand in a source to class indices or numbers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from detol.errors import DataError
from detol.workers.data.raw import TASKS, Array
from detol.workers.data.written import WRITINGS, Writing

MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "nan", "null", "none", "-", "."})
NAMES = frozenset({"none", "-", "."})
"""Of these, what may be the name of a class; among numbers it is missing."""
FEW, MANY = 20, 1000
SLIPS = 0.01
"""Share of values among numbers that may be none, by mistake."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of all parts.

    Args:
        task: ``classification`` or ``regression``.
        classes: names in the order of their indices; empty for regression.
        y: by part, (n,) int64 class indices or float32 numbers, of the kept rows.
        kept: by part, (n,) whether a row has a label at all.
        notes: what a person should know.
        writing: of a quantity.
    """

    task: str
    classes: tuple[str, ...]
    y: Mapping[str, Array]
    kept: Mapping[str, Array]
    notes: tuple[str, ...]
    writing: Writing = WRITINGS[0]


def encode(
    raw: Mapping[str, Array],
    task: str,
    names: Sequence[str] | None,
    target: str,
    *,
    writings: Sequence[Writing] = WRITINGS,
) -> Labels:
    """Return the labels of all parts, the classes being those of the training and validation parts.

    Args:
        raw: labels by part, (n,) each; ``(n, 1)`` and one-hot ``(n, k)`` are understood too.
        task: ``classification``, ``regression`` or ``auto``: text and truth values are classes; whole numbers are
            classes when they are few (at most 20) or run from 0 or 1 without a gap (at most 1,000), each with two
            samples on average; other numbers are a quantity.
        names: of the classes, for labels that are indices into them.
        target: what the labels are called, for messages.
        writings: of numbers in text, in the order in which they are tried.

    Raises:
        DataError: one class or value only, numbers that are not finite in float32, text for a regression, a class that
            only the test has, a few slips among numbers.
    """
    flat = {part: _flat(values, target) for part, values in raw.items()}
    kept = {part: ~missing(values) for part, values in flat.items()}
    numbers, writing = _written(_fitted(flat, kept), 0 if task == "regression" else FEW, writings)
    if numbers is None and task != "regression":
        kept = {part: ~missing(values, MISSING - NAMES) for part, values in flat.items()}
    values = {part: flat[part][kept[part]] for part in flat}
    fitted = _fitted(flat, kept)
    notes = [_dropped(flat[part], mask, part) for part, mask in kept.items() if not mask.all()]
    if not sum(len(part) for part in flat.values()):
        raise DataError(f"training needs samples: {target!r} has none")
    if not len(fitted):
        raise DataError(f"training needs labels: all of {target!r} are missing; name another target")
    if task == "auto":
        task = _task(numbers) if numbers is not None else _classes(fitted, target)
    if task == "regression":
        notes += [f"{target!r} read as numbers: {writing.told}"] if writing.told else []
        quantities = {part: _quantity(flat[part], kept[part], writing, part, target) for part in values}
        fitted_to = np.concatenate([quantities[part] for part in quantities if part != "test"])
        if fitted_to.min() == fitted_to.max():
            raise DataError(f"a target must vary: all of {target!r} are {fitted[0]}; name another target")
        return Labels(task, (), quantities, kept, tuple(notes), writing)
    if task != "classification":
        raise DataError(f"task must be auto, {' or '.join(TASKS)}, got {task!r}")
    whole = _whole(numbers)
    texts = {part: _texts(part_values, whole) for part, part_values in values.items()}
    known = _order(np.unique(np.concatenate([texts[part] for part in texts if part != "test"])))
    if len(known) < 2:
        raise DataError(f"classification needs two classes: all of {target!r} are {known[0]!r}; name another target")
    if len(known) == len(fitted) > 2:
        raise DataError(f"a class needs several samples: all {len(fitted)} of {target!r} differ; name another target")
    if "test" in texts:
        texts["test"], note = _match(texts["test"], known, target)
        notes += note
    index = {name: code for code, name in enumerate(known)}
    coded = {part: np.array([index[text] for text in part_texts], np.int64) for part, part_texts in texts.items()}
    return Labels(task, _rename(known, names), coded, kept, tuple(notes))


def missing(values: Array, words: Collection[str] = MISSING) -> Array:
    """Return which labels (n,) are missing: NaN, None, or one of some words (lower case) such as ``?`` and ``na``."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "OUST":
        return np.array([v is None or v != v or str(v).strip().lower() in words for v in values.tolist()], np.bool_)
    return np.zeros(len(values), np.bool_)


def _flat(values: Array, target: str) -> Array:
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"labels must be UTF-8 text or numbers: {target!r} is neither; convert it") from None
    several = values.dtype == np.object_ and any(isinstance(v, (np.ndarray, list, tuple, dict)) for v in values.flat)
    if several or values.dtype.kind in "cmMV":
        kind = "several values in one" if several else f"the type {values.dtype}"
        raise DataError(f"labels must be text or numbers: {target!r} holds {kind}; convert them")
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim == 2 and values.dtype.kind in "biuf":
        rows = values.astype(np.float64)
        if ((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all():
            return np.asarray(rows.argmax(axis=1))
    if values.ndim != 1:
        raise DataError(f"labels must be (n,) or one-hot (n, classes): {target!r} has the shape {values.shape}")
    return values


def _plain(values: Array) -> Array:
    return np.array([str(v).strip() for v in values.tolist()], dtype=object) if values.dtype.kind in "OUST" else values


def _numbers(values: Array) -> Array | None:
    """Return the labels as float64, or None when they are text or truth values."""
    if values.dtype.kind == "b":
        return None
    try:
        return values.astype(np.float64)
    except (ValueError, TypeError):
        return None


def _fitted(flat: Mapping[str, Array], kept: Mapping[str, Array]) -> Array:
    """Return the labels that classes are told from: those that are there, but not the test's."""
    return np.concatenate([_plain(values[kept[part]]) for part, values in flat.items() if part != "test"])


def _written(values: Array, few: int, writings: Sequence[Writing]) -> tuple[Array | None, Writing]:
    """Return the labels as float64, or None when they are not all numbers, and how those are written.

    Up to ``few`` different ones such as ``1,2`` are names of classes; more are numbers with a decimal comma.
    """
    numbers, plain = _numbers(values), Writing()
    if numbers is not None or values.dtype.kind not in "OUST" or len(set(values.tolist())) <= few:
        return numbers, plain
    import pandas as pd

    text = pd.Series([str(value) for value in values.tolist()])
    for writing in (one for one in writings if one.told):
        if not np.isnan(writing.read(text[:FEW])).any() and not np.isnan(read := writing.read(text)).any():
            return read, writing
    return None, plain


def _classes(labels: Array, target: str) -> str:
    """Return ``classification``; refuse quantities among which some labels are no numbers.

    They are quantities when most labels are, and hardly one stands twice; or when all but a hundredth are, and those
    alone would be quantities.
    """
    if labels.dtype.kind == "b":
        return "classification"
    import pandas as pd

    counted = Counter(map(str, labels.tolist()))
    text, counts = pd.Series(list(counted)), np.fromiter(counted.values(), np.int64, len(counted))
    read = min((writing.read(text) for writing in WRITINGS), key=lambda values: int(counts[np.isnan(values)].sum()))
    odd = np.isnan(read)
    slips = int(counts[odd].sum())
    varied = 2 * len(counted) > len(labels) + 2 and slips < 0.5 * len(labels)
    few = 0 < slips <= SLIPS * len(labels)
    if varied or (few and _task(np.repeat(read[~odd], counts[~odd])) == "regression"):
        raise DataError(
            f"a target must be of numbers or of classes with several samples each: {target!r} is mostly numbers, but"
            f" {slips} are none, the first {text[int(odd.argmax())]!r}; correct or drop these rows, or set"
            " data.task=classification"
        )
    return "classification"


def _dropped(labels: Array, kept: Array, part: str) -> str:
    gone = (value for value in labels[~kept].tolist() if value is not None and value == value)
    words = sorted({str(value).strip() for value in gone} - {""})
    said = f" (missing: {', '.join(map(repr, words[:3]))})" if words else ""
    return f"dropped {int((~kept).sum())} rows without a label from the {part} part{said}"


def _task(numbers: Array) -> str:
    distinct = np.unique(numbers)
    gapless = distinct[0] in (0, 1) and np.ptp(distinct) == len(distinct) - 1
    few = len(distinct) <= FEW or (gapless and len(distinct) <= MANY)
    return "classification" if _whole(distinct) and few and 2 * len(distinct) <= len(numbers) + 2 else "regression"


def _quantity(labels: Array, kept: Array, writing: Writing, part: str, target: str) -> Array:
    """Return the kept labels of a part as float32, in which networks are trained; rows are counted with the others."""
    values = labels[kept]
    numbers = _numbers(_plain(values))
    if numbers is None and writing.told:
        import pandas as pd

        numbers = writing.read(pd.Series([str(value).strip() for value in values.tolist()]))
    if numbers is None:
        sample = next((v for v in values.tolist() if _numbers(np.array([v], dtype=object)) is None), values.tolist()[0])
        raise DataError(f"regression needs numbers: {target!r} holds {sample!r}; use the task classification")
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    strange = np.flatnonzero(~np.isfinite(narrow))
    if len(strange):
        first, row = numbers[strange[0]], np.flatnonzero(kept)[strange[0]]
        raise DataError(
            f"a target must be finite, at most {np.finfo(np.float32).max:.1e} in size: {target!r} is {first:g} in row"
            f" {row} (from 0) of the {part} part, the first of {len(strange)}; drop those rows, or scale the target"
        )
    return np.asarray(narrow)


def _whole(numbers: Array | None) -> bool:
    return numbers is not None and bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())


def _texts(values: Array, whole: bool) -> Array:
    """Return class names; where all of training's are ``whole`` numbers, ``1``, ``1.0`` and ``01`` are one class."""
    plain = _plain(values)
    numbers = _numbers(plain) if whole else None
    if numbers is not None and _whole(numbers):
        return np.array([str(int(number)) for number in numbers.tolist()], dtype=object)
    return np.array([str(v) for v in plain.tolist()], dtype=object)


def _order(names: Array) -> list[str]:
    numbers = _numbers(names)
    order = np.argsort(numbers) if numbers is not None else np.argsort(names)
    return [str(name) for name in names[order]]


def _match(test: Array, known: Sequence[str], target: str) -> tuple[Array, list[str]]:
    """Fit the test part's class names to those of training; a full stop after each is a known blemish of UCI files."""
    strange = sorted(set(test.tolist()) - set(known))
    if strange and all(name.rstrip(".") in known for name in strange):
        return np.array([name if name in known else name.rstrip(".") for name in test.tolist()], dtype=object), [
            f"test labels end in a full stop that training's lack ({strange[0]!r}): taken as the same classes"
        ]
    if strange:
        raise DataError(
            f"every class of the test part must occur in training: {target!r} holds {strange[0]!r}, training has"
            f" {', '.join(known[:5])}{' ...' if len(known) > 5 else ''}; correct or drop those rows"
        )
    return test, []


def _rename(known: Sequence[str], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(known)
    if not all(name.isdigit() and int(name) < len(names) for name in known):
        return tuple(known)
    return tuple(str(names[int(name)]) for name in known)
