"""REINFORCE: a policy that takes each decision independently, improved by the gradient of the expected reward."""

from dataclasses import dataclass

import numpy as np

from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Choice, Decisions
from detol.strategies.base import Identity
from detol.strategies.options import positive, share
from detol.strategies.policy import Policy
from detol.strategies.walking import draw, softmax, steps, walk


@dataclass(slots=True)
class Logits:
    """Logits of one choice with Adam's moments (Kingma and Ba 2015, 1412.6980, algorithm 1); arrays of shape (k,)."""

    values: np.ndarray
    first: np.ndarray
    second: np.ndarray
    taken: int = 0

    def ascend(self, gradient: np.ndarray, rate: float) -> None:
        """Take one step up the gradient (k,)."""
        self.taken += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        mean, square = self.first / (1 - 0.9**self.taken), self.second / (1 - 0.999**self.taken)
        self.values = self.values + rate * mean / (np.sqrt(square) + 1e-8)


class Reinforce(Policy):
    """Factored logits, one vector for each choice (Williams 1992; on cells: Dong and Yang 2020, arXiv 2001.00326).

    A choice that is not open under the decisions before it is neither drawn nor learnt.

    Args:
        space: what is searched.
        learning_rate: of Adam on the logits, > 0. The 0.01 of the literature is too slow for some hundred trainings.
        baseline: decay of the moving average of rewards that is subtracted from a reward, in [0, 1].
        entropy: weight of the entropy bonus, >= 0; it keeps the policy from collapsing.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        learning_rate: float = 0.1,
        baseline: float = 0.9,
        entropy: float = 0.05,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        positive("learning_rate", learning_rate)
        share("baseline", baseline)
        positive("entropy", entropy, zero=True)
        super().__init__(space, seed=seed, identity=identity)
        self._rate, self._decay, self._entropy = learning_rate, baseline, entropy
        self._baseline = 0.5
        self._logits: dict[str, Logits] = {}

    def draw(self) -> Decisions:
        """Draw each open choice from its own softmax."""
        return walk(self.space, lambda choice, _: draw(softmax(self._of(choice).values), self.rng))

    def reinforce(self, decisions: Decisions, score: float) -> None:
        """Ascend (R - b) grad log p(decisions) (Williams 1992, equation 4) + the gradient of the entropy."""
        reward = self.ranks.of(score)
        advantage = reward - self._baseline
        self._baseline = self._decay * self._baseline + (1 - self._decay) * reward
        for choice, _, taken in steps(self.space, decisions):
            logits = self._of(choice)
            chance = softmax(logits.values)
            surprise = -np.log(chance + 1e-12)
            gradient = self._entropy * chance * (surprise - chance @ surprise) - advantage * chance
            gradient[taken] += advantage
            logits.ascend(gradient, self._rate)

    def _of(self, choice: Choice) -> Logits:
        if choice.name not in self._logits:
            self._logits[choice.name] = Logits(*np.zeros((3, len(choice.options))))
        return self._logits[choice.name]
