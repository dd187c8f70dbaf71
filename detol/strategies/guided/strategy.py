"""The guided strategy: a surrogate over what is told proposes what is likely to improve most."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from detol.embedding.graph_features import Floats
from detol.embedding.warp import log_regret, standardised, worst_for_failed
from detol.errors import UsageError, unknown
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, State, Trial
from detol.search.warm import WarmSource
from detol.spaces.decisions import Decisions
from detol.strategies.base import Identity, Proposer, Told, complete
from detol.strategies.guided.descent import parents
from detol.strategies.guided.encoder import EMBEDDINGS, SAMPLES, usual_embedding
from detol.strategies.guided.forest import Forest
from detol.strategies.guided.kernels import spread
from detol.strategies.guided.models import (
    ForestModel,
    GaussianModel,
    Model,
    PricedModel,
    Rows,
    best_row,
    most_candidates,
    most_members,
)
from detol.strategies.guided.pool import pool_of
from detol.strategies.guided.prices import prices
from detol.strategies.guided.rises import Rises
from detol.strategies.guided.transfer import MEMBERS, TransferModel
from detol.strategies.guided.twins import Twins
from detol.strategies.guided.warm import Warmth, usable

SETTINGS = 48
"""Settings of the kernel that are compared."""
ACTIVE = 320
"""Observations that the Gaussian process is conditioned on at most: the best and the latest."""
FOREST = 1_000
"""Scored observations beyond which the forest takes over."""
REFIT = 1.05
"""The forest is fitted again when there are so many times as many observations."""
PENDING = 128
"""Pending points that a model knows of at most, the latest."""
FRESH = 32
"""New candidates of a large space at each ask."""
FEWEST, MOST = 4, 8
"""Proposals of the initial design."""
ROWS = 4_096
CANDIDATES = 1_500
"""A large space's pool is cut down to so many candidates when it grows beyond ``ROWS``."""
LEADERS = 10
"""The best told, of which candidates of a large space are mutations and crossings."""

DISTRUST = 0.5
"""Weight of a warm start's sources below which the search goes on as if there were none, until results change that."""
ANCHORS = (Origin.REFERENCE, Origin.SAMPLE)
"""Origins of trials that no model proposed."""


