"""Mean and standard deviation of training samples."""

import numpy as np
import numpy.typing as npt

from detol.workers.data.lazy import rows_at_once
from detol.workers.data.raw import Array

ROWS_AT_ONCE, BYTES_AT_ONCE = 4096, 64 * 2**20  # part of the result: sums of float64 depend on their order


def moments(x: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return mean and (population) standard deviation of ``x``, broadcasting over a sample.

    Per channel for (n, C, ...), per column for (n, F); a deviation of 0 becomes 1. Exact for uint8 (counted), in two
    passes of float64 for float32; reads block by block and never holds a copy of all.
    """
    axes = (0, *range(2, x.ndim))
    shape = (x.shape[1], *[1] * (x.ndim - 2))
    if x.dtype == np.uint8:
        counts = np.zeros((x.shape[1], 256), np.int64)
        rows = rows_at_once(x.shape, counts.dtype)  # which bincount makes of them
        for start in range(0, len(x), rows):
            block = x[start : start + rows]
            counts += [np.bincount(block[:, channel].reshape(-1), minlength=256) for channel in range(x.shape[1])]
        values = np.arange(256, dtype=np.float64)
        mean = (counts * values).sum(axis=1) / counts.sum(axis=1)
        variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / counts.sum(axis=1)
    else:
        size = x.size // x.shape[1]
        rows = min(ROWS_AT_ONCE, rows_at_once(x.shape, np.dtype(np.float32), size=BYTES_AT_ONCE))
        starts = range(0, len(x), rows)
        total = np.sum([x[start : start + rows].sum(axis=axes, dtype=np.float64) for start in starts], axis=0)
        mean = total / size
        centred = [
            ((x[start : start + rows].astype(np.float64) - mean.reshape(shape)) ** 2).sum(axis=axes) for start in starts
        ]
        variance = np.sum(centred, axis=0) / size
    std = np.sqrt(variance)
    std = np.where(std > 1e-7 * np.maximum(1e-30, np.abs(mean)), std, 1)  # below that it is float32's rounding
    return mean.reshape(shape).astype(np.float32), std.reshape(shape).astype(np.float32)
