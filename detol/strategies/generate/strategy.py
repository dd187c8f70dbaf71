"""The generator: decodes topologies from a latent space, and proposes those that its predictor likes.

After AG-Net (Lukasik et al. 2022, arXiv 2203.08734): a generative model of topologies, trained on with weights by rank
as results come in, so that what it writes moves towards what is good, and a predictor that ranks what it wrote.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from torch import Tensor

from detol.embedding.autoencoder import Autoencoder
from detol.embedding.features import features
from detol.embedding.graph_features import Floats, GraphFeatures
from detol.embedding.graphs import Graph, take_apart
from detol.embedding.predictor import Inputs, Predictor
from detol.embedding.training import Corpus, rank_weights, train
from detol.embedding.warp import log_regret, standardised
from detol.embedding.weights import copy
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, State
from detol.spaces.decisions import Decisions
from detol.strategies.base import Identity, Proposer, Told, complete
from detol.strategies.generate.basis import basis_of, decode, encode
from detol.strategies.generate.landing import Landing
from detol.strategies.guided.acquisition import expected_improvement
from detol.strategies.options import positive, whole

ACTIVE = 300
"""Trials that the predictor and the model learn from at most: half of them the best, half the latest of the rest."""
MOST_PARENTS = 64
"""Trials around which points are drawn at most, the best."""
KEPT = 256
"""Written topologies that were not proposed yet and are ranked again."""
WAITING = 32
"""Pending candidates that the predictor believes in at most."""
SEARCHED = 0.2
"""Margin of the predictor's warp: the best are to be told apart."""
CLIMB = 0.5
"""Length of a step up the predicted score, in spreads of the latent space."""


