"""How fast files are read here."""

import os
import tempfile
import time
from pathlib import Path

BYTES = 64 * 2**20
BLOCK = 2**20


def read_bandwidth(folder: Path, size: int = BYTES) -> float:
    """Return the bytes a second at which a file in a folder is read that is not in memory any more.

    Where the system does not forget a file when it is told to, it is the speed of memory that is measured.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix="detol-read-") as file:
        block = os.urandom(BLOCK)
        for _ in range(max(1, size // BLOCK)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began, read = time.perf_counter(), 0
        with Path(file.name).open("rb", buffering=0) as again:
            while part := again.read(BLOCK):
                read += len(part)
        return read / max(time.perf_counter() - began, 1e-9)
