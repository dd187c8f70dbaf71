"""Walks through a space: what policies share. Each open choice in turn gets an option."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Choice, Decisions, Option

Pick: TypeAlias = Callable[[Choice, Decisions], int]
"""(open choice, decisions before it) -> index of the option taken."""


def walk(space: SearchSpace, pick: Pick) -> Decisions:
    """Return complete decisions, taking at each open choice the option that ``pick`` points at."""
    taken: dict[str, Option] = {}
    while (choice := space.next(prefix := Decisions(taken))) is not None:
        taken[choice.name] = choice.options[pick(choice, prefix)]
    return Decisions(taken)


def steps(space: SearchSpace, decisions: Decisions) -> Iterator[tuple[Choice, Decisions, int]]:
    """Yield each choice that complete decisions took, the decisions before it, and the index of the option taken."""
    taken: dict[str, Option] = {}
    while (choice := space.next(prefix := Decisions(taken))) is not None:
        option = decisions[choice.name]
        yield choice, prefix, choice.options.index(option)
        taken[choice.name] = option


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of logits (k,), without overflow."""
    raised = np.exp(logits - logits.max())
    return np.asarray(raised / raised.sum())


def draw(probabilities: np.ndarray, rng: np.random.Generator) -> int:
    """Draw an index with the given probabilities (k,)."""
    return min(int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right")), len(probabilities) - 1)
