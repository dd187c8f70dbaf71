"""Rewards for policies: ranks instead of scores, so that no scale, offset or outlier of a metric matters."""

from bisect import bisect_left, bisect_right, insort


class Ranks:
    """The rank of a score among all scores added so far, in [0, 1]: 1 above all others, 0 below all.

    A score that is missing (minus infinity) is worth 0 however many others failed as well.
    """

    def __init__(self) -> None:
        self._sorted: list[float] = []

    def add(self, score: float) -> None:
        """Add a score."""
        insort(self._sorted, score)

    def replace(self, before: float, after: float) -> None:
        """Put a score in the place of one that was added."""
        del self._sorted[bisect_left(self._sorted, before)]
        insort(self._sorted, after)

    def of(self, score: float) -> float:
        """Return the rank of a score that was added: the share of others that it beats, ties counting half."""
        if score == float("-inf"):
            return 0.0
        below = bisect_left(self._sorted, score)
        ties = bisect_right(self._sorted, score) - below - 1
        return (below + ties / 2) / (len(self._sorted) - 1) if len(self._sorted) > 1 else 0.5
