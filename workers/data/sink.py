"""Where samples go that are not held in memory: the seam between reading a source and writing a packed file."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from detol.workers.data.lazy import Selection
from detol.workers.data.lazy_table import LazyFrame
from detol.workers.data.raw import Array


class Sink(Protocol):
    """Takes the samples of all splits, once, and gives back arrays that read them from where they were put."""

    def keep(self, samples: Mapping[str, Selection]) -> Mapping[str, Array] | None:
        """Keep samples (n, C, H, W) as they stand in their source; ``None``: they are wanted as values, by ``put``.

        Raises:
            DataError: they cannot be kept so, though that is asked for.
        """
        ...

    def put(self, rows: Mapping[str, int], pieces: Iterator[tuple[str, Array]]) -> Mapping[str, Array]:
        """Store pieces (k, ...) of each role, all of one shape and type, in order; ``rows`` are as many as come.

        Returns:
            By role, an array (n, ...) of them.
        """
        ...

    def table(self, samples: Selection) -> LazyFrame:
        """Return samples (n, F) as a table that can be read by columns."""
        ...
