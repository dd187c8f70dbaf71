"""Pruning as a strategy: train an oversized network, cut it, train on with its weights, cut again.

Each step is an ordinary trial whose candidate says which weights of which trained parent it starts from. What is cut
is decided by what workers measured of the parent (``measures``) and sent along with its end.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from detol.errors import TopologyError, UsageError, unknown
from detol.graph.digest import digest
from detol.graph.lower import lower
from detol.graph.prune import prunable, without_units
from detol.graph.topology import Topology
from detol.graph.units import units
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, State, Transfer, Trial
from detol.spaces.decisions import Decisions
from detol.strategies import options
from detol.strategies.base import Identity, Proposer
from detol.strategies.pruning import apoptosis, channels, edges
from detol.strategies.pruning.cuts import Level, Size, relative

LEVELS: dict[str, Level] = {"edges": edges.cut, "channels": channels.cut, "neurons": apoptosis.cut}
"""The levels at which a network is pruned; each is also the name of what it needs measured."""
DRAWN = 100
"""Samples of the space among which the largest topology is looked for, beside the references."""
TRIES = 3
"""Cuts tried of one network at one level, each half as large as the one before."""
NARROWER = (0.75, 0.5, 0.35, 0.25)
"""Widths of copies of the start, from scratch, that spare workers train while there is nothing to cut."""


@dataclass(slots=True)
class _Trained:
    """A trained network that can be cut: what ``tell`` keeps of its trial."""

    number: int
    topology: Topology
    score: float
    params: int
    measured: dict[str, str] = field(repr=False)
    tries: int = 0

    def levels(self, wanted: str) -> tuple[str, ...]:
        """Return the levels to try in turn: of ``auto`` those that suit the network."""
        if wanted != "auto":
            return (wanted,)
        kinds = {node.kind for node in self.topology.nodes.values() if not isinstance(node, Topology)}
        return ("channels", "edges") if kinds & {"conv", "sepconv"} else ("neurons", "edges")


class Prune(Proposer):
    """Cuts the smallest network that is still as good as the best; a cut that costs too much is made again, smaller.

    The first candidate is the start, lowered (see :func:`detol.graph.lower.lower`), from scratch. A trained network
    counts as good when its score is at most ``tolerance`` (relative) below the best so far. The smallest good one is
    cut; when the result is not good, a cut of half the size is tried, up to ``TRIES`` times; then the best of what was
    not cut yet is cut, so that the front goes on to smaller networks. Spare workers train narrower copies of the start
    and large samples of the space from scratch. Without ``shape`` and ``outputs`` it only samples.

    Args:
        space: where starts come from; what was cut has left it, and has no decisions.
        level: ``edges``, ``channels``, ``neurons``, or ``auto``: channels where there are convolutions, neurons where
            there are none, edges of both.
        start: a topology, or ``largest``: by parameters, of the references and some samples that are within the bound.
        share: of the network that one cut removes, in (0, 1).
        tolerance: relative loss of score at which a network is still good, >= 0.
        allowance: share of what the network has learnt that one cut may cost before training goes on, >= 0.
        criterion: by which channels are ranked: ``taylor``, or ``scale`` of their batch norm.
        optimiser: whether the optimiser's state is taken over too.
        shape: of one sample of the data.
        outputs: of the network.
        max_params: bound on the parameters, above which the search refuses candidates; 0: none.
        seed: of all random numbers.
        identity: what makes two candidates the same one.
    """

    own_start = True
    """References are not tried first: a search starts from its start."""

    over = "nothing is left to cut: every network was cut as far as its bounds allow"
    """Why a search ends when nothing more is proposed."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        level: str = "auto",
        start: "str | Topology" = "largest",
        share: float = 0.3,
        tolerance: float = 0.005,
        allowance: float = 0.05,
        criterion: str = "taylor",
        optimiser: bool = True,
        shape: Sequence[int] | None = None,
        outputs: int | None = None,
        max_params: float = 0,
        seed: int = 0,
        identity: Identity | None = None,
    ) -> None:
        super().__init__(space, seed=seed, identity=identity)
        if level != "auto" and level not in LEVELS:
            raise unknown("level of prune", level, ["auto", *LEVELS])
        if criterion not in channels.CRITERIA:
            raise unknown("criterion of prune", criterion, channels.CRITERIA)
        if not 0 < share < 1:
            raise UsageError(f"prune share must be in (0, 1), got {share!r}")
        options.positive("tolerance", tolerance, zero=True)
        options.positive("allowance", allowance, zero=True)
        if isinstance(start, str) and start != "largest":
            raise UsageError(f"prune start is a topology or 'largest', got {start!r}: --start finds one by name")
        self.measures: tuple[str, ...] = tuple(LEVELS) if level == "auto" else (level,)
        self._levels: dict[str, Level] = {**LEVELS, "channels": partial(channels.cut, criterion=criterion)}
        self._level, self._start, self._share = level, start, share
        self._tolerance, self._allowance, self._optimiser = tolerance, allowance, optimiser
        self._bound = max_params or math.inf
        self._size = Size(tuple(shape), outputs) if shape is not None and outputs is not None else None
        self._trained: dict[int, _Trained] = {}
        self._root: Topology | None = None
        self._narrower = iter(NARROWER)

    def propose(self) -> Candidate | None:
        """Return a large sample of the space."""
        return self._sampled() if self._size else self.sample()

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn from trials; those that were measured can be cut."""
        super().tell(trials)
        for trial in trials:
            if trial.candidate.origin is Origin.RETRAIN:
                continue  # the same network again, for the report
            measured = {name: str(trial.extra[name]) for name in self.measures if name in trial.extra}
            if self._size and measured and trial.state is State.COMPLETED and trial.scores is not None:
                topology = trial.candidate.topology
                params = self._size.cost(topology).params
                self._trained[trial.number] = _Trained(trial.number, topology, trial.score, params, measured)

    def _new(self) -> Candidate | None:
        found = self._first() or self._cut_one()
        if found is None and self._trained and not self.pending:
            return None  # all has been cut as far as it may
        return found or self._narrow() or super()._new()

    # -- starts ----------------------------------------------------------------------------------------------------

    def _first(self) -> Candidate | None:
        if self._root is not None or self._size is None:
            return None
        if isinstance(self._start, Topology):
            decisions, topology = Decisions(), self._start
        else:
            decisions, topology = self._largest()
        made = self._from_scratch(decisions, topology)
        self._root = made.topology if made else topology
        return made

    def _largest(self) -> tuple[Decisions, Topology]:
        every = [*self.space.references.values(), *(self.space.sample(self.rng) for _ in range(DRAWN))]
        sizes = [self._params(decisions) for decisions in every]
        found = every[max(range(len(every)), key=sizes.__getitem__)]
        return found, self.space.decode(found)

    def _params(self, decisions: Decisions) -> float:
        """Return the parameters of a network; of one over the bound below 0, the less the further it is over."""
        assert self._size is not None
        try:
            found = self._size.cost(self.space.decode(decisions)).params
        except TopologyError:  # it does not fit the data
            return -math.inf
        return found if found <= self._bound else -found

    def _from_scratch(self, decisions: Decisions, topology: Topology) -> Candidate | None:
        """Return the candidate of a lowered topology; with its decisions, if it is still the one they decode into."""
        assert self._size is not None
        try:
            lowered = lower(topology, self._size.shape)
        except TopologyError:
            return None
        made = Candidate(decisions, topology, Origin.SAMPLE)
        if not decisions or digest(lowered) != digest(topology):
            made = Candidate(Decisions(), lowered, Origin.SAMPLE)
        return None if self.identify(made) in self.seen else made

    def _narrow(self) -> Candidate | None:
        """Return the next narrower copy of the start."""
        if self._root is None or self._size is None:
            return None
        for factor in self._narrower:
            try:
                found = units(self._root, self._size.shape, self._size.outputs)
                layouts = [found.made[name] for name in prunable(found)]
                gone = {int(unit) for layout in layouts for unit in layout[max(1, round(factor * len(layout))) :]}
                made = Candidate(Decisions(), without_units(self._root, found, gone), Origin.PRUNE)
            except TopologyError:
                continue
            if self.identify(made) not in self.seen:
                return made
        return None

    def _sampled(self) -> Candidate | None:
        drawn = [self.space.sample(self.rng) for _ in range(4)]
        found = max(drawn, key=self._params)
        return self._from_scratch(found, self.space.decode(found))

    # -- cuts ------------------------------------------------------------------------------------------------------

    def _cut_one(self) -> Candidate | None:
        for trained in self._order():
            while trained.tries < self._most(trained):
                made = self._cut(trained)
                if made is not None:
                    return made
        return None

    def _most(self, trained: _Trained) -> int:
        return TRIES * len(trained.levels(self._level))

    def _order(self) -> Iterator[_Trained]:
        """Yield trained networks in the order in which to cut them."""
        every = list(self._trained.values())
        best = max((trained.score for trained in every), default=0.0)
        good = [t for t in every if t.score >= best - self._tolerance * abs(best)]
        yield from sorted(good, key=lambda t: (t.params, t.number))[:1]
        yield from sorted((t for t in every if not t.tries), key=lambda t: (-t.score, t.number))
        yield from sorted(every, key=lambda t: (t.tries, -t.score, t.number))

    def _saves_nothing(self, now: Topology, before: Topology) -> bool:
        assert self._size is not None
        return relative(self._size.cost(now), self._size.cost(before)) > 1 - edges.WEIGHTLESS

    def _cut(self, trained: _Trained) -> Candidate | None:
        """Make the next cut of a network; ``None`` when there is none, or when it is known."""
        assert self._size is not None
        levels = trained.levels(self._level)
        smaller, turn = divmod(trained.tries, len(levels))
        trained.tries += 1
        text = trained.measured.get(levels[turn])
        measured: dict[str, Any] | None = json.loads(text) if text else None
        if trained.tries == self._most(trained):
            trained.measured.clear()
        if measured is None:
            return None
        factor = 0.5**smaller
        share, allowance = self._share * factor, self._allowance * factor
        made = self._levels[levels[turn]](trained.topology, measured, self._size, share, allowance)
        if made is None or (self._level == "auto" and self._saves_nothing(made.topology, trained.topology)):
            return None
        transfer = Transfer(
            trained.number,
            nodes={name: name for name in made.topology.nodes},
            units=made.units,
            folded=made.folded,
            merged=made.merged,
            optimiser=self._optimiser,
        )
        candidate = Candidate(Decisions(), made.topology, Origin.PRUNE, (trained.number,), transfer=transfer)
        return None if self.identify(candidate) in self.seen else candidate
