"""The layout of a packed file, and how a damaged one is told.

::

    0      preamble, 64 bytes: magic, version, flags, bytes of the file, where the header is, its length, its hash
    4096   arrays, each at a multiple of 4096 bytes, little-endian, in C order
    ...    header: JSON, with offset, shape, type and hash of each array, and what else a data set is

The preamble is written last: a file that was not finished has no magic. Its size, and its header's place and hash, are
looked at whenever it is opened, the hashes of the arrays before a search uses it and by ``detol data verify``.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError

MAGIC = b"DETOLPCK"
VERSION = 1
ALIGNMENT = 4096
PREAMBLE = struct.Struct("<8sIIQQQ16s8x")
"""Magic, version, flags (0), bytes of the file, offset and length of the header, its BLAKE2b-128."""


def hashing() -> "hashlib.blake2b":
    """Return the hash of headers and arrays: BLAKE2b of 128 bits (RFC 7693)."""
    return hashlib.blake2b(digest_size=16)


def aligned(offset: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Section:
    """One array of a file.

    Args:
        offset: of its first byte.
        dtype: as numpy writes it, little-endian: ``|u1``, ``<f4``, ``<i8``.
        shape: of the array.
        hash: 32 hexadecimal digits, of its bytes.
    """

    offset: int
    dtype: str
    shape: tuple[int, ...]
    hash: str

    @property
    def size(self) -> int:
        """Bytes."""
        return int(np.dtype(self.dtype).itemsize * math.prod(self.shape))


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself.

    Args:
        sections: by name: ``train.x``, ``train.y``, ..., ``mean``, ``std``; for encoded images ``train.bytes`` and
            ``train.offsets`` in the place of ``train.x``.
        dataset: name, kind, task, classes, digest, target_mean, target_std, preprocessing, about.
        given: how the source was read: the options of :func:`detol.workers.data.read`.
        images: of encoded images ``mode`` and ``size`` (as for Pillow) and ``shape`` of a sample; else ``None``.
        hash: of the header itself, 32 hexadecimal digits: the identity of the file.
    """

    sections: Mapping[str, Section]
    dataset: Mapping[str, Any]
    given: Mapping[str, Any]
    images: Mapping[str, Any] | None
    hash: str = ""

    def to_bytes(self) -> bytes:
        """Return the JSON that :meth:`from_bytes` reads."""
        body = {
            "sections": {name: asdict(section) for name, section in self.sections.items()},
            "dataset": dict(self.dataset),
            "given": dict(self.given),
            "images": self.images,
        }
        return json.dumps(body, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> "Header":
        """Return the header of a JSON text."""
        body = json.loads(text)
        sections = {
            name: Section(**{**section, "shape": tuple(section["shape"])}) for name, section in body["sections"].items()
        }
        return cls(sections, body["dataset"], body["given"], body["images"], _hash(text))

    def check(self, end: int) -> None:
        """Refuse what cannot be mapped: a header may have its hash and still be from another hand.

        Raises:
            ValueError: an array that is no numbers or outside of the bytes before ``end``, or something is missing.
        """
        for name, section in self.sections.items():
            if np.dtype(section.dtype).kind not in "biuf" or not all(side >= 0 for side in section.shape):
                raise ValueError(f"{name} is {section.dtype} of {section.shape}")
            if not PREAMBLE.size <= section.offset <= end - section.size:
                raise ValueError(f"{name} lies outside of the file")
        x = ("x",) if self.images is None else ("bytes", "offsets")
        wanted = {f"{part}.{what}" for part in ("train", "validation") for what in (*x, "y")}
        facts = {"name", "kind", "task", "classes", "digest", "target_mean", "target_std", "preprocessing", "about"}
        if missing := sorted((wanted - set(self.sections)) | (facts - set(self.dataset))):
            raise ValueError(f"it lacks {', '.join(missing)}")


def preamble(header: bytes, offset: int) -> bytes:
    """Return the first bytes of a file whose header, its last bytes, is at ``offset``."""
    size = offset + len(header)
    return PREAMBLE.pack(MAGIC, VERSION, 0, size, offset, len(header), bytes.fromhex(_hash(header)))


def read_header(path: Path) -> Header:
    """Read the header of a file, checking its magic, version, size, place and hash.

    Raises:
        DataError: whatever is wrong, in one line.
    """
    try:
        with path.open("rb") as file:
            there = os.fstat(file.fileno()).st_size
            first = file.read(PREAMBLE.size)
            if not first.startswith(MAGIC):
                raise DataError(
                    f"a packed file begins with {MAGIC.decode()}: {path} is none"
                    f" ({there:,} bytes, {first[: len(MAGIC)]!r} ...); make one by detol data pack"
                )
            if len(first) < PREAMBLE.size:
                raise _cut(path, there, PREAMBLE.size)
            _, version, _, size, offset, length, known = PREAMBLE.unpack(first)
            if version > VERSION:
                raise DataError(
                    f"this detol reads packed files up to version {VERSION}: {path} has version {version}; update detol"
                    " or pack the data again"
                )
            if there != size:
                raise _cut(path, there, size)
            if offset < PREAMBLE.size or offset + length != size:  # no hash covers them
                raise DataError(
                    f"the header of a packed file must be the last of its {size:,} bytes: that of {path} is said to"
                    f" have {length:,} from byte {offset:,} on, it is damaged; copy it or pack the data again"
                )
            file.seek(offset)
            text = file.read(length)
    except OSError as error:
        raise DataError(
            f"a packed file must be readable: {path}: {error.strerror or error}; check its rights"
        ) from None
    if _hash(text) != known.hex():
        raise DataError(
            f"the header of a packed file must have the hash {known.hex()}: that of {path} has {_hash(text)}, it is"
            " damaged; copy it or pack the data again"
        )
    try:
        header = Header.from_bytes(text)
        header.check(offset)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"the header of a packed file must say where its arrays lie: that of {path} does not"
            f" ({type(error).__name__}: {error}); pack the data again"
        ) from None
    return header


def _cut(path: Path, there: int, size: int) -> DataError:
    what = "cut off" if there < size else "longer than it was written"
    return DataError(
        f"a packed file must be whole: {path} is {what} ({there:,} of {size:,} bytes); copy it or pack the data again"
    )


def _hash(text: bytes) -> str:
    found = hashing()
    found.update(text)
    return found.hexdigest()
