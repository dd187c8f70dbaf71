"""What the surrogate knows of one candidate: its options as numbers, its graph's patterns, a few figures."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from detol.embedding.embedders import embedder
from detol.embedding.features import features
from detol.embedding.graph_features import Floats, graph_features
from detol.embedding.size import NOMINAL, size
from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Choice, Decisions, Option

EMBEDDINGS = ("off", "paths", "either", "svge")
"""What an encoder may know beyond counts."""
SAMPLES = 16
"""Samples that show what the networks of a space are like: how many choices they take, whether they branch."""
CLOSED = -1.0
"""Stands in place of an option where a choice is not open."""


class Encoder:
    """Turns decisions and topologies of one space into numbers.

    Args:
        space: its choices are read from ``choices`` where it has them, and otherwise learnt as they are met.
        embedding: ``off``; ``paths`` and ``either``: figures hold path statistics as well
            (:mod:`detol.embedding.paths`); ``svge``: these, and the vector of the learned encoder
            (:mod:`detol.embedding.autoencoder`).

    Attributes:
        columns: the place of each choice in a row of options, by name.
        ordered: for each of these, whether its options are steps of a quantity (see :func:`quantity`).
    """

    def __init__(self, space: SearchSpace, embedding: str = "off") -> None:
        self.embedding = embedding
        self._learned = embedder("svge") if embedding == "svge" else None
        self.columns: dict[str, int] = {}
        self.ordered: list[bool] = []
        self._next = space.next
        self._places: list[dict[Option, float]] = []
        self._shape = NOMINAL.get(str(getattr(space, "kind", "any")), NOMINAL["any"])
        for choice in getattr(space, "choices", ()):
            self._learn(choice)

    def options(self, decisions: Decisions) -> list[float]:
        """Return for each choice known so far the number of its option; of an ordered choice its place in [0, 1]."""
        if any(name not in self.columns for name in decisions):
            self._discover(decisions)
        row = [CLOSED] * len(self.columns)
        for name, option in decisions.items():
            column = self.columns[name]
            row[column] = self._places[column][option]
        return row

    def graph(self, topology: Topology) -> tuple[Floats, Mapping[str, float]]:
        """Return the roots of the counts of all patterns, hashed, as float32 (``BUCKETS``,), and figures by name.

        Figures are finite; one that is not there (sizes where an operation has no rules) is left out.
        """
        if self.embedding != "off":
            every = features(topology, self._shape)
            return every.patterns, every.figures
        found = graph_features(topology)
        sized = size(topology, self._shape)
        if sized is None:
            return found.patterns, found.figures
        extra = {"log_params": math.log1p(sized[0]), "log_multiply_adds": math.log1p(sized[1])}
        return found.patterns, {**found.figures, **extra}

    def vectors(self, topologies: Sequence[Topology]) -> Floats:
        """Return the learned vectors of topologies, float32 (n, columns); no columns without a learned encoder."""
        return np.zeros((len(topologies), 0), np.float32) if self._learned is None else self._learned.embed(topologies)

    def _discover(self, decisions: Decisions) -> None:
        taken: dict[str, Option] = {}
        while (choice := self._next(Decisions(taken))) is not None:
            if choice.name not in self.columns:
                self._learn(choice)
            taken[choice.name] = decisions[choice.name]

    def _learn(self, choice: Choice) -> None:
        options = choice.options
        ordered = choice.ordered or quantity(options)
        steps = max(1, len(options) - 1)
        self.columns[choice.name] = len(self.columns)
        self.ordered.append(ordered)
        self._places.append({option: n / steps if ordered else float(n) for n, option in enumerate(options)})


def usual_embedding(space: SearchSpace, *, warm: bool) -> str:
    """Return what a search is to know of graphs unless it is told.

    ``paths`` with a warm start, whose records are enough to tell what path statistics are worth, ``either`` without
    one. ``off`` where networks do not branch: what is on their only path, counts tell.

    Args:
        space: ``SAMPLES`` samples of it show whether its networks branch.
        warm: whether there are records of other data sets.
    """
    rng = np.random.default_rng(0)
    if not any(_branches(space.decode(space.sample(rng))) for _ in range(SAMPLES)):
        return "off"
    return "paths" if warm else "either"


def _branches(topology: Topology) -> bool:
    sources = [source for source, _ in topology.edges]
    cells = (node for node in topology.nodes.values() if isinstance(node, Topology))
    return len(set(sources)) < len(sources) or any(map(_branches, cells))


def quantity(options: Sequence[Option]) -> bool:
    """Return whether options are steps of a quantity, though not declared so: at least three rising numbers.

    Numbers without a gap (0, 1, 2) may as well be names, of the nodes of a cell say, and do not count.
    """
    numbers = [option for option in options if isinstance(option, int | float) and not isinstance(option, bool)]
    steps = {after - before for before, after in pairwise(numbers)}
    return 2 < len(options) == len(numbers) and min(steps) > 0 and steps != {1}
