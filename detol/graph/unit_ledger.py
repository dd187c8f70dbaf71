"""What is noted of units while layouts are carried through a network."""

import numpy as np

from detol.graph.ops import Operation
from detol.graph.unit_table import Axis, Layout, Role, Units


class Ledger:
    """Gives units their numbers, and notes which nodes make them, which parameters follow them, and what is tied."""

    def __init__(self) -> None:
        self.made: dict[str, Layout] = {}
        self.enters: dict[str, Layout] = {}
        self.leaves: dict[str, Layout] = {}
        self.operations: dict[str, Operation] = {}
        self.projections: dict[str, tuple[str, list[str]]] = {}
        self.axes: list[Axis] = []
        self.modules: dict[str, str] = {}
        self._fixed: list[Layout] = []
        self._tied: list[int] = []

    def new(self, count: int) -> Layout:
        """Return a layout of new units."""
        start = len(self._tied)
        self._tied.extend(range(start, start + count))
        return np.arange(start, start + count)

    def make(self, node: str, count: int) -> Layout:
        """Return the layout of new units that a node makes."""
        self.made[node] = self.new(count)
        return self.made[node]

    def fix(self, layout: Layout) -> None:
        """Note that the number of these units cannot be changed."""
        self._fixed.append(layout)

    def tie(self, one: Layout, other: Layout) -> None:
        """Make the units of two layouts one, position by position."""
        for a, b in zip(map(self._root, map(int, one)), map(int, other), strict=True):
            self._tied[self._root(b)] = a

    def axis(self, node: str, parameter: str, axis: int, layout: Layout, role: Role) -> None:
        """Note what a parameter does along an axis."""
        self.axes.append(Axis(node, parameter, axis, layout, role))

    def weights(self, node: str, module: str, out: Layout, into: Layout, *, bias: bool) -> None:
        """Note a weight (and a bias) that computes units from others."""
        self.axis(node, f"{module}.weight", 0, out, Role.WRITES)
        self.axis(node, f"{module}.weight", 1, into, Role.READS)
        if bias:
            self.axis(node, f"{module}.bias", 0, out, Role.WRITES)

    def norm(self, node: str, module: str, layout: Layout) -> None:
        """Note the parameters and statistics of a norm."""
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.axis(node, f"{module}.{name}", 0, layout, Role.CARRIES)

    def _root(self, unit: int) -> int:
        while self._tied[unit] != unit:
            self._tied[unit] = self._tied[self._tied[unit]]
            unit = self._tied[unit]
        return unit

    def found(self) -> Units:
        """Return all that was noted, each tied set of units under one number."""
        roots = np.array([self._root(unit) for unit in range(len(self._tied))], dtype=np.int64)
        fixed = frozenset(int(roots[unit]) for layout in self._fixed for unit in layout)
        return Units(
            made={name: roots[layout] for name, layout in self.made.items()},
            enters={name: roots[layout] for name, layout in self.enters.items()},
            leaves={name: roots[layout] for name, layout in self.leaves.items()},
            operations=self.operations,
            projections={name: (source, tuple(targets)) for name, (source, targets) in self.projections.items()},
            axes=tuple(Axis(a.node, a.parameter, a.axis, roots[a.units], a.role) for a in self.axes),
            modules=self.modules,
            fixed=fixed,
        )
