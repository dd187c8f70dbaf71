"""What a reader of a format hands on: rows as they stand in the file, nothing fitted, nothing split."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from detol.errors import DataError

Array: TypeAlias = npt.NDArray[Any]
Frame: TypeAlias = Any  # a pandas.DataFrame; pandas is imported late

KINDS = ("image", "signal", "features")
TASKS = ("classification", "regression")
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one part of a source.

    Args:
        x: an array whose first axis counts samples, or a data frame of raw columns; or what stands for them until they
            are read (:class:`~detol.workers.data.lazy.Selection`, :class:`~detol.workers.data.lazy_table.LazyFrame`).
        y: labels (n,) as they stand in the source: numbers, text or objects.
    """

    x: Array | Frame | Any
    y: Array

    def take(self, rows: Array) -> "Part":
        """Return the part with these rows only (indices or a mask)."""
        if isinstance(self.x, np.ndarray):
            return Part(self.x[rows], self.y[rows])
        return Part(self.x.take(np.flatnonzero(rows) if _mask(rows) else rows), self.y[rows])


@dataclass(frozen=True, slots=True)
class Raw:
    """A source as read.

    Args:
        name: of the data set, for people.
        form: of the source (``npz``, ``csv``, ``folder`` ...).
        parts: ``train`` and, where the source has them, ``validation`` and ``test``.
        kind: where the form leaves no doubt (an image folder), else empty.
        classes: names, where the source has them; whole-number labels are then their indices.
        target: what the labels are called in the source.
        test_from: how the source's test part came about; empty when it has none.
        notes: what a person should know about how it was read.
    """

    name: str
    form: str
    parts: Mapping[str, Part]
    kind: str = ""
    classes: tuple[str, ...] | None = None
    target: str = "y"
    test_from: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for role, part in self.parts.items():
            if len(part.x) != len(part.y):
                raise DataError(
                    f"x and y of a sample belong together: the {role} part of {self.name!r} has {len(part.x)} samples"
                    f" in x and {len(part.y)} in y; check that both were saved from the same rows"
                )


def _mask(rows: Array) -> bool:
    return rows.dtype == np.bool_
