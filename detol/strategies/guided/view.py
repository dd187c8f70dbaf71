"""One view of the graphs of a pool: what counts as far apart, and which figures a prior mean is linear in."""

import numpy as np
from numpy.typing import NDArray

from detol.embedding.graph_features import Floats

Rows = NDArray[np.intp] | slice


class View:
    """Structural distances and inner products of figures between the rows of a pool.

    Args:
        patterns: float32 (rows, buckets).
        figures: float32 (rows, figures), as they are; those that are the same in all rows do not count.
        vectors: learned ones, (rows, columns); none by default.
        wide: whether structural distances are the mean of those of the patterns, of the figures and of the vectors
            where there are any, not of the patterns alone.

    Attributes:
        figures: standardised, divided by the root of their number: float32 (rows, figures).
    """

    def __init__(self, patterns: Floats, figures: Floats, vectors: Floats | None = None, *, wide: bool = False) -> None:
        exact = figures.astype(np.float64)
        deviation = exact.std(axis=0)
        kept = deviation > 1e-9
        scaled = (exact[:, kept] - exact[:, kept].mean(axis=0)) / deviation[kept]
        self.figures: Floats = (scaled / np.sqrt(max(1, scaled.shape[1]))).astype(np.float32)
        self._structure = patterns
        if wide:
            blocks = [patterns, self.figures, *([] if vectors is None or not vectors.shape[1] else [vectors])]
            self._structure = np.hstack([block / np.sqrt(np.float32(_spread(block))) for block in blocks])
        self._lengths = np.einsum("ij,ij->i", self._structure, self._structure)
        self._spread = _spread(self._structure)

    def structural(self, left: Rows, right: Rows) -> Floats:
        """Return squared distances of the graphs, 1 on average over all rows: float32 (left, right)."""
        a, b = self._structure[left], self._structure[right]
        squares = self._lengths[left][:, None] + self._lengths[right][None, :] - 2 * (a @ b.T)
        return np.asarray(np.maximum(squares, 0) / np.float32(self._spread), np.float32)

    def linear(self, left: Rows, right: Rows) -> Floats:
        """Return inner products of the standardised figures, divided by their number: float32 (left, right)."""
        return np.asarray(self.figures[left] @ self.figures[right].T, np.float32)


def _spread(rows: Floats) -> float:
    """Return the mean squared distance of two rows: what all rows share does not count."""
    lengths = np.einsum("ij,ij->i", rows, rows)
    mean = rows.mean(axis=0, dtype=np.float64)
    return max(2 * float(lengths.mean(dtype=np.float64) - mean @ mean), 1e-6)
