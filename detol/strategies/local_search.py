"""Local search: climb over the neighbours of an incumbent, start again at a local optimum."""

from collections.abc import Sequence

from detol.errors import unknown
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, Trial
from detol.spaces.decisions import Decisions
from detol.strategies.base import Identity, Proposer, Told
from detol.strategies.options import whole

IMPROVEMENTS = ("first", "best")


class LocalSearch(Proposer):
    """Climbs from a sample to a local optimum, then from another sample, and so on (White et al. 2020, 2005.02960).

    A climb moves to a neighbour that scores better than where it stands: to the ``first`` one that is told, or to the
    ``best`` when all neighbours are told. With many pending trials the neighbours run out before they are all told;
    the search then draws samples, and the best of them are starts of later climbs. The first climb starts from the
    best of what is told before (references).

    Args:
        space: what is searched.
        improvement: ``first`` or ``best``.
        start: samples told before the first climb, the best of which is its start, >= 1.
        seed: of all random numbers.
        identity: what makes two candidates the same one.

    Raises:
        UsageError: another improvement.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        improvement: str = "first",
        start: int = 1,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        super().__init__(space, seed=seed, identity=identity)
        if improvement not in IMPROVEMENTS:
            raise unknown("improvement", improvement, IMPROVEMENTS)
        whole("start", start, 1)
        self._first = improvement == "first"
        self._start = start
        self._here: Told | None = None
        self._better: Told | None = None  # best neighbour told, of a climb that waits for all of them
        self._starts: list[Told] = []  # samples told, not climbed from yet
        self._open: list[Decisions] = []  # neighbours not proposed yet, in random order
        self._waiting: set[Decisions] = set()  # neighbours proposed and not told

    def learn(self, trials: Sequence[Trial]) -> None:
        """Move when a neighbour is better."""
        for told in self.told[-len(trials) :]:
            near = told.decisions in self._waiting
            self._waiting.discard(told.decisions)
            if not told.scored:
                continue
            best = self._better or self._here
            if best is not None and told.score > best.score:
                self._better = told
                if self._first or not near:
                    self._move(told)
            elif not near:
                self._starts.append(told)

    def relearn(self, changes: Sequence[tuple[Told, Told]]) -> None:
        """Put later scores in the place of earlier ones, and move to what has become better than where it stands."""
        for _, after in changes:
            self._starts = [after if told.number == after.number else told for told in self._starts]
            self._starts = [told for told in self._starts if told.scored]
            if self._better is not None and self._better.number == after.number:
                self._better = after if after.scored else None
            if self._here is not None and self._here.number == after.number:
                self._here = after if after.scored else None
                if self._here is None:
                    self._open, self._better = [], None
                    self._waiting.clear()
                continue
            best = self._better or self._here
            if after.scored and best is not None and best.number != after.number and after.score > best.score:
                self._starts = [told for told in self._starts if told.number != after.number]
                self._better = after
                if self._first:
                    self._move(after)

    def propose(self) -> Candidate | None:
        """Return a neighbour of where the climb stands, or a sample when there is none left."""
        if self._here is None and len(self._starts) >= self._start:
            best = max(self._starts, key=lambda told: told.score)
            self._starts.clear()
            self._move(best)
        while self._here is not None:
            if self._open:
                candidate = self.candidate(self._open.pop(), Origin.MUTATE, (self._here.number,))
                if candidate is not None:
                    self._waiting.add(candidate.decisions)
                    return candidate
            elif self._waiting:
                break
            elif self._better is not None:
                self._move(self._better)
            else:
                self._here = None  # a local optimum
        return self.sample()

    def _move(self, told: Told) -> None:
        self._here, self._better = told, None
        self._open = list(self.space.neighbours(told.decisions))
        self.rng.shuffle(self._open)
        self._waiting.clear()
