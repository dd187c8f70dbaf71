"""Units: which axis of which parameter follows which node's channels or features.

What prunes or widens a network has to cut or copy alike whatever is tied: a convolution's outputs, the norm behind it,
the inputs of all that read it, and, through sums, the outputs of every other node that is added to it (dependency
groups, Fang et al. 2023, arXiv 2301.12900). Here each channel or feature that a node makes is a *unit* with a number;
a layout (a vector of these numbers) is carried through the plan of the network: elementwise operations pass it on, a
concatenation joins layouts, flattening repeats each number, a sum makes the numbers it adds up one. So one rule covers
skips, cells, projections and the head.

Nodes are named as the topology names them, those in cells by their path: ``CELL/NODE``. Nodes that the normal form
contracts (identities, sums) have none. Projections are nodes of their own, called as :func:`~detol.graph.plan.
projection_name` does. ``NODE:hidden`` are the inner units of ``mbconv`` and ``squeeze_excite``; their number follows
from that of the units that enter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detol.graph.cost import squeezed
from detol.graph.ops import Operation
from detol.graph.plan import Plan, Step, Term, plan, projection_name
from detol.graph.shapes import Shape, number
from detol.graph.topology import Topology

Layout: TypeAlias = NDArray[np.int64]
"""The unit at each position of an axis."""

HIDDEN = ":hidden"
"""Ends the name of the inner units of a node."""


class Role(StrEnum):
    """What a parameter does along an axis that follows units."""

    WRITES = "writes"
    """Computes the unit: rows of a weight, its bias."""
    CARRIES = "carries"
    """Changes the unit alone: norms, depthwise kernels, gates."""
    READS = "reads"
    """Sums over units: columns of a weight."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of one parameter (or buffer): the unit at each of its positions.

    Args:
        node: whose parameter it is; empty for the head.
        parameter: key in the state dict.
        axis: which one, from 0.
        units: at each position.
        role: what the parameter does with them.
    """

    node: str
    parameter: str
    axis: int
    units: Layout
    role: Role


@dataclass(frozen=True, slots=True)
class Reader:
    """Where the units of one node stand along an axis.

    Args:
        parameter: key in the state dict.
        axis: which one, from 0.
        positions: (units, n): those of each unit; n > 1 after flattening, or where a tensor enters twice.
        role: READS, or CARRIES for what must be cut alike.
    """

    parameter: str
    axis: int
    positions: NDArray[np.int64]
    role: Role

    @property
    def offset(self) -> int:
        """The first position of the first unit (behind what was concatenated before it)."""
        return int(self.positions[0, 0])

    @property
    def repeat(self) -> int:
        """Positions of each unit."""
        return int(self.positions.shape[1])


@dataclass(frozen=True)
class Units:
    """The units of a network.

    Args:
        made: by node, the units that it makes. Equal numbers, in one node or in several, are tied.
        enters: by node, those at each position of the tensor that enters it (after merging).
        leaves: by node, those of the tensor that leaves it.
        operations: by node, those that are operations (no cells, no projections).
        projections: by projection, the node it reads and the nodes that its result enters (a cell's output and input).
        axes: of all parameters and buffers.
        modules: by node (an operation or a projection), the key of its module; ``""`` is the head.
        fixed: units whose number cannot be changed: the data's channels, the outputs, what enters or leaves grouped
            convolutions (but depthwise ones) and kinds without a rule in ``RULES``.
    """

    made: Mapping[str, Layout]
    enters: Mapping[str, Layout]
    leaves: Mapping[str, Layout]
    operations: Mapping[str, Operation]
    projections: Mapping[str, tuple[str, tuple[str, ...]]]
    axes: tuple[Axis, ...]
    modules: Mapping[str, str]
    fixed: frozenset[int]

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Nodes (projections among them) whose units are tied, directly or through others; each node once."""
        first: dict[int, str] = {}
        parent = {name: name for name in self.made}

        def root(name: str) -> str:
            while parent[name] != name:
                name = parent[name]
            return name

        for name, units in self.made.items():
            for unit in map(int, units):
                other = first.setdefault(unit, name)
                parent[root(name)] = root(other)
        found: dict[str, list[str]] = {}
        for name in self.made:
            found.setdefault(root(name), []).append(name)
        return tuple(map(tuple, found.values()))

    def group(self, node: str) -> tuple[str, ...]:
        """Return the nodes tied to one, itself among them."""
        return next(group for group in self.groups if node in group)

    def free(self, node: str) -> bool:
        """Return whether the number of a node's units may be changed."""
        return self.fixed.isdisjoint(self.made[node].tolist())

    def writers(self, node: str) -> tuple[tuple[str, int], ...]:
        """Return (parameter, axis) of what computes the units of a node: axis 0 of its weight and its bias."""
        made = self.made[node]
        return tuple(
            (axis.parameter, axis.axis)
            for axis in self.axes
            if axis.role is Role.WRITES and axis.node == node.removesuffix(HIDDEN) and np.array_equal(axis.units, made)
        )

    def readers(self, node: str) -> tuple[Reader, ...]:
        """Return where the units of a node stand in parameters that read or carry them, its own norm among these."""
        made = self.made[node]
        found = []
        for axis in self.axes:
            if axis.role is Role.WRITES:
                continue
            places = [np.flatnonzero(axis.units == unit) for unit in made]
            if places and len(places[0]) and len({len(place) for place in places}) == 1:
                found.append(Reader(axis.parameter, axis.axis, np.stack(places), axis.role))
        return tuple(found)

    def without(self, gone: Iterable[int]) -> dict[str, tuple[int, ...]]:
        """Return, for each node that loses units when ``gone`` are removed, those it keeps (counted from 0).

        It is what ``records.Transfer.units`` holds. Hidden units are not among them.
        """
        lost = np.array(sorted(set(gone)), dtype=np.int64)
        kept = {
            name: np.flatnonzero(~np.isin(units, lost))
            for name, units in self.made.items()
            if np.isin(units, lost).any()
        }
        return {name: tuple(map(int, places)) for name, places in kept.items()}


def units(topology: Topology, shape: Sequence[int], outputs: int) -> Units:
    """Return the units of the network that ``build(topology, shape, outputs)`` makes.

    Raises:
        ShapeError, TopologyError: as :func:`~detol.graph.build.build`.
    """
    walk = _Walk()
    made = plan(topology, shape)
    entering = walk.new(made.steps[0].before[0])
    walk.fix(entering)
    last = walk.body(made, entering, "", "")
    scores = walk.new(outputs)
    walk.fix(scores)
    walk.modules[""] = "head.linear"
    walk.weights("", "head.linear", scores, last, bias=True)
    return walk.found()


def _end(made: Plan, name: str, place: int) -> str:
    """Return the node where tensors enter (0) or leave (-1) a step: of a cell, its input or output, by its path."""
    work = next(step.work for step in made.steps if step.name == name)
    return f"{name}/{_end(work, work.steps[place].name, place)}" if isinstance(work, Plan) else name


class _Walk:
    """Carries layouts through a plan and notes what is tied."""

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
        start = len(self._tied)
        self._tied.extend(range(start, start + count))
        return np.arange(start, start + count)

    def make(self, node: str, count: int) -> Layout:
        self.made[node] = self.new(count)
        return self.made[node]

    def fix(self, layout: Layout) -> None:
        self._fixed.append(layout)

    def tie(self, one: Layout, other: Layout) -> None:
        for a, b in zip(map(self._root, map(int, one)), map(int, other), strict=True):
            self._tied[self._root(b)] = a

    def axis(self, node: str, parameter: str, axis: int, layout: Layout, role: Role) -> None:
        self.axes.append(Axis(node, parameter, axis, layout, role))

    def weights(self, node: str, module: str, out: Layout, into: Layout, *, bias: bool) -> None:
        self.axis(node, f"{module}.weight", 0, out, Role.WRITES)
        self.axis(node, f"{module}.weight", 1, into, Role.READS)
        if bias:
            self.axis(node, f"{module}.bias", 0, out, Role.WRITES)

    def norm(self, node: str, module: str, layout: Layout) -> None:
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.axis(node, f"{module}.{name}", 0, layout, Role.CARRIES)

    def body(self, made: Plan, entering: Layout, path: str, prefix: str) -> Layout:
        """Walk the nodes of a plan whose input has a layout; return the layout of its output."""
        from detol.graph.build import module_names  # torch

        keys = module_names(step.name for step in made.steps)
        projections = module_names(projection_name(term) for term in made.projections)
        values: dict[str, Layout] = {}
        projected: dict[tuple[str, Shape], Layout] = {}
        for step in made.steps:
            node, module = f"{path}{step.name}", f"{prefix}nodes.{keys[step.name]}"
            parts = []
            for term in step.terms:
                name = projection_name(term)
                if term.projected and (term.source, term.after) not in projected:
                    place = f"{prefix}projections.{projections[name]}"
                    projected[term.source, term.after] = self._project(term, values[term.source], path + name, place)
                    self.projections[path + name] = (path + _end(made, term.source, -1), [])
                if term.projected:
                    self.projections[path + name][1].append(path + _end(made, step.name, 0))
                parts.append(projected[term.source, term.after] if term.projected else values[term.source])
            merged = parts[0] if parts else entering
            if step.concat:
                merged = np.concatenate(parts)
            else:
                for part in parts[1:]:
                    self.tie(merged, part)
            self.enters[node] = merged
            values[step.name] = self.leaves[node] = self._work(step, merged, node, module)
        return values[made.steps[-1].name]

    def _work(self, step: Step, layout: Layout, node: str, module: str) -> Layout:
        if isinstance(step.work, Plan):
            return self.body(step.work, layout, f"{node}/", f"{module}.")
        self.operations[node] = step.work
        self.modules[node] = module
        rule = RULES.get(step.work.kind)
        if rule is not None:
            return rule(self, Place(node, module, step.work, step.before, step.after), layout)
        self.fix(layout)
        made = self.make(node, step.after[0])
        self.fix(made)
        return made

    def _project(self, term: Term, layout: Layout, node: str, module: str) -> Layout:
        if term.before[0] == term.after[0]:
            return layout
        self.modules[node] = module
        made = self.make(node, term.after[0])
        self.weights(node, f"{module}.conv", made, layout, bias=False)
        self.norm(node, f"{module}.norm", made)
        return made

    def _root(self, unit: int) -> int:
        while self._tied[unit] != unit:
            self._tied[unit] = self._tied[self._tied[unit]]
            unit = self._tied[unit]
        return unit

    def found(self) -> Units:
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


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the plan: its name, the key of its module, its operation, the shapes before and after it."""

    node: str
    module: str
    operation: Operation
    before: Shape
    after: Shape


Rule: TypeAlias = Callable[[_Walk, Place, Layout], Layout]
"""From the walk, the node and the layout that enters it to the layout that leaves it."""


def _passes(walk: _Walk, at: Place, layout: Layout) -> Layout:  # noqa: ARG001
    return layout


def _flatten(walk: _Walk, at: Place, layout: Layout) -> Layout:  # noqa: ARG001
    return np.repeat(layout, prod(at.before[1:]))


def _norm(walk: _Walk, at: Place, layout: Layout) -> Layout:
    walk.norm(at.node, at.module, layout)
    return layout


def _weighted(walk: _Walk, at: Place, layout: Layout) -> Layout:
    """Convolutions and linear layers: new units, computed from all that enter."""
    if at.operation.kind == "conv" and 1 < number(at.operation, "groups") == at.before[0] == at.after[0]:
        return _depthwise(walk, at, layout)
    made = walk.make(at.node, at.after[0])
    if at.operation.kind == "conv" and number(at.operation, "groups") > 1:
        walk.fix(layout)
        walk.fix(made)
    normed = bool(at.operation["norm"])
    if at.operation.kind == "sepconv":
        walk.axis(at.node, f"{at.module}.depthwise.weight", 0, layout, Role.CARRIES)
    inner = {"conv": "conv", "sepconv": "pointwise", "linear": "linear"}[at.operation.kind]
    if at.operation.kind == "conv" and number(at.operation, "groups") > 1:
        walk.axis(at.node, f"{at.module}.conv.weight", 0, made, Role.WRITES)
        if not normed:
            walk.axis(at.node, f"{at.module}.conv.bias", 0, made, Role.WRITES)
    else:
        walk.weights(at.node, f"{at.module}.{inner}", made, layout, bias=not normed)
    if normed:
        walk.norm(at.node, f"{at.module}.norm", made)
    return made


def _depthwise(walk: _Walk, at: Place, layout: Layout) -> Layout:
    """Carry the units that enter through a convolution of each channel by itself; ``groups`` follow their number."""
    walk.axis(at.node, f"{at.module}.conv.weight", 0, layout, Role.CARRIES)
    if at.operation["norm"]:
        walk.norm(at.node, f"{at.module}.norm", layout)
    else:
        walk.axis(at.node, f"{at.module}.conv.bias", 0, layout, Role.CARRIES)
    return layout


def _mbconv(walk: _Walk, at: Place, layout: Layout) -> Layout:
    hidden = layout
    if number(at.operation, "expand") > 1:
        hidden = walk.make(at.node + HIDDEN, at.before[0] * number(at.operation, "expand"))
        walk.weights(at.node, f"{at.module}.expand.conv", hidden, layout, bias=False)
        walk.norm(at.node, f"{at.module}.expand.norm", hidden)
    walk.axis(at.node, f"{at.module}.depthwise.conv.weight", 0, hidden, Role.CARRIES)
    walk.norm(at.node, f"{at.module}.depthwise.norm", hidden)
    made = walk.make(at.node, at.after[0])
    walk.weights(at.node, f"{at.module}.project.conv", made, hidden, bias=False)
    walk.norm(at.node, f"{at.module}.project.norm", made)
    return made


def _squeeze_excite(walk: _Walk, at: Place, layout: Layout) -> Layout:
    hidden = walk.make(at.node + HIDDEN, squeezed(at.operation, at.before[0]))
    walk.weights(at.node, f"{at.module}.down", hidden, layout, bias=True)
    walk.axis(at.node, f"{at.module}.up.weight", 0, layout, Role.CARRIES)
    walk.axis(at.node, f"{at.module}.up.weight", 1, hidden, Role.READS)
    walk.axis(at.node, f"{at.module}.up.bias", 0, layout, Role.CARRIES)
    return layout


RULES: dict[str, Rule] = {
    **dict.fromkeys(("input", "output", "add", "concat", "pool", "global_pool", "dropout", "activation"), _passes),
    **dict.fromkeys(("conv", "sepconv", "linear"), _weighted),
    "flatten": _flatten,
    "norm": _norm,
    "mbconv": _mbconv,
    "squeeze_excite": _squeeze_excite,
}
"""The rule of each kind. Kinds without one keep their units fixed: they are neither pruned nor widened."""
