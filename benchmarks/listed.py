"""A strategy whose candidates are known beforehand."""

from collections.abc import Sequence

from detol.search.records import Candidate, Trial


class Listed:
    """Proposes candidates in a given order (keeps the protocol of a strategy)."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._left = list(candidates)

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return the next ones."""
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn nothing."""
