"""A data set as training sees it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from detol.workers.data.lazy import rows_at_once
from detol.workers.data.raw import Array

CONTENT_VERSION = "x1"


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Samples and labels of one part.

    Args:
        x: (n, C, H, W) images, (n, C, L) signals or (n, F) features; contiguous; uint8 for images that came so, else
            float32; not standardised.
        y: (n,) int64 class indices or float32 quantities, in their own units.
    """

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set, read, split and measured. Training standardises ``(x - mean) / std`` batch by batch.

    Args:
        name: for people.
        kind: ``image``, ``signal`` or ``features``.
        task: ``classification`` or ``regression``.
        train: what trains.
        validation: what a search chooses by.
        test: read once, for the winner; ``None`` when there is none or it was taken off.
        classes: names in the order of their indices; empty for regression.
        mean: float32, broadcasts over a sample: (C, 1, 1), (C, 1) or (F,); of the training rows.
        std: likewise, 1 where nothing varies; columns of 0 and 1 that stand for categories have mean 0 and std 1.
        target_mean: of the training labels of a regression, else 0: training fits ``(y - target_mean) / target_std``.
        target_std: likewise, else 1.
        digest: ``x1:`` and 32 hexadecimal digits of the content of all splits, the classes and how it was read.
        preprocessing: JSON-able record for :func:`detol.workers.data.preprocessing.apply`.
        about: how it was read, for :meth:`describe`.
        block: samples that are read together, because the file that holds them is larger than memory (see
            :func:`detol.workers.data.order.epoch_order`); 0: it is not.
    """

    name: str
    kind: str
    task: str
    train: Split
    validation: Split
    test: Split | None
    classes: tuple[str, ...]
    mean: Array
    std: Array
    digest: str
    target_mean: float = 0.0
    target_std: float = 1.0
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    block: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample, channels first."""
        return tuple(int(size) for size in self.train.x.shape[1:])

    @property
    def outputs(self) -> int:
        """How many numbers a network answers with: one for each class, or 1."""
        return len(self.classes) or 1

    def without_test(self) -> "Dataset":
        """Return it without the test split, for those who choose. The digest stays: it is the same data."""
        return replace(self, test=None)

    def splits(self) -> dict[str, Split]:
        """Return the splits that are there, by name."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    def describe(self) -> dict[str, Any]:
        """Return what was understood, as JSON-able values.

        Keys: name, kind, task, shape, outputs, dtype, splits (rows each), test_from, digest, bytes; classes (rows by
        class and split) and balance (smallest class by largest, in training) or target (mean, std, least, most);
        and from reading: form, source, target_name, columns, missing, notes.
        """
        parts = self.splits()
        summary: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "task": self.task,
            "shape": list(self.shape),
            "outputs": self.outputs,
            "dtype": str(self.train.x.dtype),
            "splits": {name: len(part) for name, part in parts.items()},
            "digest": self.digest,
            "bytes": sum(part.x.nbytes + part.y.nbytes for part in parts.values()),
        }
        if self.classes:
            counts = {name: np.bincount(part.y, minlength=len(self.classes)) for name, part in parts.items()}
            summary["classes"] = {
                label: {name: int(count[code]) for name, count in counts.items()}
                for code, label in enumerate(self.classes)
            }
            summary["balance"] = round(float(counts["train"].min() / counts["train"].max()), 4)
        else:
            y = self.train.y
            summary["target"] = {
                "mean": self.target_mean,
                "std": self.target_std,
                "least": float(y.min()),
                "most": float(y.max()),
            }
        return {**summary, **self.about}


def content_digest(splits: Mapping[str, Split], how: Mapping[str, Any]) -> str:
    """Return ``x1:`` and 32 hexadecimal digits of the arrays (type, shape, bytes) and of ``how`` they were read."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(how, sort_keys=True).encode())
    for name, part in splits.items():
        for array in (part.x, part.y):
            digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
            rows = rows_at_once(array.shape, array.dtype)
            for start in range(0, len(array), rows):  # block by block: they may lie in a file, or be encoded
                block = np.ascontiguousarray(array[start : start + rows])
                digest.update(block.reshape(-1).view(np.uint8).data)
    return f"{CONTENT_VERSION}:{digest.hexdigest()}"
