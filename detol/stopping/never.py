"""No early stopping."""

from collections.abc import Iterable

from detol.search.records import Trial, Verdict


class Never:
    """Lets every trial train to its end."""

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:  # noqa: ARG002  the seam gives both
        """Return CONTINUE."""
        return Verdict.CONTINUE
