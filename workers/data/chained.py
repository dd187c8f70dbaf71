"""Samples of several parts, one after the other, in the place of an array: packed ones stay where they are."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from detol.workers.data.raw import Array


class Chained:
    """Samples (n, ...) of parts (n1, ...), (n2, ...) ...: indexing reads those that are asked for.

    Args:
        parts: arrays, maps of packed files or encoded images, of one shape and type; at least one.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self._edges = np.cumsum([0, *(len(part) for part in parts)])
        self.shape: tuple[int, ...] = (int(self._edges[-1]), *parts[0].shape[1:])
        self.dtype: np.dtype[Any] = parts[0].dtype
        self.nbytes = sum(int(part.nbytes) for part in parts)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Axes, that of the samples included."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> Array:
        """Read samples by number, slice, numbers or mask."""
        wanted = np.arange(len(self))[key]
        rows = np.atleast_1d(wanted)
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        homes = np.searchsorted(self._edges, rows, side="right") - 1
        for home in np.unique(homes).tolist():
            here = homes == home
            found[here] = self._parts[home][rows[here] - self._edges[home]]
        return found if np.ndim(wanted) else np.asarray(found[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Read all of them."""
        if copy is False:
            raise ValueError("samples of several parts become an array by copying them")
        return np.concatenate([np.asarray(part) for part in self._parts], dtype=dtype)


def chained(parts: Sequence[Any]) -> Array:
    """Return samples of parts, one after the other, in the place of an array."""
    return cast("Array", Chained(parts))
