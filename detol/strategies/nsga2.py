"""NSGA-II: evolution towards a front of several objectives (Deb et al. 2002), asynchronous."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from detol.search.dominance import crowding, fronts
from detol.search.protocols import SearchSpace
from detol.strategies import options, selection, variation
from detol.strategies.base import Identity, Told
from detol.strategies.evolution import Evolution
from detol.strategies.selection import Population, Survival

Violation: TypeAlias = Callable[[Told], float]
"""By how much a trial breaks the constraints, >= 0; 0 when it keeps them."""


def crowded(size: int, violation: Violation | None = None) -> Survival:
    """Keep the ``size`` (>= 1) best by front, then by crowding distance; the population stands in this order.

    Under a constraint, who keeps it comes before who breaks it, and of these who breaks it less (section VI).
    """
    options.whole("population", size, 1)

    def survive(members: Population, newcomers: Population) -> Population:
        everyone = (*members, *newcomers)
        if not everyone:
            return ()
        scores = np.array([member.scores for member in everyone], dtype=float)
        broken = np.array([violation(member) if violation else 0.0 for member in everyone])
        rank = np.where(broken > 0, 0, fronts(scores))
        distance = np.zeros(len(everyone))
        for front in np.unique(rank[broken <= 0]):
            among = (rank == front) & (broken <= 0)
            distance[among] = crowding(scores[among])
        return [everyone[index] for index in np.lexsort((-distance, rank, broken))[:size]]

    return survive


class NSGA2(Evolution):
    """Children of a population that is sorted by front and crowding distance; binary tournaments, crossing, mutation.

    Asynchronous and elitist: each newcomer competes with the population at once. With one objective it keeps the best.
    What the controller refuses for its size is never scored, so it never becomes a parent.

    Args:
        space: what is searched.
        population: how many survive, >= 2.
        tournament: how many are drawn, the first of which becomes a parent, >= 1.
        start: random trials before the first child; half the size of the population when not given.
        crossover: share of children that have two parents, in [0, 1].
        violation: by how much a trial breaks constraints, for those who want a soft bound.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        population: int = 40,
        tournament: int = 2,
        start: int | None = None,
        crossover: float = 0.5,
        violation: Violation | None = None,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        options.whole("population", population, 2)
        options.share("crossover", crossover)
        super().__init__(
            space,
            survive=crowded(population, violation),
            select=selection.ranked_tournament(tournament),
            vary=variation.mixture((crossover, variation.crossover), (1 - crossover, variation.mutation)),
            start=population // 2 if start is None else start,
            seed=seed,
            identity=identity,
        )
