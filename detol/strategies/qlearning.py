"""Tabular Q-learning: MetaQNN, Baker et al. 2017, arXiv 1611.02167."""

from collections import deque

import numpy as np

from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Choice, Decisions, Option
from detol.strategies.base import Identity
from detol.strategies.options import positive, share, whole
from detol.strategies.policy import Policy
from detol.strategies.walking import steps, walk

EPSILONS = (
    (1.0, 0.3),
    (0.9, 0.08),
    (0.8, 0.08),
    (0.7, 0.08),
    (0.6, 0.08),
    (0.5, 0.08),
    (0.4, 0.08),
    (0.3, 0.08),
    (0.2, 0.07),
)
"""Exploration and the share of ``horizon`` it lasts; 0.1 after it. The steps of the paper's table 2, whose first one
(exploration alone, 1,500 of 2,700 trainings) is shortened."""

State = tuple[str, tuple[Option, ...]]
"""The open choice and the last options taken before it."""


class QLearning(Policy):
    """Takes the option of the highest value, or with probability epsilon any option.

    As in MetaQNN the state is the open choice and the ``memory`` options taken last; the reward comes at the end and is
    not discounted; after each trial ``replay`` earlier ones are replayed. Ranks move while scores come in, so a replay
    uses the rank of the moment. All values start at 0.5, the mean rank.

    Args:
        space: what is searched.
        rate: step of a value towards its target, in (0, 1].
        memory: options that belong to the state, >= 0.
        replay: trials replayed after each one told, >= 0.
        remembered: the last trials that are open to replay, >= 1.
        horizon: trials over which exploration falls from 1 to 0.1, >= 1.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        rate: float = 0.1,
        memory: int = 1,
        replay: int = 30,
        remembered: int = 1_000,
        horizon: int = 80,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        positive("rate", rate)
        share("rate", rate)
        for name, value, low in (
            ("memory", memory, 0),
            ("replay", replay, 0),
            ("remembered", remembered, 1),
            ("horizon", horizon, 1),
        ):
            whole(name, value, low)
        super().__init__(space, seed=seed, identity=identity)
        self._rate, self._memory, self._replay, self._horizon = rate, memory, replay, horizon
        self._values: dict[State, np.ndarray] = {}
        self._experience: deque[tuple[Decisions, float]] = deque(maxlen=remembered)

    @property
    def epsilon(self) -> float:
        """Exploration now, in [0.1, 1]: falls with the trials told."""
        spent = len(self.told) / self._horizon
        for epsilon, lasts in EPSILONS:
            spent -= lasts
            if spent < 0:
                return epsilon
        return 0.1

    def draw(self) -> Decisions:
        """Draw decisions epsilon-greedily; ties at random."""
        epsilon = self.epsilon

        def pick(choice: Choice, prefix: Decisions) -> int:
            if self.rng.random() < epsilon:
                return int(self.rng.integers(len(choice.options)))
            values = self._of(choice, prefix)
            return int(self.rng.choice(np.flatnonzero(values == values.max())))

        return walk(self.space, pick)

    def reinforce(self, decisions: Decisions, score: float) -> None:
        """Update along the decisions, then along replayed ones."""
        self._update(decisions, score)
        self._experience.append((decisions, score))
        for index in self.rng.integers(len(self._experience), size=self._replay):
            self._update(*self._experience[index])

    def correct(self, decisions: Decisions, before: float, after: float) -> None:
        """Replay the later score from now on."""
        for place, (remembered, score) in enumerate(self._experience):
            if remembered == decisions and score == before:
                self._experience[place] = (decisions, after)

    def _update(self, decisions: Decisions, score: float) -> None:
        # Q(s, u) <- (1 - a) Q(s, u) + a max Q(s', .), from the last step backwards (equation 3, gamma 1).
        target = self.ranks.of(score)
        for choice, prefix, taken in reversed(list(steps(self.space, decisions))):
            values = self._of(choice, prefix)
            values[taken] += self._rate * (target - values[taken])
            target = float(values.max())

    def _of(self, choice: Choice, prefix: Decisions) -> np.ndarray:
        last = tuple(prefix.values())[len(prefix) - min(self._memory, len(prefix)) :]
        return self._values.setdefault((choice.name, last), np.full(len(choice.options), 0.5))
