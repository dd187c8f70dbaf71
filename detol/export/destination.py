"""A directory that appears whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from detol.errors import UsageError


def check_destination(directory: Path) -> Path:
    """Return the absolute path of a directory that does not exist yet, or is empty.

    Raises:
        UsageError: it is a file, holds something, or its parent cannot be written.
    """
    directory = directory.absolute()
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"export needs a directory, {str(directory)!r} is a file: choose another --to")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"export needs an empty directory, {str(directory)!r} is not: choose another --to")
    parent = next(folder for folder in directory.parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"export cannot write into {str(parent)!r}: choose another --to")
    return directory


@contextlib.contextmanager
def whole(directory: Path) -> Iterator[Path]:
    """Give a temporary directory beside ``directory`` that takes its place at the end; after an error nothing is left.

    Raises:
        UsageError: see :func:`check_destination`.
    """
    directory = check_destination(directory)
    made = [folder for folder in directory.parents if not folder.exists()]
    directory.parent.mkdir(parents=True, exist_ok=True)
    # On the same disk, so that the last step is one rename.
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield scratch
        scratch.chmod(0o777 & ~_umask())
        scratch.replace(directory)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # somebody else uses it by now
                folder.rmdir()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
