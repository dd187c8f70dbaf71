"""Variation: how new decisions come from those of parents.

A variation is a function of a space, a way to draw parents and random numbers; ``mixture`` composes several.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from detol.search.protocols import SearchSpace
from detol.search.records import Origin
from detol.spaces.decisions import Decisions
from detol.strategies.base import Told


@dataclass(frozen=True, slots=True)
class Child:
    """New decisions, how they came about, and the numbers of the trials they derive from."""

    decisions: Decisions
    origin: Origin
    parents: tuple[int, ...]


Variation: TypeAlias = Callable[[SearchSpace, Callable[[], Told], np.random.Generator], Child]
"""(space, draw a parent, rng) -> child."""


def mutation(space: SearchSpace, parent: Callable[[], Told], rng: np.random.Generator) -> Child:
    """Change one decision of one parent, and what depends on it."""
    drawn = parent()
    return Child(space.mutate(drawn.decisions, rng), Origin.MUTATE, (drawn.number,))


def crossover(space: SearchSpace, parent: Callable[[], Told], rng: np.random.Generator) -> Child:
    """Take each decision from one of two parents; a child equal to a parent (or of one parent alone) is mutated."""
    first, second = parent(), parent()
    decisions = space.cross(first.decisions, second.decisions, rng)
    if decisions in (first.decisions, second.decisions):
        decisions = space.mutate(decisions, rng)
    return Child(decisions, Origin.CROSS, tuple(dict.fromkeys((first.number, second.number))))


def mixture(*parts: tuple[float, Variation]) -> Variation:
    """Apply one of several variations, drawn with the given weights (>= 0, not all zero)."""
    weights = np.array([weight for weight, _ in parts], dtype=float)
    edges = np.cumsum(weights / weights.sum())

    def vary(space: SearchSpace, parent: Callable[[], Told], rng: np.random.Generator) -> Child:
        drawn = int(np.searchsorted(edges, rng.random(), side="right"))
        return parts[min(drawn, len(parts) - 1)][1](space, parent, rng)

    return vary
