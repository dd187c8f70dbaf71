"""Selection: who survives in a population, and who becomes a parent.

A survival rule maps the members so far and newcomers to the next population; a parent rule draws one member. Both are
values that an algorithm is composed of (:mod:`detol.strategies.evolution`, :mod:`detol.strategies.nsga2`). Members
without a score rank below all others, so a population of failures is still a population.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from detol.strategies.base import Told
from detol.strategies.options import whole

Population: TypeAlias = Sequence[Told]
Survival: TypeAlias = Callable[[Population, Population], Population]
"""(members, newcomers) -> the next population, in an order that the parent rule may rely on."""
Selection: TypeAlias = Callable[[Population, np.random.Generator], Told]
"""(a population that is not empty, rng) -> one parent."""


def youngest(size: int) -> Survival:
    """Keep the last ``size`` (>= 1) told, whatever their score: the oldest dies (Real et al. 2019, section 3.2)."""
    whole("population", size, 1)
    return lambda members, newcomers: (*members, *newcomers)[-size:]


def fittest(size: int) -> Survival:
    """Keep the ``size`` (>= 1) best; of equals the older."""
    whole("population", size, 1)

    def survive(members: Population, newcomers: Population) -> Population:
        return sorted((*members, *newcomers), key=lambda member: -member.score)[:size]

    return survive


def tournament(size: int) -> Selection:
    """Draw ``size`` (>= 1) members without replacement, the best of them wins (Real et al. 2019, algorithm 1)."""
    whole("tournament", size, 1)

    def select(members: Population, rng: np.random.Generator) -> Told:
        drawn = rng.choice(len(members), size=min(size, len(members)), replace=False)
        return max((members[int(index)] for index in drawn), key=lambda member: member.score)

    return select


def ranked_tournament(size: int) -> Selection:
    """Draw ``size`` (>= 1) members without replacement; the one that stands first in the population wins."""
    whole("tournament", size, 1)

    def select(members: Population, rng: np.random.Generator) -> Told:
        first = int(rng.choice(len(members), size=min(size, len(members)), replace=False).min())
        return members[first]

    return select
