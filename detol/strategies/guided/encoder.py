"""What the surrogate knows of one candidate: its options as numbers, its graph's patterns, a few figures."""

import math
import zlib
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Choice, Decisions, Option
from detol.strategies.guided.graph_features import graph_features
from detol.strategies.guided.size import NOMINAL, size

Floats: TypeAlias = NDArray[np.float32]

BUCKETS = 512
"""Patterns are hashed into so many signed buckets (Weinberger et al. 2009, arXiv 0902.2206)."""
CLOSED = -1.0
"""Stands in place of an option where a choice is not open."""


class Encoder:
    """Turns decisions and topologies of one space into numbers.

    Args:
        space: its choices are read from ``choices`` where it has them, and otherwise learnt as they are met.

    Attributes:
        columns: the place of each choice in a row of options, by name.
        ordered: for each of these, whether its options are steps of a quantity (declared, or rising numbers).
    """

    def __init__(self, space: SearchSpace) -> None:
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
        found = graph_features(topology)
        row = np.zeros(BUCKETS, np.float32)
        for name, count in found.counts.items():
            code = zlib.crc32(name.encode())
            row[code % BUCKETS] += math.sqrt(count) * (1.0 if code & 0x10000 else -1.0)
        params, adds = size(topology, self._shape)
        if math.isnan(params):
            return row, found.scalars
        return row, {**found.scalars, "log_params": math.log1p(params), "log_multiply_adds": math.log1p(adds)}

    def _discover(self, decisions: Decisions) -> None:
        taken: dict[str, Option] = {}
        while (choice := self._next(Decisions(taken))) is not None:
            if choice.name not in self.columns:
                self._learn(choice)
            taken[choice.name] = decisions[choice.name]

    def _learn(self, choice: Choice) -> None:
        options = choice.options
        numbers = [o for o in options if isinstance(o, int | float) and not isinstance(o, bool)]
        ordered = choice.ordered or (2 < len(options) == len(numbers) and numbers == sorted(numbers))
        steps = max(1, len(options) - 1)
        self.columns[choice.name] = len(self.columns)
        self.ordered.append(ordered)
        self._places.append({option: n / steps if ordered else float(n) for n, option in enumerate(options)})
