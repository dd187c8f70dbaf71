"""Uniform random search: the baseline that every other strategy has to beat."""

from detol.search.records import Candidate
from detol.strategies.base import Proposer


class RandomSearch(Proposer):
    """Samples the space uniformly and learns nothing, so its proposals do not depend on what it is told.

    (But for references: what was told without being asked is not proposed.)
    """

    childless = True

    def propose(self) -> Candidate | None:
        """Return one sample."""
        return self.sample()
