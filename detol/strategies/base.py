"""What every strategy keeps: which identities were proposed, which are pending, and what was told.

A strategy derives from :class:`Proposer` and writes ``propose`` (one candidate) and, where it learns, ``learn``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, State, Trial
from detol.spaces.decisions import Decisions

Identity: TypeAlias = Callable[[Candidate], Hashable]
"""What makes two candidates the same one: by default the digest of the network."""

TRIES = 100
"""Proposals of one candidate in a row that may turn out known before uniform samples are drawn instead."""
SAMPLES = 1_000
"""Uniform samples in a row that may turn out known before the space counts as exhausted (or is enumerated)."""
ENUMERABLE = 200_000
"""Largest size of a space that is enumerated to find the last new topologies."""
REMEMBERED = 200_000
"""Decisions whose identities are remembered, so that a digest (some milliseconds) is not computed again."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a strategy keeps of a trial: no curve and no topology, so that 100,000 of them fit into memory.

    Args:
        number: of the trial.
        decisions: complete decisions of the space.
        identity: what the strategy was told to count as the same candidate.
        state: a final state, or PAUSED: the score is that of fewer epochs, and a later telling replaces it.
        score: the primary score, more is better; minus infinity when there is none.
        scores: all objectives, more is better; ``None`` when there are none.
    """

    number: int
    decisions: Decisions
    identity: Hashable
    state: State
    score: float
    scores: tuple[float, ...] | None

    @property
    def scored(self) -> bool:
        """Whether the score is finite."""
        return self.score > -np.inf


class Proposer(ABC):
    """Asks for each identity at most once, notices exhaustion, and keeps what was told in compact form.

    Args:
        space: what is searched; read through its protocol alone.
        seed: of ``rng``, the only source of randomness.
        identity: what makes two candidates the same one; by default the digest of the network. It must be a function
            of the decisions.

    Attributes:
        rng: random numbers; state and proposals are functions of the arguments and of the sequence of calls.
        pending: asked and not yet told, by identity, in the order asked.
        told: every trial told whose decisions are complete in this space, scored or not, in the order first told.
        seen: identities that were proposed or told; they only ever become more.

    ``ask`` calls ``prepare`` once, then ``propose`` for each candidate; each accepted one is in ``pending`` and
    ``seen`` before the next is proposed. When ``tries`` proposals in a row are known already (fewer while that goes
    on), uniform samples are tried: ``SAMPLES`` in a large or endless space, which counts as exhausted for this call
    when all of them are known; a tenth of that in a space of at most ``ENUMERABLE`` decision sequences, which is
    enumerated then, so that the answer is empty only when nothing new is left.
    """

    tries: int = TRIES

    childless: bool = False
    """Whether no candidate names parents: then ``--inherit`` has nothing to take over."""

    def __init__(self, space: SearchSpace, *, seed: int = 0, identity: Identity | None = None) -> None:
        self.space = space
        self.rng = np.random.default_rng(seed)
        self.pending: dict[Hashable, Candidate] = {}
        self.told: list[Told] = []
        self.seen: set[Hashable] = set()
        self._identity: Identity = identity or (lambda candidate: candidate.digest)
        self._remembered: dict[Decisions, Hashable] = {}  # oldest first
        self._paused: dict[int, int] = {}  # number of a trial told while PAUSED -> its place in ``told``
        self._rest: Iterator[Decisions] | None = None
        self._exhausted = False
        self._patience = self.tries

    @abstractmethod
    def propose(self) -> Candidate | None:
        """Return one candidate made by ``candidate``, or ``None`` when this attempt led to a known one."""

    def prepare(self, count: int) -> None:  # noqa: B027  a hook
        """Do once what the next ``count`` calls of ``propose`` need (fit a model, say). Does nothing by default."""

    def learn(self, trials: Sequence[Trial]) -> None:  # noqa: B027  a hook
        """Learn from trials just told (``told``, ``seen`` and ``pending`` are up to date). Does nothing by default.

        Only trials whose decisions are complete in this space are given; they may have no score, and some may be
        PAUSED.
        """

    def relearn(self, changes: Sequence[tuple[Told, Told]]) -> None:  # noqa: B027  a hook
        """Learn that trials told while PAUSED have come further: what stood in ``told``, and what stands there now.

        Called after ``learn`` where both are called. Does nothing by default: a strategy that keeps scores of its own
        brings them up to date here.
        """

    def candidate(self, decisions: Decisions, origin: Origin, parents: tuple[int, ...] = ()) -> Candidate | None:
        """Return the candidate of complete decisions, or ``None`` when its identity was proposed or told already."""
        if self.known(decisions):
            return None
        made = Candidate(decisions, self.space.decode(decisions), origin, parents)
        return None if self.identify(made) in self.seen else made

    def known(self, decisions: Decisions) -> bool:
        """Return whether these decisions are remembered as proposed or told: cheap, and ``False`` when not sure."""
        identity = self.recall(decisions)
        return identity is not None and identity in self.seen

    def recall(self, decisions: Decisions) -> Hashable | None:
        """Return the identity of decisions met before, or ``None`` when they are not remembered."""
        return self._remembered.get(decisions)

    def identify(self, candidate: Candidate) -> Hashable:
        """Return the candidate's identity, from memory where its decisions have been met before."""
        found = self._remembered.get(candidate.decisions)
        if found is None:
            found = self._identity(candidate)
            if candidate.decisions:  # a foreign topology may come without any
                self._remembered[candidate.decisions] = found
                if len(self._remembered) > REMEMBERED:
                    del self._remembered[next(iter(self._remembered))]
        return found

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return at most ``count`` (>= 1) new candidates; none means that the space is exhausted."""
        if count < 1:
            raise ValueError(f"ask for at least 1 candidate, got {count}")
        if self._exhausted:
            return ()
        self.prepare(count)
        found: list[Candidate] = []
        while len(found) < count:
            candidate = self._new()
            if candidate is None:
                break
            identity = self.identify(candidate)
            self.seen.add(identity)
            self.pending[identity] = candidate
            found.append(candidate)
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn from final and paused trials, also from ones that were not asked for.

        A trial that was told while it was PAUSED takes the place of what was told of it then.

        Raises:
            ValueError: a trial that is still running.
        """
        learnt: list[Trial] = []
        changes: list[tuple[Told, Told]] = []
        for trial in trials:
            if trial.state is State.RUNNING:
                raise ValueError(f"only final and paused trials are told: trial {trial.number} is {trial.state}")
            identity = self.identify(trial.candidate)
            self.seen.add(identity)
            self.pending.pop(identity, None)
            decisions = whole(self.space, trial.candidate.decisions)
            if decisions is not None:
                scored = trial.state.scored and trial.score > -np.inf
                score = trial.score if scored else -np.inf
                scores = trial.scores if scored else None
                told = Told(trial.number, decisions, identity, trial.state, score, scores)
                place = self._paused.pop(trial.number, None)
                if place is None:
                    place = len(self.told)
                    self.told.append(told)
                    learnt.append(trial)
                else:
                    if all(other.number != trial.number for other in learnt):
                        changes.append((self.told[place], told))
                    self.told[place] = told
                if trial.state is State.PAUSED:
                    self._paused[trial.number] = place
        if learnt:
            self.learn(learnt)
        if changes:
            self.relearn(changes)

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """Take note of candidates that are tried without being asked for (references): they are not proposed.

        They are pending until they are told. Called before anything else, if at all.
        """
        for candidate in candidates:
            identity = self.identify(candidate)
            self.seen.add(identity)
            self.pending[identity] = candidate

    def sample(self) -> Candidate | None:
        """Return a uniform sample of the space, or ``None`` when it is known already."""
        return self.candidate(self.space.sample(self.rng), Origin.SAMPLE)

    def _new(self) -> Candidate | None:
        for _ in range(self._patience):
            candidate = self.propose()
            if candidate is not None:
                self._patience = min(self.tries, 2 * self._patience)
                return candidate
        # What failed just now will hardly do better for the next candidate.
        self._patience = max(1, self._patience // 2)
        for _ in range(SAMPLES // 10 if self._enumerable() else SAMPLES):
            candidate = self.sample()
            if candidate is not None:
                return candidate
        return self._enumerated() if self._enumerable() else None

    def _enumerable(self) -> bool:
        return self.space.size is not None and self.space.size <= ENUMERABLE

    def _enumerated(self) -> Candidate | None:
        # One pass serves the whole search: what it has gone over is known, and nothing known becomes new again.
        self._rest = self._rest or iter(self.space.enumerate())
        for decisions in self._rest:
            candidate = self.candidate(decisions, Origin.SAMPLE)
            if candidate is not None:
                return candidate
        self._exhausted = True
        return None


def whole(space: SearchSpace, decisions: Decisions) -> Decisions | None:
    """Return decisions, those of an earlier form of the space completed (``Choice.before``); ``None``: of another."""
    found: dict[str, bool | int | float | str] = {}
    while (choice := space.next(Decisions(found))) is not None:
        option = decisions.get(choice.name, choice.before)
        if option is None or option not in choice.options:
            return None
        found[choice.name] = option
    return Decisions(found) if decisions.keys() <= found.keys() else None


def complete(space: SearchSpace, decisions: Decisions) -> bool:
    """Return whether these are complete decisions of the space: each open choice taken, nothing else."""
    return whole(space, decisions) == decisions
