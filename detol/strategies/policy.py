"""What strategies that learn by reinforcement share: a policy draws decisions, rewards of them improve it."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence

from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, Trial
from detol.spaces.decisions import Decisions
from detol.strategies.base import Identity, Proposer, Told
from detol.strategies.rewards import Ranks


class Policy(Proposer):
    """Draws decisions from a policy and reinforces it with rank-normalised rewards.

    The reward is the rank of a score among those told, in [0, 1]; a failure is worth 0. What the policy draws again is
    not proposed again: when its score is known it is answered from memory at once, and counts as a step of learning;
    when it is still pending nothing happens.

    Args:
        space: what is searched.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    tries = 20  # each repeat is a step of learning: many of them in one ask would make the policy collapse
    childless = True

    def __init__(self, space: SearchSpace, *, seed: int = 0, identity: Identity | None = None) -> None:
        super().__init__(space, seed=seed, identity=identity)
        self.ranks = Ranks()
        self._scores: dict[Hashable, float] = {}

    @abstractmethod
    def draw(self) -> Decisions:
        """Draw complete decisions from the policy."""

    @abstractmethod
    def reinforce(self, decisions: Decisions, score: float) -> None:
        """Make the policy better, given the score of ``decisions``; ``ranks`` makes the reward of it."""

    def propose(self) -> Candidate | None:
        """Return what the policy draws; a repeat is answered from memory."""
        decisions = self.draw()
        made = self.candidate(decisions, Origin.POLICY)
        if made is None and (identity := self.recall(decisions)) in self._scores:
            self.reinforce(decisions, self._scores[identity])
        return made

    def learn(self, trials: Sequence[Trial]) -> None:
        """Reinforce the policy with each trial, failures included."""
        for told in self.told[-len(trials) :]:
            self._scores[told.identity] = told.score
            self.ranks.add(told.score)
            self.reinforce(told.decisions, told.score)

    def relearn(self, changes: Sequence[tuple[Told, Told]]) -> None:
        """Bring memory and ranks up to date; the step that was taken stays, later ones see the later score."""
        for before, after in changes:
            self._scores[after.identity] = after.score
            self.ranks.replace(before.score, after.score)
            self.correct(after.decisions, before.score, after.score)

    def correct(self, decisions: Decisions, before: float, after: float) -> None:
        """Bring a score up to date where the policy keeps it for later steps. Does nothing by default."""
