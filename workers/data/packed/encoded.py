"""Images that stay encoded (JPEG, PNG ...) until they are looked at."""

import io
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data.folder import MOST_THREADS, pixels
from detol.workers.data.packed.reference import Reference, restored
from detol.workers.data.raw import Array

AT_ONCE = 32
"""Images that a thread decodes before it looks for more."""


class Encoded:
    """Images (n, 1 or 3, H, W) uint8 in the place of an array: indexing decodes, in threads; Pillow lets go meanwhile.

    Args:
        content: of all files, one after the other, (bytes,) uint8.
        offsets: (n + 1,) where each begins, and the last ends.
        how: ``mode`` and ``size`` that they are read as (see :mod:`detol.workers.data.folder`), ``shape`` of a sample.
        reference: of the packed file; ``None`` for one that is being written.
        section: its name there.
    """

    dtype: "np.dtype[Any]" = np.dtype(np.uint8)

    def __init__(
        self,
        content: Array,
        offsets: Array,
        how: Mapping[str, Any],
        reference: Reference | None = None,
        section: str = "",
    ) -> None:
        self._content, self._offsets, self._how = content, offsets, how
        self.reference, self._section = reference, section
        size = how["size"]
        self._size = None if size is None else (int(size[0]), int(size[1]))
        self.shape: tuple[int, ...] = (len(offsets) - 1, *(int(side) for side in how["shape"]))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Axes: 4."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Numbers in all, decoded."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes in all, as they are kept."""
        return int(self._offsets[-1])

    def __getitem__(self, key: Any) -> Array:
        """Decode images: by number, slice, numbers or mask, and then index their axes."""
        rows, *rest = key if isinstance(key, tuple) else (key,)
        numbers = np.arange(len(self))[rows]
        found = self._decode(np.atleast_1d(numbers).reshape(-1)).reshape(*np.shape(numbers), *self.shape[1:])
        return found[(slice(None),) * np.ndim(numbers) + tuple(rest)] if rest else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Decode all images."""
        if copy is False:
            raise ValueError("encoded images become an array by decoding them: that is a copy")
        return np.asarray(self[:], dtype)

    def __reduce__(self) -> Any:
        if self.reference is None:
            return np.asarray, (np.asarray(self),)
        return restored, (self.reference, self._section)

    def _decode(self, numbers: Array) -> Array:
        out = np.empty((len(numbers), *self.shape[1:]), np.uint8)

        def load(start: int) -> None:
            for place in range(start, min(start + AT_ONCE, len(numbers))):
                out[place] = self._image(int(numbers[place]))

        starts = range(0, len(numbers), AT_ONCE)
        if len(starts) > 1:
            list(_threads().map(load, starts))
        elif len(starts):
            load(0)
        return out

    def _image(self, number: int) -> Array:
        from PIL import Image

        held = self._content[int(self._offsets[number]) : int(self._offsets[number + 1])]
        try:
            with Image.open(io.BytesIO(held.tobytes())) as image:
                return pixels(image, self._how["mode"], self._size)
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            place = self.reference.path if self.reference else "a packed file"
            raise DataError(
                f"each image must be readable: number {number} of {self._section} of {place} is not: {error}; see detol"
                " data verify"
            ) from None


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(MOST_THREADS, len(os.sched_getaffinity(0))), thread_name_prefix="detol-decode")
