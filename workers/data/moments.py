"""Mean and standard deviation of training samples."""

import numpy as np
import numpy.typing as npt

from detol.workers.data.raw import Array

ROWS_AT_ONCE = 4096


def moments(x: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return mean and (population) standard deviation of ``x``, broadcasting over a sample.

    Per channel for (n, C, ...), per column for (n, F); a deviation of 0 becomes 1. Exact for uint8 (counted), in two
    passes of float64 for float32; never holds a float64 copy of all.
    """
    axes = (0, *range(2, x.ndim))
    shape = (x.shape[1], *[1] * (x.ndim - 2))
    if x.dtype == np.uint8:
        counts = np.stack([np.bincount(x[:, channel].reshape(-1), minlength=256) for channel in range(x.shape[1])])
        values = np.arange(256, dtype=np.float64)
        mean = (counts * values).sum(axis=1) / counts.sum(axis=1)
        variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / counts.sum(axis=1)
    else:
        size = x.size // x.shape[1]
        chunks = [x[start : start + ROWS_AT_ONCE] for start in range(0, len(x), ROWS_AT_ONCE)]
        total = np.sum([chunk.sum(axis=axes, dtype=np.float64) for chunk in chunks], axis=0)
        mean = total / size
        centred = [((chunk.astype(np.float64) - mean.reshape(shape)) ** 2).sum(axis=axes) for chunk in chunks]
        variance = np.sum(centred, axis=0) / size
    std = np.sqrt(variance)
    std = np.where(std > 1e-7 * np.maximum(1e-30, np.abs(mean)), std, 1)  # below that it is float32's rounding
    return mean.reshape(shape).astype(np.float32), std.reshape(shape).astype(np.float32)
