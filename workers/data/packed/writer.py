"""Writing packed files: block by block, and under their name only when they are whole."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np

from detol.errors import DataError
from detol.workers.data.dataset import Dataset
from detol.workers.data.folder import DEEP, FILES_AT_ONCE, Images
from detol.workers.data.lazy import Selection, rows_at_once
from detol.workers.data.lazy_table import LazyFrame
from detol.workers.data.packed.encoded import Encoded
from detol.workers.data.packed.layout import ALIGNMENT, Header, Section, aligned, hashing, preamble
from detol.workers.data.raw import PARTS, Array
from detol.workers.data.spool import Spool

Progress = Callable[[int, int], None]
KEPT = ("name", "kind", "task", "classes", "digest", "target_mean", "target_std", "preprocessing", "about")


@dataclass
class Growing:
    """An array that is being written.

    Args:
        offset: where it begins.
        dtype: of it.
        hash: of what was written.
        size: bytes that were written.
    """

    offset: int
    dtype: "np.dtype[Any]"
    hash: "hashlib.blake2b"
    size: int = 0


class Writer:
    """Writes one packed file; a :class:`~detol.workers.data.sink.Sink`. Used in a ``with``: what fails leaves nothing.

    Args:
        path: of the file; it appears when all is written.
        spool: unpacks what cannot be read in blocks as it is.
        encoded: whether images are kept as they stand in their files.
        progress: told (samples written, samples in all), split by split or source by source.
    """

    def __init__(self, path: Path, spool: Spool, *, encoded: bool = False, progress: Progress | None = None) -> None:
        self._path, self._spool, self._encoded = path, spool, encoded
        self._progress = progress or (lambda _done, _total: None)
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._handle = -1
        self._end = ALIGNMENT
        self._sections: dict[str, Section] = {}
        self._images: dict[str, Any] | None = None

    def __enter__(self) -> "Writer":
        self._handle = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        self._part.unlink(missing_ok=True)

    def keep(self, samples: Mapping[str, Selection]) -> Mapping[str, Array] | None:
        """Keep images as they stand in their files, where that is asked for (see ``Sink``)."""
        if not self._encoded:
            return None
        source = next(iter(samples.values())).source
        if not isinstance(source, Images) or source.mode == DEEP:
            raise DataError("images that stay encoded must have 8 bits a channel, these have more: leave --encoded out")
        self._images = {"mode": source.mode, "size": source.size, "shape": list(source.shape[1:])}
        return {role: self._files(role, source, selection.rows) for role, selection in samples.items()}

    def put(self, rows: Mapping[str, int], pieces: Iterator[tuple[str, Array]]) -> Mapping[str, Array]:
        """Write the samples of all splits (see ``Sink``)."""
        growing: dict[str, Growing] = {}
        row: tuple[int, ...] = ()
        done = dict.fromkeys(rows, 0)
        for role, piece in pieces:
            if not growing:
                row = piece.shape[1:]
                size = piece.dtype.itemsize * int(np.prod(row, dtype=np.int64))
                growing = {each: self._begin(piece.dtype, count * size) for each, count in rows.items()}
            self._append(growing[role], piece)
            done[role] += len(piece)
            self._progress(sum(done.values()), sum(rows.values()))
        assert done == dict(rows), f"of {rows} samples came {done}"
        for role, section in growing.items():
            self._end_section(f"{role}.x", section, (rows[role], *row))
        return {role: self._view(f"{role}.x") for role in growing}

    def table(self, samples: Selection) -> LazyFrame:
        """Return samples as a table that can be read by columns (see ``Sink``)."""
        return self._spool.table(samples)

    def finish(self, dataset: Dataset, given: Mapping[str, Any]) -> None:
        """Write what is left of a data set, and let the file appear."""
        for role in PARTS:
            part = dataset.splits().get(role)
            if part is None:
                continue
            if f"{role}.x" not in self._sections and f"{role}.bytes" not in self._sections:
                self._whole(f"{role}.x", part.x)
            self._whole(f"{role}.y", part.y)
        self._whole("mean", dataset.mean)
        self._whole("std", dataset.std)
        held = {name: getattr(dataset, name) for name in KEPT}
        header = Header(self._sections, held, given, self._images).to_bytes()
        self._write(self._end, header)
        self._write(0, preamble(header, self._end))
        os.fsync(self._handle)
        os.close(self._handle)
        self._handle = -1
        self._part.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the name outlives a loss of power too
        finally:
            os.close(folder)

    def _whole(self, name: str, array: Array) -> None:
        section = self._begin(array.dtype, array.nbytes)
        rows = rows_at_once(array.shape, array.dtype)
        for start in range(0, len(array), rows):
            self._append(section, array[start : start + rows])
        self._end_section(name, section, array.shape)

    def _files(self, role: str, source: Images, rows: Array) -> Array:
        """Write the files of a split one after the other, and where each begins."""
        section = self._begin(np.dtype(np.uint8), 0)
        ends = [0]
        with ThreadPoolExecutor(4) as pool:
            for start in range(0, len(rows), FILES_AT_ONCE):
                files = [source.files[row] for row in rows[start : start + FILES_AT_ONCE].tolist()]
                for content in pool.map(_content, files):
                    self._append(section, np.frombuffer(content, np.uint8))
                    ends.append(section.size)
                self._progress(len(ends) - 1, len(rows))
        self._end = section.offset + section.size
        self._end_section(f"{role}.bytes", section, (section.size,))
        offsets = np.array(ends, np.int64)
        self._whole(f"{role}.offsets", offsets)
        assert self._images is not None
        return cast("Array", Encoded(self._view(f"{role}.bytes"), offsets, self._images, section=f"{role}.x"))

    def _begin(self, dtype: "np.dtype[Any]", size: int) -> Growing:
        """Set so many bytes aside for an array."""
        section = Growing(aligned(self._end), dtype.newbyteorder("<"), hashing())
        self._end = section.offset + size
        return section

    def _append(self, section: Growing, block: Array) -> None:
        content = np.ascontiguousarray(block, section.dtype).reshape(-1).view(np.uint8).data
        self._write(section.offset + section.size, content)
        section.hash.update(content)
        section.size += len(content)

    def _end_section(self, name: str, section: Growing, shape: tuple[int, ...]) -> None:
        made = Section(section.offset, section.dtype.str, tuple(shape), section.hash.hexdigest())
        assert made.size == section.size, f"{name}: {made.size} bytes were set aside, {section.size} written"
        self._sections[name] = made

    def _view(self, name: str) -> Array:
        section = self._sections[name]
        if not section.size:  # nothing can be mapped
            return np.empty(section.shape, section.dtype)
        return np.memmap(self._part, section.dtype, "r", section.offset, section.shape)

    def _write(self, offset: int, content: "bytes | memoryview") -> None:
        left = memoryview(content)
        while len(left):
            written = os.pwrite(self._handle, left, offset)
            left, offset = left[written:], offset + written


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"each image must be readable: {file}: {error.strerror}; replace or remove it") from None
