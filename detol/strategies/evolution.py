"""Evolution: a population, a survival rule, a parent rule, a variation. Ageing evolution is one such composition."""

from collections.abc import Sequence

from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Trial
from detol.strategies import graph_edits as graphs
from detol.strategies import options, selection, variation
from detol.strategies.base import Identity, Proposer, Told
from detol.strategies.selection import Population, Selection, Survival
from detol.strategies.variation import Variation

STEPS = 10
"""Further mutations of a child that is known already, before the attempt counts as failed."""


class Evolution(Proposer):
    """Steady-state evolution: samples until ``start`` trials were told, then children of the population.

    Asynchronous: a child joins when it is told, however many are pending, so that no worker waits for a generation.

    Args:
        space: what is searched.
        survive: who is in the population.
        select: who becomes a parent.
        vary: how a child comes about.
        start: scored trials before the first child, >= 1.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        survive: Survival,
        select: Selection,
        vary: Variation,
        start: int,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        super().__init__(space, seed=seed, identity=identity)
        options.whole("start", start, 1)
        self.population: Population = ()
        self._survive, self._select, self._vary, self._start = survive, select, vary, start
        self._scored = 0

    def learn(self, trials: Sequence[Trial]) -> None:
        """Let those that have a score join; a failure is remembered, and leaves the population as it is."""
        newcomers = [told for told in self.told[-len(trials) :] if told.scored]
        self._scored += len(newcomers)
        self.population = self._survive(self.population, newcomers)

    def relearn(self, changes: Sequence[tuple[Told, Told]]) -> None:
        """Put later scores in the place of earlier ones: who has failed since leaves, who had none before joins."""
        later = {after.number: after for _, after in changes}
        members = [later.get(member.number, member) for member in self.population]
        joining = [after for before, after in changes if after.scored and not before.scored]
        self._scored += len(joining) - sum(before.scored and not after.scored for before, after in changes)
        self.population = self._survive([member for member in members if member.scored], joining)

    @property
    def started(self) -> bool:
        """Whether children are made: there are ``start`` scores."""
        return self._scored >= self._start

    def propose(self) -> Candidate | None:
        """Return a sample at the start, a child of the population after it."""
        if not self.started:
            return self.sample()
        child = self._vary(self.space, lambda: self._select(self.population, self.rng), self.rng)
        decisions = child.decisions
        for _ in range(STEPS):  # around a good parent all may be known: walk on
            if not self.known(decisions):
                break
            decisions = self.space.mutate(decisions, self.rng)
        return self.candidate(decisions, child.origin, child.parents)


class AgeingEvolution(Evolution):
    """Ageing (regularised) evolution: Real et al. 2019, arXiv 1802.01548, algorithm 1.

    The defaults suit some hundred trainings: children start early, the selection is strong, and ageing keeps it from
    getting stuck. (The paper's 100 and 25 are for 20,000.)

    Args:
        space: what is searched.
        population: how many of the last told are alive, >= 1.
        tournament: how many are drawn, the best of which becomes the parent, in [1, population].
        start: random trials before the first child, >= 1; at most 10 when not given.
        crossover: share of children that have two parents, in [0, 1]; the paper has none.
        graph_edits: share of children made by an edit of the parent's graph, in [0, 1]; in a space that can say which
            decisions a topology comes from (``image_dag``), a mutation of a decision elsewhere. Some ten ms each.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        population: int = 50,
        tournament: int = 25,
        start: int | None = None,
        crossover: float = 0.0,
        graph_edits: float = 0.0,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        options.share("crossover", crossover)
        options.share("graph_edits", graph_edits)
        options.share("crossover + graph_edits", crossover + graph_edits)
        super().__init__(
            space,
            survive=selection.youngest(population),
            select=selection.tournament(tournament),
            vary=variation.mixture(
                (crossover, variation.crossover),
                (graph_edits, graphs.graph_edit),
                (1 - crossover - graph_edits, variation.mutation),
            ),
            start=min(10, population) if start is None else start,
            seed=seed,
            identity=identity,
        )
