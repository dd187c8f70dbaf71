"""NSGA-II: evolution towards a front of several objectives (Deb et al. 2002), asynchronous."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from detol.search.dominance import VIOLATION, crowding, fronts
from detol.search.protocols import SearchSpace
from detol.search.records import State, Trial
from detol.strategies import options, selection, variation
from detol.strategies.base import Identity, Told
from detol.strategies.evolution import Evolution
from detol.strategies.selection import Population, Survival

Violation: TypeAlias = Callable[[Told], float]
"""By how much a trial breaks the constraints, >= 0; 0 when it keeps them."""


def crowded(size: int, violation: Violation | None = None) -> Survival:
    """Keep the ``size`` (>= 1) best by front, then by crowding distance; the population stands in this order.

    Under a constraint, who keeps it comes before who breaks it, and of these who breaks it less (constraint-dominance,
    section VI); who breaks it may be without scores.
    """
    options.whole("population", size, 1)

    def survive(members: Population, newcomers: Population) -> Population:
        everyone = (*members, *newcomers)
        if not everyone:
            return ()
        broken = np.array([violation(member) if violation else 0.0 for member in everyone])
        rank, distance = np.zeros(len(everyone)), np.zeros(len(everyone))
        keeps = np.flatnonzero(broken <= 0)
        if len(keeps):
            scores = np.array([everyone[place].scores for place in keeps], dtype=float)
            rank[keeps] = fronts(scores)
            for front in np.unique(rank[keeps]):
                among = rank[keeps] == front
                distance[keeps[among]] = crowding(scores[among])
        return [everyone[index] for index in np.lexsort((-distance, rank, broken))[:size]]

    return survive


class NSGA2(Evolution):
    """Children of a population that is sorted by front and crowding distance; binary tournaments, crossing, mutation.

    Asynchronous and elitist: each newcomer competes with the population at once. With one objective it keeps the best.
    What is refused because it is over a limit (``--max-params``) costs no training and joins the population, behind all
    that keep the limits: while few do, children of those that break them least lead into them. Refusals without a
    measure of it (a topology that cannot be built) are left out.

    Args:
        space: what is searched.
        population: how many survive, >= 2.
        tournament: how many are drawn, the first of which becomes a parent, >= 1.
        start: random trials with a score before the first child, fewer once the population is full; half its size when
            not given.
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
        self._size = population
        self._over: dict[int, float] = {}  # by trial number, of the population's refused members

        def broken(member: Told) -> float:
            return self._over.get(member.number, 0.0) or (violation(member) if violation else 0.0)

        super().__init__(
            space,
            survive=crowded(population, broken),
            select=selection.ranked_tournament(tournament),
            vary=variation.mixture((crossover, variation.crossover), (1 - crossover, variation.mutation)),
            start=population // 2 if start is None else start,
            seed=seed,
            identity=identity,
        )

    def learn(self, trials: Sequence[Trial]) -> None:
        """Let those that have scores join, and those that were refused because they are over a limit."""
        newcomers = []
        for told, trial in zip(self.told[-len(trials) :], trials, strict=True):
            over = float(trial.extra.get(VIOLATION, 0.0)) if trial.state is State.REFUSED else 0.0
            if over > 0:
                self._over[told.number] = over
            if told.scored or over > 0:
                newcomers.append(told)
            self._scored += told.scored
        self.population = self._survive(self.population, newcomers)
        self._over = {m.number: self._over[m.number] for m in self.population if m.number in self._over}

    @property
    def started(self) -> bool:
        """Whether children are made: there are scores enough, or as many members as there is room for."""
        return super().started or len(self.population) >= self._size
