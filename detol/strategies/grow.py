"""Growth as a strategy (neurogenesis): train a small blueprint, make it larger where that has helped, train on.

Each step keeps the function of the trained network it starts from (Net2Net, Chen et al. 2016, arXiv 1511.05641) and is
an ordinary trial with inherited weights. Which one comes next is the choice of two bandits (UCB1: Auer et al. 2002, doi
10.1023/A:1013689704352), one over kinds of steps and one over parts of the network: the gain of score for each doubling
of the parameters that they have brought.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from detol.errors import TopologyError, UsageError
from detol.graph.cost import cost
from detol.graph.flat import flat
from detol.graph.grow import Growth, deepenings, neutral, wideable, widen
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology
from detol.graph.units import units
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, State, Transfer, Trial
from detol.spaces.decisions import Decisions
from detol.strategies import options
from detol.strategies.base import Identity, Proposer

DRAWN = 100
"""Samples of the space among which the smallest topology is looked for, beside the references."""
PLACES = 40
"""Random places that are tried for one new layer."""
PARTS = 3
"""Parts of a network, by depth, that the bandit tells apart."""
WIDEN = "widen"
LAYERS: dict[str, Operation] = {
    "conv3": op("conv", kernel=3),
    "conv3_pre": op("conv", kernel=3, order="pre"),
    "sepconv3": op("sepconv", kernel=3),
    "sepconv5_pre": op("sepconv", kernel=5, order="pre"),
    "mbconv3": op("mbconv", kernel=3, expand=2),
    "linear": op("linear"),
    "linear_tanh": op("linear", activation="tanh"),
}
"""What a network is deepened with; most start as an identity behind a ReLU, or as a zero beside an edge."""

LEAST = 1.07
"""Growth of the parameters that a step is taken to have brought at least: a tenth of a doubling."""
EXPLORATION = 0.5
"""Weight of what is not known of an arm yet: below 1, since there are few steps in a search."""

Arm: TypeAlias = tuple[str, int]
"""A kind of step, and the part of the network where it is made, from 0."""


@dataclass(slots=True)
class _Grown:
    """A trained network that can grow."""

    number: int
    topology: Topology
    score: float
    params: int
    children: int = 0


@dataclass(slots=True)
class _Bandit:
    """UCB1 over arms; gains count in units of twice their mean size, at most 1."""

    gains: dict[Hashable, list[float]] = field(default_factory=dict)

    def learn(self, arm: Hashable, gain: float) -> None:
        self.gains.setdefault(arm, []).append(gain)

    def value(self, arm: Hashable) -> float:
        """Return the upper confidence bound of an arm; infinite for one that was never tried."""
        own = self.gains.get(arm)
        if not own:
            return math.inf
        every = [abs(gain) for gains in self.gains.values() for gain in gains]
        unit = 2 * sum(every) / len(every) or 1.0
        mean = sum(min(1.0, max(-1.0, gain / unit)) for gain in own) / len(own)
        return mean + EXPLORATION * math.sqrt(2 * math.log(len(every)) / len(own))


class Grow(Proposer):
    """Grows the best network so far by one step at a time: wider in one group of layers, or deeper by one layer.

    The first candidate is the start, from scratch. Then the best trained network that has fewer than ``children``
    children grows. While none has been trained, spare workers train small samples of the space. Without ``shape`` and
    ``outputs`` it only samples.

    Args:
        space: where starts come from; what has grown has left it, and has no decisions.
        start: a topology, or ``smallest``: by parameters, of the references and some samples.
        factor: share of its units by which a group of layers becomes wider, in (0, 1].
        children: steps from one network before the next best one grows, >= 1.
        shape: of one sample of the data.
        outputs: of the network.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    own_start = True
    """References are not tried first: a search starts from its start."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        start: "str | Topology" = "smallest",
        factor: float = 1.0,
        children: int = 3,
        shape: Sequence[int] | None = None,
        outputs: int | None = None,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        super().__init__(space, seed=seed, identity=identity)
        if isinstance(start, str) and start != "smallest":
            raise UsageError(f"grow starts from a topology or 'smallest', got {start!r}: --start finds one by name")
        if not 0 < factor <= 1:
            raise UsageError(f"grow factor must be in (0, 1], got {factor!r}")
        options.whole("children", children, 1)
        self._start, self._factor, self._children = start, factor, children
        self._shape = tuple(shape) if shape is not None and outputs is not None else None
        self._outputs = outputs or 0
        self._root: Topology | None = None
        self._grown: dict[int, _Grown] = {}
        self._steps: dict[Hashable, Arm] = {}
        self._kinds, self._where = _Bandit(), _Bandit()

    def propose(self) -> Candidate | None:
        """Return a small sample of the space."""
        if self._shape is None:
            return self.sample()
        drawn = min((self.space.sample(self.rng) for _ in range(4)), key=self._params)
        return self.candidate(drawn, Origin.SAMPLE)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn from trials: what each step has brought, and which networks can grow."""
        super().tell(trials)
        for trial in trials if self._shape else ():
            arm = self._steps.pop(self.identify(trial.candidate), None) if trial.state.final else None
            scored = trial.state.final and trial.state.scored and math.isfinite(trial.score)
            params = self._size(trial.candidate.topology) if scored else None
            parent = self._grown.get(trial.candidate.parents[0]) if trial.candidate.parents else None
            if arm and parent:
                gain = trial.score - parent.score if params is not None else 0.0
                gain /= math.log2(max((params or 2) / parent.params, LEAST))
                self._kinds.learn(arm[0], gain)
                self._where.learn(arm[1], gain)
            if trial.state is State.COMPLETED and params is not None and trial.candidate.origin is not Origin.RETRAIN:
                self._grown[trial.number] = _Grown(trial.number, trial.candidate.topology, trial.score, params)

    def _new(self) -> Candidate | None:
        return self._first() or self._step() or super()._new()

    # -- starts ----------------------------------------------------------------------------------------------------

    def _first(self) -> Candidate | None:
        if self._root is not None or self._shape is None:
            return None
        if isinstance(self._start, Topology):
            decisions, self._root = Decisions(), self._start
        else:
            every = [*self.space.references.values(), *(self.space.sample(self.rng) for _ in range(DRAWN))]
            decisions = min(every, key=self._params)
            self._root = self.space.decode(decisions)
        made = Candidate(decisions, self._root, Origin.SAMPLE)
        return None if self.identify(made) in self.seen else made

    def _params(self, decisions: Decisions) -> float:
        found = self._size(self.space.decode(decisions))
        return math.inf if found is None else found

    def _size(self, topology: Topology) -> int | None:
        """Return the parameters of a network; ``None`` when it does not fit the data."""
        assert self._shape is not None
        try:
            return cost(topology, self._shape, self._outputs).params
        except TopologyError:
            return None

    # -- steps -----------------------------------------------------------------------------------------------------

    def _step(self) -> Candidate | None:
        ranked = sorted(self._grown.values(), key=lambda grown: (-grown.score, grown.number))
        for grown in ranked:
            if grown.children < self._children:
                made = self._grow(grown)
                grown.children = grown.children + 1 if made else self._children
                if made:
                    return made
        return None

    def _grow(self, grown: _Grown) -> Candidate | None:
        """Return the next step of a network; ``None`` when each is known or impossible."""
        assert self._shape is not None
        depths = _parts(grown.topology, self._shape)
        for arm in self._arms():
            for growth in self._widened(grown, arm, depths) if arm[0] == WIDEN else self._deepened(grown, arm, depths):
                transfer = Transfer(grown.number, nodes=growth.nodes, units=growth.units)
                made = Candidate(Decisions(), growth.topology, Origin.GROW, (grown.number,), transfer=transfer)
                identity = self.identify(made)
                if identity not in self.seen:
                    self._steps[identity] = arm
                    return made
        return None

    def _arms(self) -> list[Arm]:
        """Return kinds and parts, the most promising first, ties at random; kinds count before parts."""
        arms = [(kind, part) for kind in (WIDEN, *LAYERS) for part in range(PARTS)]
        ties = dict(zip(arms, self.rng.random(len(arms)), strict=True))
        finite = {arm: min(self._kinds.value(arm[0]), 1e9) + min(self._where.value(arm[1]), 1e3) for arm in arms}
        return sorted(arms, key=lambda arm: (finite[arm], ties[arm]), reverse=True)

    def _widened(self, grown: _Grown, arm: Arm, depths: dict[str, int]) -> Iterator[Growth]:
        assert self._shape is not None
        found = units(grown.topology, self._shape, self._outputs)
        groups = [group for group in wideable(found) if depths[group[0]] == arm[1]]
        for place in self.rng.permutation(len(groups)):
            layers = groups[int(place)]
            more = max(1, round(self._factor * len(found.made[layers[0]])))
            for count in dict.fromkeys((more, max(1, more // 2))):
                try:
                    yield widen(grown.topology, self._shape, self._outputs, layers, count, self.rng)
                except TopologyError:  # it would be joined otherwise
                    continue

    def _deepened(self, grown: _Grown, arm: Arm, depths: dict[str, int]) -> Iterator[Growth]:
        assert self._shape is not None
        places = [
            place
            for place in deepenings(grown.topology, (LAYERS[arm[0]],))
            if depths.get(place.path + place.target(grown.topology), PARTS - 1) == arm[1]
        ]
        for drawn in self.rng.permutation(len(places))[:PLACES]:
            made = neutral(grown.topology, places[int(drawn)], self._shape)
            if made is not None:
                yield made


def _parts(topology: Topology, shape: Sequence[int]) -> dict[str, int]:
    """Return in which part of the network each node is."""
    nodes = list(flat(topology, shape))
    return {name: place * PARTS // len(nodes) for place, name in enumerate(nodes)}
