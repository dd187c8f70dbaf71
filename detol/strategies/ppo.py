"""Proximal policy optimisation of an autoregressive controller that writes decisions as a sentence of tokens.

The controller is a recurrent network as in Zoph and Le 2017 (arXiv 1611.01578), trained by the clipped objective of
Schulman et al. 2017 (arXiv 1707.06347). Importing this file loads torch.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from detol.search.protocols import SearchSpace
from detol.search.records import Candidate
from detol.spaces.decisions import Choice, Decisions
from detol.strategies.base import Identity
from detol.strategies.options import positive, whole
from detol.strategies.policy import Policy
from detol.strategies.walking import draw, steps, walk


class Controller(nn.Module):
    """An LSTM over the options taken so far; each choice has a head of its own.

    Choices are met while a space is walked, so that any space will do: the weights of a choice are made when it is
    first met.

    Args:
        width: of the hidden state, >= 1.
        rng: of the initial weights.
    """

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self._rng, self._width = rng, width
        self.cell = nn.LSTMCell(width, width)
        self.weights = nn.ParameterDict()
        self.numbers: dict[str, str] = {}
        with torch.no_grad():
            for weight in self.cell.parameters():
                weight.copy_(self._normal(tuple(weight.shape), width**-0.5))

    def meet(self, choice: Choice) -> list[nn.Parameter]:
        """Make the weights of a choice; returns those that are new."""
        if choice.name in self.numbers:
            return []
        number = self.numbers.setdefault(choice.name, str(len(self.numbers)))
        options = len(choice.options)
        self.weights[f"token{number}"] = nn.Parameter(self._normal((options, self._width), 0.3))
        self.weights[f"head{number}"] = nn.Parameter(self._normal((options, self._width), 0.01))
        self.weights[f"bias{number}"] = nn.Parameter(torch.zeros(options))
        return [self.weights[f"{part}{number}"] for part in ("token", "head", "bias")]

    def start(self) -> tuple[Tensor, Tensor]:
        """Return the state before the first token: hidden and cell, both (1, width)."""
        return torch.zeros(1, self._width), torch.zeros(1, self._width)

    def logits(self, state: tuple[Tensor, Tensor], choice: Choice) -> Tensor:
        """Return the logits (options,) of a choice that was met."""
        number = self.numbers[choice.name]
        logits: Tensor = self.weights[f"head{number}"] @ state[0][0] + self.weights[f"bias{number}"]
        return logits

    def advance(self, state: tuple[Tensor, Tensor], choice: Choice, taken: int) -> tuple[Tensor, Tensor]:
        """Return the state after one more token."""
        after: tuple[Tensor, Tensor] = self.cell(
            self.weights[f"token{self.numbers[choice.name]}"][taken : taken + 1], state
        )
        return after

    def _normal(self, shape: tuple[int, ...], scale: float) -> Tensor:
        return torch.from_numpy(self._rng.normal(0.0, scale, shape).astype(np.float32))


class PPO(Policy):
    """Draws each option given all before it; learns from batches of trials, as old as they may be.

    The probability under which a candidate was drawn is kept until it is told: the ratio to today's is clipped, so that
    trials which arrive late change the policy no more than fresh ones. What was not drawn here has ratio 1.

    Args:
        space: what is searched.
        learning_rate: of Adam, > 0.
        width: of the controller, >= 1.
        batch: trials for one update, >= 2; each is used in ``passes`` steps.
        passes: gradient steps per update, >= 1.
        clip: the ratio is held in [1 - clip, 1 + clip], > 0.
        entropy: weight of the entropy bonus, >= 0.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        learning_rate: float = 0.01,
        width: int = 32,
        batch: int = 8,
        passes: int = 4,
        clip: float = 0.2,
        entropy: float = 0.02,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        for name, value in (("learning_rate", learning_rate), ("clip", clip)):
            positive(name, value)
        for name, number, low in (("width", width, 1), ("batch", batch, 2), ("passes", passes, 1)):
            whole(name, number, low)
        positive("entropy", entropy, zero=True)
        super().__init__(space, seed=seed, identity=identity)
        self._batch, self._passes, self._clip, self._entropy = batch, passes, clip, entropy
        self._controller = Controller(width, self.rng)
        self._adam = torch.optim.Adam(self._controller.parameters(), lr=learning_rate)
        self._baseline = 0.5
        self._drawn: dict[Decisions, float] = {}  # log-probability when proposed, until told
        self._waiting: list[tuple[Decisions, float, float]] = []  # decisions, score, log-probability when drawn

    def propose(self) -> Candidate | None:
        """Return what the policy draws, remembering how probable it was."""
        made = super().propose()
        if made is not None:
            with torch.no_grad():
                self._drawn[made.decisions] = float(self._likelihood(made.decisions)[0])
        return made

    def draw(self) -> Decisions:
        """Draw token after token."""
        state = self._controller.start()
        last: tuple[Choice, int] | None = None

        def pick(choice: Choice, _: Decisions) -> int:
            nonlocal state, last
            self._meet(choice)
            if last is not None:
                state = self._controller.advance(state, *last)
            taken = draw(torch.softmax(self._controller.logits(state, choice), 0).numpy().astype(float), self.rng)
            last = (choice, taken)
            return taken

        with torch.no_grad():
            return walk(self.space, pick)

    def reinforce(self, decisions: Decisions, score: float) -> None:
        """Collect a batch, then learn from it."""
        drawn = self._drawn.pop(decisions, None)
        if drawn is None:
            with torch.no_grad():
                drawn = float(self._likelihood(decisions)[0])
        self._waiting.append((decisions, score, drawn))
        if len(self._waiting) >= self._batch:
            self._update(self._waiting)
            self._waiting = []

    def _update(self, batch: Sequence[tuple[Decisions, float, float]]) -> None:
        rewards = torch.tensor([self.ranks.of(score) for _, score, _ in batch])
        advantages = rewards - self._baseline
        self._baseline = 0.8 * self._baseline + 0.2 * float(rewards.mean())
        before = torch.tensor([drawn for _, _, drawn in batch])
        for _ in range(self._passes):
            found = [self._likelihood(decisions) for decisions, _, _ in batch]
            ratio = torch.exp(torch.stack([likelihood for likelihood, _ in found]) - before)
            entropy = torch.stack([entropy for _, entropy in found]).mean()
            # L = min(r A, clip(r, 1 - e, 1 + e) A) + c H  (Schulman et al. 2017, equations 7 and 9)
            clipped = ratio.clamp(1 - self._clip, 1 + self._clip)
            gain = torch.minimum(ratio * advantages, clipped * advantages).mean() + self._entropy * entropy
            self._adam.zero_grad()
            (-gain).backward()  # type: ignore[no-untyped-call]
            self._adam.step()

    def _likelihood(self, decisions: Decisions) -> tuple[Tensor, Tensor]:
        # log p(decisions), and the sum of the entropies of the choices on the way
        state = self._controller.start()
        total, entropy = torch.zeros(()), torch.zeros(())
        for number, (choice, _, taken) in enumerate(path := list(steps(self.space, decisions))):
            self._meet(choice)
            if number:
                before, _, last = path[number - 1]
                state = self._controller.advance(state, before, last)
            log = torch.log_softmax(self._controller.logits(state, choice), 0)
            total = total + log[taken]
            entropy = entropy - (log.exp() * log).sum()
        return total, entropy

    def _meet(self, choice: Choice) -> None:
        if new := self._controller.meet(choice):
            self._adam.add_param_group({"params": new})
