"""Proximal policy optimisation of an autoregressive controller that writes decisions as a sentence of tokens.

The controller is a recurrent network as in Zoph and Le 2017 (arXiv 1611.01578), trained by the clipped objective of
Schulman et al. 2017 (arXiv 1707.06347). Importing this file loads torch.
"""

from collections.abc import Sequence
from typing import TypeAlias

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

State: TypeAlias = tuple[Tensor, Tensor]
Path: TypeAlias = Sequence[tuple[Choice, int]]
"""The choices of complete decisions, and the index of the option taken at each."""


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
        with torch.random.fork_rng(devices=[]):  # its own initial weights would draw on torch's global state
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

    def start(self, count: int = 1) -> State:
        """Return the state before the first token: hidden and cell, both (count, width)."""
        return torch.zeros(count, self._width), torch.zeros(count, self._width)

    def logits(self, state: State, choice: Choice) -> Tensor:
        """Return the logits (count, options) of a choice that was met."""
        number = self.numbers[choice.name]
        logits: Tensor = state[0] @ self.weights[f"head{number}"].T + self.weights[f"bias{number}"]
        return logits

    def advance(self, state: State, choice: Choice, taken: Tensor) -> State:
        """Return the state after one more token; ``taken`` (count,) holds the indices of the options."""
        after: State = self.cell(self.weights[f"token{self.numbers[choice.name]}"][taken], state)
        return after

    def likelihood(self, paths: Sequence[Path]) -> tuple[Tensor, Tensor]:
        """Return the log-probability (n,) of each path, and the sum (n,) of the entropies of its choices.

        Paths through the same choices are computed together.
        """
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, path in enumerate(paths):
            groups.setdefault(tuple(choice.name for choice, _ in path), []).append(place)
        order, totals, entropies = [], [], []
        for places in groups.values():
            state = self.start(len(places))
            total, entropy = torch.zeros(len(places)), torch.zeros(len(places))
            for step, (choice, _) in enumerate(paths[places[0]]):
                log = torch.log_softmax(self.logits(state, choice), 1)
                taken = torch.tensor([paths[place][step][1] for place in places])
                total = total + log.gather(1, taken[:, None])[:, 0]
                entropy = entropy - (log.exp() * log).sum(1)
                state = self.advance(state, choice, taken)
            order += places
            totals.append(total)
            entropies.append(entropy)
        back = torch.tensor(order).argsort()
        return torch.cat(totals)[back], torch.cat(entropies)[back]

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
        learning_rate: float = 0.03,
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
        self._waiting: list[tuple[Path, float, float]] = []  # with score, and log-probability when drawn

    def propose(self) -> Candidate | None:
        """Return what the policy draws, remembering how probable it was."""
        made = super().propose()
        if made is not None:
            self._drawn[made.decisions] = self._log_probability(self._path(made.decisions))
        return made

    def draw(self) -> Decisions:
        """Draw token after token."""
        state = self._controller.start()
        last: tuple[Choice, int] | None = None

        def pick(choice: Choice, _: Decisions) -> int:
            nonlocal state, last
            self._meet(choice)
            if last is not None:
                state = self._controller.advance(state, last[0], torch.tensor([last[1]]))
            chances = torch.softmax(self._controller.logits(state, choice)[0], 0)
            last = (choice, draw(chances.numpy().astype(float), self.rng))
            return last[1]

        with torch.no_grad():
            return walk(self.space, pick)

    def reinforce(self, decisions: Decisions, score: float) -> None:
        """Collect a batch, then learn from it."""
        path = self._path(decisions)
        drawn = self._drawn.pop(decisions, None)
        self._waiting.append((path, score, self._log_probability(path) if drawn is None else drawn))
        if len(self._waiting) >= self._batch:
            self._update(self._waiting)
            self._waiting = []

    def correct(self, decisions: Decisions, before: float, after: float) -> None:
        """Use the later score if the batch has not been learnt from yet."""
        path = self._path(decisions)
        self._waiting = [
            (other, after if other == path and score == before else score, drawn)
            for other, score, drawn in self._waiting
        ]

    def _update(self, batch: Sequence[tuple[Path, float, float]]) -> None:
        rewards = torch.tensor([self.ranks.of(score) for _, score, _ in batch])
        advantages = rewards - self._baseline
        self._baseline = 0.8 * self._baseline + 0.2 * float(rewards.mean())
        before = torch.tensor([drawn for _, _, drawn in batch])
        paths = [path for path, _, _ in batch]
        for _ in range(self._passes):
            now, entropy = self._controller.likelihood(paths)
            ratio = torch.exp(now - before)
            # L = min(r A, clip(r, 1 - e, 1 + e) A) + c H  (Schulman et al. 2017, equations 7 and 9)
            clipped = ratio.clamp(1 - self._clip, 1 + self._clip)
            gain = torch.minimum(ratio * advantages, clipped * advantages).mean() + self._entropy * entropy.mean()
            self._adam.zero_grad()
            (-gain).backward()  # type: ignore[no-untyped-call]
            self._adam.step()

    def _log_probability(self, path: Path) -> float:
        with torch.no_grad():
            return float(self._controller.likelihood([path])[0])

    def _path(self, decisions: Decisions) -> Path:
        path = [(choice, taken) for choice, _, taken in steps(self.space, decisions)]
        for choice, _ in path:
            self._meet(choice)
        return path

    def _meet(self, choice: Choice) -> None:
        if new := self._controller.meet(choice):
            self._adam.add_param_group({"params": new})
