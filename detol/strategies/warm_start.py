"""A warm start for strategies that learn from what they are told: first the best topologies of other data sets."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from detol.search.protocols import SearchSpace, Strategy
from detol.search.records import Candidate, Origin, Trial
from detol.search.warm import WarmSource
from detol.spaces.decisions import Decisions
from detol.strategies.base import Identity, complete

FIRST = 6
"""Candidates that come from the sources."""


class WarmStart:
    """Proposes the best of the sources first, in turns, and from then on what another strategy proposes.

    The other strategy is told of all trials; what it did not propose it learns from as from references. What came from
    the sources is not proposed again.

    Args:
        strategy: keeps the protocol.
        space: of both; decisions that are not complete in it are left out.
        sources: each with its records, best first.
        first: how many of their topologies are tried, >= 1.
        identity: what makes two candidates the same one; by default the digest.
    """

    def __init__(
        self,
        strategy: Strategy,
        space: SearchSpace,
        sources: Sequence[WarmSource],
        *,
        first: int = FIRST,
        identity: Identity | None = None,
    ) -> None:
        self._strategy, self._space = strategy, space
        self._identity: Identity = identity or (lambda candidate: candidate.digest)
        self._seen: set[object] = set()
        self._waiting = deque(_in_turns(space, sources, 4 * first))
        self._left = first

    def __getattr__(self, name: str) -> Any:
        """Return what else the other strategy has (what it measures, say)."""
        if name.startswith("__") or name == "_strategy":
            raise AttributeError(name)
        return getattr(self._strategy, name)

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return at most ``count`` (>= 1) new candidates; none means that the space is exhausted."""
        if count < 1:
            raise ValueError(f"ask for at least 1 candidate, got {count}")
        found: list[Candidate] = []
        while self._waiting and self._left and len(found) < count:
            decisions, note = self._waiting.popleft()
            candidate = Candidate(decisions, self._space.decode(decisions), Origin.WARM, note=note)
            if self._new(candidate):
                self._left -= 1
                found.append(candidate)
        if found:
            self._announce(found)
        while len(found) < count:
            more = self._strategy.ask(count - len(found))
            if not more:
                break
            found += [candidate for candidate in more if self._new(candidate)]
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        """Tell the other strategy."""
        self._seen.update(self._identity(trial.candidate) for trial in trials)
        self._strategy.tell(trials)

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """Take note of candidates that are tried without being asked for."""
        self._seen.update(map(self._identity, candidates))
        self._announce(candidates)

    def _announce(self, candidates: Sequence[Candidate]) -> None:
        expect = getattr(self._strategy, "expect", None)
        if expect:
            expect(candidates)

    def _new(self, candidate: Candidate) -> bool:
        identity = self._identity(candidate)
        if identity in self._seen:
            return False
        self._seen.add(identity)
        return True


def _in_turns(space: SearchSpace, sources: Sequence[WarmSource], most: int) -> list[tuple[Decisions, str]]:
    """Return decisions of the sources with where each comes from: the best of each, then the second best ..."""
    lists = [[record for record in source.records if complete(space, record.decisions)] for source in sources]
    longest = max(map(len, lists), default=0)
    turns = [(records[n].decisions, records[n].trial) for n in range(longest) for records in lists if n < len(records)]
    return turns[:most]
