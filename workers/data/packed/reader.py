"""Opening packed files."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from detol.errors import DataError, unknown
from detol.workers.data.dataset import Dataset, Split
from detol.workers.data.folder import size_of
from detol.workers.data.packed import nodes
from detol.workers.data.packed.encoded import Encoded
from detol.workers.data.packed.layout import Header, read_header
from detol.workers.data.packed.reference import Mapped, Reference
from detol.workers.data.raw import PARTS, Array
from detol.workers.devices import memory

SUFFIX = ".pack"
SHUFFLES = ("auto", "whole", "blocks")
BLOCK_BYTES = 8 * 2**20  # what a disk reads at full speed


def is_pack(source: object) -> bool:
    """Return whether a source is a file that is called a packed one."""
    return not isinstance(source, Mapping) and str(source).endswith(SUFFIX) and Path(str(source)).is_file()


class Pack:
    """A packed file that was looked at; its arrays are mapped when they are asked for.

    Args:
        path: where it is read.
        header: of it.
        reference: by which others find it.
    """

    def __init__(self, path: Path, header: Header, reference: Reference) -> None:
        self.path, self.header, self.reference = path, header, reference

    def array(self, name: str) -> Array:
        """Return an array of it, read-only; ``train.x`` and the like of encoded images decode when they are indexed."""
        if name not in self.header.sections:
            return self._images(name)
        section = self.header.sections[name]
        found = Mapped(self.path, np.dtype(section.dtype), "r", section.offset, section.shape)
        found.reference, found.section = self.reference, name
        return found

    def dataset(self) -> Dataset:
        """Return the data set, as the source would be read, with the same digest."""
        held = dict(self.header.dataset)
        splits = {
            role: Split(self.array(f"{role}.x"), self.array(f"{role}.y"))
            for role in PARTS
            if f"{role}.y" in self.header.sections
        }
        about = {**held.pop("about"), "source": str(self.path), "form": "pack"}
        return Dataset(
            train=splits["train"],
            validation=splits["validation"],
            test=splits.get("test"),
            mean=np.array(self.array("mean")),
            std=np.array(self.array("std")),
            about={**about, "packed_from": self.header.dataset["about"]["source"]},
            **{**held, "classes": tuple(held["classes"])},
        )

    def _images(self, name: str) -> Array:
        role = name.removesuffix(".x")
        assert self.header.images is not None, f"{self.path} has no array {name}"
        content, offsets = self.array(f"{role}.bytes"), self.array(f"{role}.offsets")
        return cast("Array", Encoded(content, offsets, self.header.images, self.reference, name))


def read(path: Path, given: Mapping[str, Any], *, copy: bool = False, shuffle: str = "auto") -> Dataset:
    """Return the data set of a packed file.

    Args:
        path: of the file.
        given: options of :func:`detol.workers.data.read`. Those that differ from their defaults must be those that the
            source was packed with: a packed file is split and encoded for good.
        copy: whether it is copied once to each node and read there.
        shuffle: ``whole``, ``blocks`` or ``auto``: blocks where it has more than half of the memory.

    Raises:
        DataError: a damaged file, or other options.
    """
    if shuffle not in SHUFFLES:
        raise unknown("shuffle", shuffle, SHUFFLES, DataError)
    header = read_header(path)
    check(path, header, given)
    size = path.stat().st_size
    data = opened(Reference(str(path.resolve()), header.hash, size, copy)).dataset()
    if shuffle == "whole" or (shuffle == "auto" and size <= memory(1, "cpu") / 2):
        return data
    rows = max(1, min(len(data.train), BLOCK_BYTES * len(data.train) // max(1, data.train.x.nbytes)))
    note = f"shuffled by blocks of {rows} samples, so that the file is read in long stretches"
    return replace(data, block=rows, about={**data.about, "notes": [*data.about["notes"], note]})


def check(path: Path, header: Header, given: Mapping[str, Any]) -> None:
    """Refuse options that would read the source of a packed file otherwise than it was.

    Raises:
        DataError: which one.
    """
    usual = defaults()
    for name, value in normal(given).items():
        if value != usual[name] and value != header.given[name]:
            raise DataError(
                f"a packed file stays as it was packed: {path} has {name} {header.given[name]!r}, got {value!r}; pack"
                f" its source again, or leave {name} out"
            )


def defaults() -> dict[str, Any]:
    """Return the options of reading that say how a source becomes a data set, and their defaults."""
    from detol.workers.data.reading import read as read_any

    parameters = inspect.signature(read_any).parameters.items()
    return {name: parameter.default for name, parameter in parameters if name not in ("source", "copy", "shuffle")}


def normal(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON gives them back."""
    size = size_of(given.get("resize"))
    variables = given.get("variables")
    return {
        **given,
        "resize": None if size is None else list(size),
        "variables": dict(variables) if variables else None,
    }


_OPEN: dict[Reference, tuple[tuple[int, ...], Pack]] = {}
"""Files that this process has looked at, with what tells whether they are still the same."""


def opened(reference: Reference) -> Pack:
    """Return the file that a reference names: in place, or the copy of it on this node.

    Raises:
        DataError: neither is there, or it is another file.
    """
    path = nodes.place(reference)
    there = path.stat()
    seen = (there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns)
    if reference in _OPEN and _OPEN[reference][0] == seen and _OPEN[reference][1].path == path:
        return _OPEN[reference][1]
    header = read_header(path)
    if header.hash != reference.hash:
        raise DataError(
            f"a packed file may not change while it is used: {path} has the hash {header.hash}, not {reference.hash};"
            " put it back, or start again"
        )
    _OPEN[reference] = seen, Pack(path, header, reference)
    return _OPEN[reference][1]