class Generate(Proposer):
    """Writes topologies around the best ones in a latent space.

    First the space's references and uniform samples, ``initial`` in all. Then at each ask points are drawn: around
    trials (better ones more often), between two of them, up the predicted score, and from the spread of the space.
    They are decoded and led back into the space (:class:`detol.strategies.generate.landing.Landing`), and of all that
    was written so far and not proposed the predictor's expected improvement chooses. Every ``refit`` results the model
    is trained for ``steps`` updates on what was told, each topology weighed by 1 / (k N + rank).

    Args:
        space: what is searched.
        initial: proposals before the first that is written, >= 2.
        drawn: points drawn at each ask, >= 1.
        reach: how far around a trial points are drawn, in spreads of the latent space, > 0.
        k: of the weights by rank: small ones look at the best alone, > 0.
        refit: results between two trainings, >= 1.
        steps: updates of each training, >= 0 (0: the model stays as it is).
        samples: topologies of the space that are read before the search, >= 2.
        pretrain: updates on them where the model that comes with detol does not write them well, >= 0.
        references: whether it starts from the space's references.
        seed: of all random numbers.
        identity: what makes two candidates the same one.

    Raises:
        UsageError: a value against its rule.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        initial: int = 10,
        drawn: int = 48,
        reach: float = 0.5,
        k: float = 0.01,
        refit: int = 10,
        steps: int = 10,
        samples: int = 400,
        pretrain: int = 600,
        references: bool = True,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        for name, number, low in (
            ("initial", initial, 2),
            ("drawn", drawn, 1),
            ("refit", refit, 1),
            ("steps", steps, 0),
            ("samples", samples, 2),
            ("pretrain", pretrain, 0),
        ):
            whole(name, number, low)
        for name, value in (("reach", reach), ("k", k)):
            positive(name, value)
        super().__init__(space, seed=seed, identity=identity)
        self._initial, self._drawn, self._reach, self._k = initial, drawn, reach, k
        self._refit, self._steps, self._samples, self._pretrain = refit, steps, samples, pretrain
        self._references = list(space.references.values()) if references else []
        self._landing = Landing(space)
        self._model: Autoencoder | None = None
        self._learnt = 0  # trials told when the model was last trained
        self._apart: dict[Decisions, tuple[Graph, ...]] = {}
        self._features: dict[Decisions, GraphFeatures] = {}
        self._written: dict[Decisions, tuple[int, ...]] = {}  # not proposed yet, oldest first, with parents
        self._chosen: list[Decisions] = []  # best first, for this ask

    @property
    def landed(self) -> tuple[int, int]:
        """How many decoded points were members of the space, and how many were led to the nearest one."""
        return self._landing.members, self._landing.others

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return at most ``count`` (>= 1) new candidates; none means that the space is exhausted."""
        # One thread: the cores belong to the trainings, and the last digits do not depend on how many there are.
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with _threads().limit(limits=1, user_api="blas"):
                return super().ask(count)
        finally:
            torch.set_num_threads(before)

    def prepare(self, count: int) -> None:
        """Train the model if enough was told, write topologies, and rank them."""
        self._chosen = []
        told = self._usable()
        if len(told) < self._initial:
            return
        basis = basis_of(self.space, self._samples, self._pretrain)
        if not basis.usable:
            return
        self._model = self._model or basis.model
        if self._steps and len(self.told) - self._learnt >= self._refit:
            self._learn_from(told)
        self._write(told)
        self._rank(told, count)

    def propose(self) -> Candidate | None:
        """Return the most promising of what was written, or one of the initial design."""
        while self._chosen:
            decisions = self._chosen.pop(0)
            parents = self._written.pop(decisions)
            made = self.candidate(decisions, Origin.GENERATE, parents)
            if made is not None:
                return made
        while self._references:
            made = self.candidate(self._references.pop(0), Origin.REFERENCE)
            if made is not None:
                return made
        return self.sample()

    def _usable(self) -> list[Told]:
        """Return the trials to learn from, the best first; empty while fewer than two have a score."""
        # What was lost is the machine's fault, and says nothing of the network.
        told = [each for each in self.told if each.state is not State.LOST]
        if sum(each.scored for each in told) < 2:
            return []
        order = sorted(range(len(told)), key=lambda place: -told[place].score)
        kept = order[: ACTIVE // 2] + sorted(order[ACTIVE // 2 :])[-(ACTIVE - ACTIVE // 2) :]
        return [told[place] for place in sorted(kept, key=lambda place: (-told[place].score, place))]

    def _learn_from(self, told: Sequence[Told]) -> None:
        """Train on what was told, by rank; what failed counts as the worst."""
        basis = basis_of(self.space, self._samples, self._pretrain)
        model = copy(basis.model) if self._model is None or self._model is basis.model else self._model
        scores = standardised(log_regret(_filled(told)))
        weights = rank_weights(scores, self._k)
        for part in basis.varying:
            some = [(self._taken(t.decisions), place) for place, t in enumerate(told)]
            have = [(graphs[part], place) for graphs, place in some if len(graphs) > part]
            if len(have) > 1:
                places = [place for _, place in have]
                corpus = Corpus.of([graph for graph, _ in have], scores[places], weights[places])
                train(model, [corpus], steps=self._steps, batch=64, rate=3e-4, seed=len(self.told))
        self._model, self._learnt = model, len(self.told)

    def _write(self, told: Sequence[Told]) -> None:
        """Draw points, decode them, and keep where they lead."""
        basis = basis_of(self.space, self._samples, self._pretrain)
        parts = len(basis.fixed)
        assert self._model is not None
        best = told[:MOST_PARENTS]
        at = encode(self._model, [self._taken(t.decisions) for t in best], parts)
        spread = basis.points.std(0, correction=0)
        chance = rank_weights([t.score for t in best], self._k)
        chance = chance / chance.sum()
        points: list[Tensor] = []
        parents: list[tuple[int, ...]] = []
        for number in range(self._drawn):
            one, two = (int(place) for place in self.rng.choice(len(best), 2, p=chance))
            noise = torch.from_numpy(self.rng.normal(0, 1, tuple(spread.shape)).astype(np.float32)) * spread
            way = number % 4
            if way == 3:
                sample = basis.points[int(self.rng.integers(len(basis.points)))]
                points.append(sample + self._reach * noise)
                parents.append(())
                continue
            point = at[one] + self._reach * float(self.rng.uniform(0.3, 1.5)) * noise
            if way == 1 and one != two:
                point = point + float(self.rng.uniform(0.2, 0.8)) * (at[two] - at[one])
            elif way == 2:
                point = point + CLIMB * spread * self._uphill(point)
            points.append(point)
            both = (best[one].number, best[two].number) if way == 1 and one != two else (best[one].number,)
            parents.append(both)
        self._keep(told, torch.stack(points), parents, 0.0)
        if len(self._written) < self._drawn:  # the likeliest graphs are known: less likely ones of the same points
            self._keep(told, torch.stack(points), parents, 1.0)
        while len(self._written) > KEPT:
            del self._written[next(iter(self._written))]

    def _keep(
        self, told: Sequence[Told], points: Tensor, parents: Sequence[tuple[int, ...]], temperature: float
    ) -> None:
        """Decode points and keep where they lead, if that is new."""
        basis = basis_of(self.space, self._samples, self._pretrain)
        assert self._model is not None
        draws = torch.Generator().manual_seed(int(self.rng.integers(2**31)))
        near = told[:MOST_PARENTS]
        at = encode(self._model, [self._taken(t.decisions) for t in near], len(basis.fixed))
        landed = self._landing.land(
            decode(self._model, basis, points, temperature, draws),
            points.flatten(1),
            [*basis.decisions, *(t.decisions for t in near)],
            torch.cat([basis.points, at]).flatten(1),
        )
        for decisions, lines in zip(landed, parents, strict=True):
            if complete(self.space, decisions) and not self.known(decisions):
                self._written.setdefault(decisions, tuple(sorted(lines)))

    def _uphill(self, point: Tensor) -> Tensor:
        """Return the direction in which the predicted score of a point (parts, latent) rises, 1 long in each part."""
        basis = basis_of(self.space, self._samples, self._pretrain)
        here = point.clone().requires_grad_()
        assert self._model is not None
        self._model.scores(here[basis.varying]).sum().backward()  # type: ignore[no-untyped-call]
        slope = here.grad if here.grad is not None else torch.zeros_like(point)
        length = slope.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        direction: Tensor = slope / length * float(point.shape[-1]) ** 0.5
        return direction

    def _rank(self, told: Sequence[Told], count: int) -> None:
        """Order what was written by expected improvement, pending ones believed at their mean."""
        waiting = [candidate.decisions for candidate in list(self.pending.values())[-WAITING:]]
        waiting = [decisions for decisions in waiting if complete(self.space, decisions)]
        known = self._inputs([t.decisions for t in told])
        reference = basis_of(self.space, self._samples, self._pretrain).known
        scores = _filled(told)
        predictor = Predictor(reference, SEARCHED).fit(known, scores)
        best = predictor.best
        open_ = [decisions for decisions in self._written if not self.known(decisions)]
        self._written = {decisions: self._written[decisions] for decisions in open_}
        if not open_:
            return
        mean, deviation = predictor.predict(self._inputs([*waiting, *open_]))
        gain = np.asarray(expected_improvement(_single(mean), _single(deviation), best), np.float64)
        self._chosen = self._spread_out(open_, waiting, gain[len(waiting) :], count)

    def _spread_out(
        self, open_: Sequence[Decisions], waiting: Sequence[Decisions], gain: NDArray[np.float64], count: int
    ) -> list[Decisions]:
        """Return candidates by gain; near what is pending or chosen it counts for less (local penalisation)."""
        gain = gain + 1e-12
        for decisions in waiting:
            gain = gain * _apart(decisions, open_)
        chosen: list[Decisions] = []
        for _ in range(min(count, len(open_))):
            place = int(np.argmax(gain))
            chosen.append(open_[place])
            gain = gain * _apart(open_[place], open_)
            gain[place] = -1.0
        # What is refused (known under another name) is replaced by the next best.
        rest = [open_[int(place)] for place in np.argsort(-gain, kind="stable") if gain[place] >= 0]
        return [*chosen, *rest]

    def _inputs(self, many: Sequence[Decisions]) -> Inputs:
        """Return what the predictor knows of topologies, from memory where they have been met."""
        for decisions in many:
            if decisions not in self._features:
                self._features[decisions] = features(self.space.decode(decisions))
        return Inputs.of([self._features[decisions] for decisions in many])

    def _taken(self, decisions: Decisions) -> tuple[Graph, ...]:
        if decisions not in self._apart:
            self._apart[decisions] = take_apart(self.space.decode(decisions))
        return self._apart[decisions]


def _filled(told: Sequence[Told]) -> NDArray[np.float64]:
    """Return scores; what failed by its own fault is as bad as the worst."""
    scores = np.array([t.score for t in told])
    return np.where(np.isfinite(scores), scores, scores[np.isfinite(scores)].min())


def _apart(one: Decisions, many: Sequence[Decisions]) -> NDArray[np.float64]:
    """Return 1 - exp(-n) for each of many, which differs in n choices from one."""
    differ = [sum(other.get(name) != option for name, option in one.items()) for other in many]
    return np.asarray(1 - np.exp(-np.array(differ, np.float64)))


def _single(values: NDArray[np.float64]) -> Floats:
    return values.astype(np.float32)


@cache
def _threads() -> Any:
    return ThreadpoolController()