class Guided(Proposer):
    """Bayesian optimisation over decisions and live graphs.

    First the space's references and uniform samples, ``initial`` in all. Then each proposal is the candidate of largest
    expected improvement under a Gaussian process (:mod:`detol.strategies.guided.gaussian`), or beyond ``FOREST``
    observations under a forest; a share of the proposals is the best of the incumbent's neighbours. Each names the
    leader it is nearest to as its parent (:mod:`detol.strategies.guided.descent`). Trials that failed by their own
    fault count as the worst score told; those that rest or were stopped count with where the curves of others went on
    from such scores (:mod:`detol.strategies.guided.rises`). Where a table has one network in several rows and they
    score the same, one is tried (:mod:`detol.strategies.guided.twins`). The candidates are all decisions of a space of
    at most ``WHOLE``, otherwise mutations of one and two steps and crossings of the best, and samples, gathered from
    ask to ask.

    Args:
        space: what is searched.
        initial: proposals before the model's first, references included, >= 2; ``None``: as many as a network of the
            space takes choices on average, from 4 to 8.
        prior: whether the kernel has a linear term over cheap figures (the prior mean).
        paths: whether the kernel has a term over the live graph.
        warp: whether scores are warped to log regret.
        local: share of proposals that are neighbours of the incumbent, in [0, 1].
        members: settings of the kernel that are averaged, >= 1.
        references: whether it starts from the space's references (those that are tried anyway are left out).
        thrift: power of the seconds of an epoch by which expected improvement is divided, in [0, 1]: 0 when trainings
            are counted, 1 when time is.
        embedding: what the surrogate knows of a graph beyond counts of its patterns: ``off``, ``paths`` (path
            statistics), ``either`` (the results so far tell whether with or without these) or ``svge`` (these, and the
            vector of the learned encoder). ``None``: see :func:`detol.strategies.guided.encoder.usual_embedding`.
        warm: records of other data sets: what each promises most of is tried first, and they propose as far as the
            results bear them out (:mod:`detol.strategies.guided.transfer`).
        seed: of all random numbers.
        identity: what makes two candidates the same one.

    Raises:
        UsageError: a value against its rule.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        initial: int | None = None,
        prior: bool = True,
        paths: bool = True,
        warp: bool = True,
        local: float = 0.1,
        members: int = 8,
        references: bool = True,
        thrift: float = 0.0,
        embedding: str | None = None,
        warm: Sequence[WarmSource] = (),
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        super().__init__(space, seed=seed, identity=identity)
        if initial is None:
            draws = np.random.default_rng(0)
            taken = sum(len(space.sample(draws)) for _ in range(SAMPLES)) / SAMPLES
            initial = min(max(FEWEST, round(taken)), MOST)
        if initial < 2:
            raise UsageError(f"guided starts from at least 2 trials, got initial={initial}")
        if not 0 <= local <= 1 or members < 1:
            raise UsageError(f"guided takes local in [0, 1] and members >= 1, got {local} and {members}")
        if not 0 <= thrift <= 1:
            raise UsageError(f"guided takes thrift in [0, 1], got {thrift}")
        if embedding is None:
            embedding = usual_embedding(space, warm=usable(space, warm))
        if embedding not in EMBEDDINGS:
            raise unknown("embedding", embedding, EMBEDDINGS)
        self._initial, self._warp, self._local, self._members = initial, warp, local, members
        self._thrift = thrift
        self._seconds: dict[int, float] = {}  # of an epoch, by row
        self._pool = pool_of(space, embedding)
        self._settings = spread(SETTINGS, prior=prior, graphs=paths, views=self._pool.views)
        self._references = list(space.references.values()) if references else []
        self._seen: list[int] = []  # rows told, in the order of ``_scores``
        self._scores: list[float] = []  # minus infinity where a trial failed by its own fault
        self._numbers: list[int] = []  # of these trials
        self._rises = Rises()
        self._inputs: list[Floats] = []
        self._resting: dict[int, int] = {}  # number of a trial told while PAUSED -> its place in ``_scores``
        self._leaders: list[Told] = []  # the best told, best first
        self._blocked: set[int] = set()
        self._twins = Twins(space)
        self._ranked: Rows = np.zeros(0, np.intp)  # rows by the last expected improvement, best first
        self._model: Model | None = None
        self._warm = Warmth(self._pool, space, warm, self._settings)
        self._trust: list[float] = []  # in each source of a warm start
        self._anchored = False  # whether something is tried that no source proposed
        self._forest: tuple[Forest, int] | None = None

    @property
    def trust(self) -> list[float]:
        """How far each source of a warm start is borne out by the results: shares that add up to at most 1.

        The rest is of the search without sources; empty before the first proposal, and without a warm start.
        """
        return self._warm.spread(self._trust) if self._trust else []

    @property
    def _best(self) -> Told | None:
        return self._leaders[0] if self._leaders else None

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn from final and paused trials, also from how their scores rose with the epochs."""
        self._rises.note(trials)
        super().tell(trials)

    def learn(self, trials: Sequence[Trial]) -> None:
        """Keep rows and scores, and the incumbent."""
        for told, trial in zip(self.told[-len(trials) :], trials, strict=True):
            if told.state is State.LOST:  # the machine's fault says nothing of the network
                continue
            (row,) = self._pool.add([told.decisions])
            self._blocked.add(row)
            self._seen.append(row)
            if told.state is State.PAUSED:
                self._resting[told.number] = len(self._scores)
            self._scores.append(told.score)
            self._numbers.append(told.number)
            self._inputs.append(self._pool.inputs([row])[0])
            if self._thrift and trial.reports:
                # The least, not the mean: the first epoch also warms up, and others may have been in its way.
                self._seconds[row] = max(1e-6, min(report.seconds for report in trial.reports))
            self._anchored |= trial.candidate.origin in ANCHORS
            # Where the digest is the identity there are no twins to learn from.
            if told.scored and told.state is State.COMPLETED and told.identity != trial.candidate.digest:
                self._twins.note(told.decisions, told.score)
            if told.scored:
                self._leaders = sorted([*self._leaders, told], key=lambda told: -told.score)[:LEADERS]

    def relearn(self, changes: Sequence[tuple[Told, Told]]) -> None:
        """Put later scores in the place of earlier ones; those of a trial that was lost since stay."""
        for _, after in changes:
            place = self._resting[after.number]
            if after.state.final:
                del self._resting[after.number]
            if after.state is State.LOST:
                continue
            self._scores[place] = after.score
            others = [told for told in self._leaders if told.number != after.number]
            self._leaders = sorted([*others, after] if after.scored else others, key=lambda told: -told.score)[:LEADERS]

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return at most ``count`` (>= 1) new candidates; none means that the space is exhausted."""
        # One thread: the cores belong to the trainings, and the last digits do not depend on how many there are.
        with _threads().limit(limits=1, user_api="blas"):
            return super().ask(count)

    def prepare(self, count: int) -> None:  # noqa: ARG002  one model serves all of them
        """Gather candidates and condition the model on what is told and pending."""
        self._model = None
        if not self._pool.whole:
            self._gather()
        if self._warm or (self._best is not None and len(self._seen) >= self._initial):
            self._model = self._fit()

    def propose(self) -> Candidate | None:
        """Return what a source promises, once for each; then the most promising row, or one of the initial design."""
        row = self._warm.first(self._blocked)
        if row is not None:
            return self._made(row, Origin.WARM)
        if self._model is None or self._wants_anchor():
            return self._start()
        only = None
        if self._local and self._best is not None and self.rng.random() < self._local:
            only = self._nearby()
        row = self._most(self._model, only)
        if row is None and only is not None:
            row, only = self._most(self._model), None
        if row is None:
            return None
        if only is not None and self._best is not None:
            return self._made(row, Origin.MUTATE, (self._best.number,))
        return self._made(row, Origin.GUIDED if len(self._seen) else Origin.WARM)

    def _made(self, row: int, origin: Origin, of: tuple[int, ...] = ()) -> Candidate | None:
        """Return the candidate of a row, which counts as observed from now on; ``None``: it is known already."""
        self._blocked.add(row)
        decisions = self._pool.rows[row]
        made = self.candidate(decisions, origin, of or parents(decisions, self._leaders))
        # What a source promises may not be among the rows that the model ranks.
        if made is not None and self._model is not None and row in self._model.improvement()[0]:
            self._model.believe(row)
        return made

    def _most(self, model: Model, only: set[int] | None = None) -> int | None:
        while True:
            row = best_row(model, self._blocked, only)
            if row is None:
                return None
            waiting = (candidate.decisions for candidate in self.pending.values() if candidate.decisions)
            if not self._twins.known(self._pool.rows[row], waiting):
                return row
            self._blocked.add(row)

    def _nearby(self) -> set[int]:
        assert self._best is not None
        rows = [self._pool.place(near) for near in self.space.neighbours(self._best.decisions)]
        return {row for row in rows if row is not None}

    def _start(self) -> Candidate | None:
        while self._references:
            reference = self.candidate(self._references.pop(0), Origin.REFERENCE)
            if reference is not None:
                return self._block(reference)
        return self._block(self.sample())

    def _block(self, candidate: Candidate | None) -> Candidate | None:
        row = None if candidate is None else self._pool.place(candidate.decisions)
        if row is not None:
            self._blocked.add(row)
        return candidate

    def _fit(self) -> Model | None:
        scores = self._rises.lifted(self._numbers, np.asarray(self._scores))
        scored = np.isfinite(scores)
        if self._warm and scored.sum() <= FOREST:
            model: Model = self._fit_warm(scores, scored)
            if sum(self._trust) >= DISTRUST:
                return self._ranking(model)
            if len(self._seen) < self._initial:
                return None  # results speak against the sources before there are enough of them to go without
        if scored.sum() < 2:
            return None
        scores = worst_for_failed(scores)
        waiting = self._waiting()
        self._pool.settle()
        if scored.sum() > FOREST:
            values = standardised(log_regret(scores) if self._warp else scores)
            model = ForestModel(self._pool, self._grown(values), waiting[-32:], self._open(1, 1))
        else:
            active = _active(scores)
            some = scores[active]
            values = standardised(log_regret(some) if self._warp else some)
            members = most_members(len(active), self._members)
            seen = [self._seen[place] for place in active]
            candidates = self._open(len(active) + len(waiting), members)
            model = GaussianModel(self._pool, seen, values, waiting, candidates, self._settings, members)
        return self._ranking(model)

    def _fit_warm(self, scores: NDArray[np.float64], scored: NDArray[np.bool_]) -> Model:
        """Return the model with sources, and take note of how far they are to be trusted."""
        waiting = self._waiting()
        self._pool.settle()
        # Without a score there is nothing to be worse than: what failed is left out until there is one.
        scores = worst_for_failed(scores) if scored.any() else scores[:0]
        active = _active(scores)
        seen = [self._seen[place] for place in active]
        values = log_regret(scores[active]) if self._warp and len(active) else scores[active]
        values = standardised(values) if len(active) else values
        sources = self._warm.posteriors()
        if not len(self._ranked):
            self._ranked = np.argsort(-sources[0].mean, kind="stable")
        candidates = self._open(max(1, len(seen) + len(waiting)), MEMBERS)
        views = self._pool.views  # every second setting of each: with each source they are weighed at each correlation
        some = [settings for place, settings in enumerate(self._settings) if place // views % 2 == 0]
        model = TransferModel(self._pool, sources, seen, values, waiting, candidates, some)
        self._trust = model.trust
        return model

    def _wants_anchor(self) -> bool:
        """Return whether one proposal should come from elsewhere, so that results can speak against the sources."""
        if not self._warm or self._anchored or not (self.told or self.pending):
            return False
        self._anchored = any(candidate.origin in ANCHORS for candidate in self.pending.values())
        return not self._anchored

    def _ranking(self, model: Model | None) -> Model | None:
        """Return the model, with prices where they count, and remember how it ranks the rows."""
        if model is None:
            return None
        rows, improvement = model.improvement()
        if self._thrift and self._seconds:
            # Parameters and multiply-adds, not the decisions: they carry over to networks unlike those seen.
            known = list(self._seconds)
            cost = prices(self._pool.figures, known, [self._seconds[row] for row in known])
            model = PricedModel(model, cost ** np.float32(self._thrift))
            rows, improvement = model.improvement()
        self._ranked = rows[np.argsort(-improvement, kind="stable")]
        return model

    def _grown(self, values: NDArray[np.float64]) -> Forest:
        if self._forest is None or len(values) > REFIT * self._forest[1]:
            wide = max(len(row) for row in self._inputs)
            inputs = np.zeros((len(values), wide), np.float32)
            for place, row in enumerate(self._inputs):
                inputs[place, : len(row)] = row
            self._forest = Forest(inputs, values), len(values)
        return self._forest[0]

    def _waiting(self) -> list[int]:
        latest = list(self.pending.values())[-PENDING:]
        mine = [candidate.decisions for candidate in latest if complete(self.space, candidate.decisions)]
        rows = self._pool.add(mine)
        self._blocked.update(rows)
        return rows

    def _open(self, observed: int, members: int) -> Rows:
        """Return the rows to rank: all, or where that takes too long the best of the last ask and random ones."""
        room = most_candidates(observed, members, len(self._pool))
        if len(self._pool) <= room:
            return np.arange(len(self._pool))
        near = np.fromiter(self._nearby() if self._best is not None else (), np.intp)
        kept = np.concatenate([near, self._ranked[: room // 2]])
        more = self.rng.choice(len(self._pool), room - min(room // 2, len(kept)), replace=False)
        return np.unique(np.concatenate([kept, more]))

    def _gather(self) -> None:
        if len(self._pool) > ROWS:
            self._cut()
        leaders = [told.decisions for told in self._leaders]
        if len(leaders) < LEADERS and (not self._trust or sum(self._trust) >= DISTRUST):
            leaders += self._warm.leaders
        found: list[Decisions] = []
        for number in range(FRESH):
            if leaders and number % 3:
                parent = leaders[int(self.rng.integers(len(leaders)))]
                if number % 6 == 1:
                    other = leaders[int(self.rng.integers(len(leaders)))]
                    parent = self.space.cross(parent, other, self.rng)
                child = self.space.mutate(parent, self.rng)
                if self.rng.random() < 0.5:
                    child = self.space.mutate(child, self.rng)
            else:
                child = self.space.sample(self.rng)
            if not self.known(child):
                found.append(child)
        self._pool.add(found)

    def _cut(self) -> None:
        waiting = self._waiting()
        seen = self._seen if len(self._seen) <= 2 * FOREST else []
        open_ = [int(row) for row in self._ranked if int(row) not in self._blocked][:CANDIDATES]
        moved = self._pool.compact([*seen, *waiting, *open_, *self._warm.rows])
        self._warm.moved(moved)
        self._seen = [moved.get(row, -1) for row in self._seen]
        self._seconds = {moved[row]: value for row, value in self._seconds.items() if row in moved}
        self._blocked = {moved[row] for row in self._blocked if row in moved}
        self._ranked = np.asarray([moved[row] for row in open_], np.intp)


@cache
def _threads() -> Any:
    return ThreadpoolController()


def _active(scores: NDArray[np.float64]) -> Rows:
    """Return the observations to condition on: all, or half of ``ACTIVE`` the best and half the latest of the rest."""
    if len(scores) <= ACTIVE:
        return np.arange(len(scores))
    order = np.argsort(-scores, kind="stable")
    latest = np.sort(order[ACTIVE // 2 :])[-(ACTIVE - ACTIVE // 2) :]
    return np.sort(np.concatenate([order[: ACTIVE // 2], latest]))
