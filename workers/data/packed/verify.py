"""Looking at every byte of a packed file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from detol.errors import DataError
from detol.workers.data.dataset import content_digest
from detol.workers.data.packed.layout import Header, hashing, read_header
from detol.workers.data.packed.reader import Pack
from detol.workers.data.packed.reference import Reference

AT_ONCE = 2**24
Progress = Callable[[int, int], None]


def verify(path: Path, *, decode: bool = True, progress: Progress | None = None) -> dict[str, Any]:
    """Check a file against all of its hashes, and the data set in it against its digest.

    Args:
        path: of the file.
        decode: whether encoded images are decoded for that; without, their bytes alone are checked.
        progress: told (bytes looked at, bytes in all).

    Returns:
        file, bytes, hash, digest, sections, encoded, and decoded: whether the digest was compared too.

    Raises:
        DataError: what does not fit, in one line.
    """
    header = read_header(path)
    sections(path, header, progress)
    size = path.stat().st_size
    decoded = decode or header.images is None
    if decoded:
        data = Pack(path, header, Reference(str(path), header.hash, size)).dataset()
        how = {"task": data.task, "classes": data.classes, "preprocessing": data.preprocessing}
        found = content_digest(data.splits(), how)
        if found != data.digest:
            cause = "another decoder reads its images otherwise" if header.images else "it was packed wrongly"
            raise DataError(
                f"the data in a packed file must have its digest {data.digest}: those in {path} have {found}, {cause};"
                " pack the data again"
            )
    return {
        "file": str(path),
        "bytes": size,
        "hash": header.hash,
        "digest": header.dataset["digest"],
        "sections": len(header.sections),
        "encoded": header.images is not None,
        "decoded": decoded,
    }


def sections(path: Path, header: Header, progress: Progress | None = None) -> None:
    """Check each array of a file against its hash.

    Raises:
        DataError: which one differs.
    """
    total, done = sum(section.size for section in header.sections.values()), 0
    with path.open("rb") as file:
        for name, section in header.sections.items():
            found = hashing()
            file.seek(section.offset)
            left = section.size
            while left and (block := file.read(min(AT_ONCE, left))):
                found.update(block)
                left -= len(block)
                done += len(block)
                if progress:
                    progress(done, total)
            if found.hexdigest() != section.hash:
                raise DataError(
                    f"{name} of a packed file must have the hash {section.hash}: that of {path} has"
                    f" {found.hexdigest()}, it is damaged; copy it or pack the data again"
                )
