"""Operations as vectors: by their kind and meta-parameters, not by a number in one space.

Equal operations of two spaces have equal vectors, and operations that differ in one meta-parameter have near ones, so
that an encoder trained on some spaces reads others which share operations or parts of them.
"""

import math
import zlib
from functools import lru_cache

import numpy as np

from detol.embedding.graph_features import Floats
from detol.graph.ops import Operation

NAMES, NUMBERS = 128, 32
"""Buckets for what is one of several, and for what is more or less."""
COLUMNS = NAMES + NUMBERS


@lru_cache(maxsize=16384)
def operation_vector(operation: Operation) -> Floats:
    """Return one operation as float32 (``COLUMNS``,): hashed names (Weinberger et al. 2009), logarithms of numbers.

    Each meta-parameter is there twice: as a name of its own (``conv.kernel=3``), which tells it from all others, and if
    it is a positive number as its logarithm in the bucket of its name, which says that 3 is nearer to 5 than to 7.
    """
    row = np.zeros(COLUMNS, np.float32)
    # A kind counts for three meta-parameters: operations of one kind are nearer than equal channels.
    _add(row, operation.kind, math.sqrt(3))
    for name, value in operation.parameters:
        _add(row, f"{operation.kind}.{name}={value}", 1.0)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            _add(row, f"{name}={value}", 0.5)  # shared by all kinds: channels are channels
            row[NAMES + zlib.crc32(name.encode()) % NUMBERS] += math.log2(value) / 4
    return row


def _add(row: Floats, name: str, weight: float) -> None:
    for turn in ("", "'"):  # two buckets for each name: that both collide is unlikely
        code = zlib.crc32((name + turn).encode())
        row[code % NAMES] += weight if code & 0x10000 else -weight
