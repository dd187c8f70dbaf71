"""One network in several rows of a table: whether it scores the same there, so that one row tells of all.

Where each row counts as a training of its own, a network may be tried again: its scores differ by chance, and a second
one may be better. In a table without chance that is a training for nothing, and a surrogate that allows for noise
proposes the twins of a good network for ever. Whether there is chance is read from what was tried.
"""

from collections.abc import Iterable
from statistics import median

from detol.graph.edit import normalise
from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Decisions

PAIRS = 2
"""Pairs of twins that must have scored the same: one may do so by chance."""


class Twins:
    """What was told of rows that differ only in what their network does not use.

    Twins have the same normal form, names included. Networks that are merely isomorphic may be told apart by a table:
    with weights that were drawn by the name of an edge, say.

    Args:
        space: what decodes decisions.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._first: dict[int, tuple[Decisions, float]] = {}  # the first told of each network
        self._lives: dict[Decisions, int] = {}  # what was looked at, because decoding takes time
        self._scores: set[float] = set()
        self._same, self._differ = 0, False

    def note(self, decisions: Decisions, score: float) -> None:
        """Take note of the final score of a row, more is better."""
        if self._differ:
            return
        self._scores.add(score)
        other, before = self._first.setdefault(self._live(decisions), (decisions, score))
        if before != score:
            self._differ = True
        # Bad networks often score the same because they learn nothing.
        elif other != decisions and score > median(self._scores):
            self._same += 1

    def known(self, decisions: Decisions, pending: Iterable[Decisions] = ()) -> bool:
        """Return whether a twin tells what a row scores, or will when it is told.

        Never while too few pairs were tried, or when some of them differ.
        """
        if self._same < PAIRS or self._differ:
            return False
        live = self._live(decisions)
        return live in self._first or any(self._live(other) == live for other in pending)

    def _live(self, decisions: Decisions) -> int:
        if decisions not in self._lives:
            self._lives[decisions] = hash(normalise(self._space.decode(decisions)))
        return self._lives[decisions]
