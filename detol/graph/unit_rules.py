"""How each kind of operation passes units on, makes new ones, and ties its parameters to them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from detol.graph.cost import squeezed
from detol.graph.ops import Operation
from detol.graph.shapes import Shape, number
from detol.graph.unit_ledger import Ledger
from detol.graph.unit_table import HIDDEN, Layout, Role


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the plan: its name, the key of its module, its operation, the shapes before and after it."""

    node: str
    module: str
    operation: Operation
    before: Shape
    after: Shape


Rule: TypeAlias = Callable[[Ledger, Place, Layout], Layout]
"""From the ledger, the node and the layout that enters it to the layout that leaves it."""


def _passes(notes: Ledger, at: Place, layout: Layout) -> Layout:  # noqa: ARG001
    return layout


def _flatten(notes: Ledger, at: Place, layout: Layout) -> Layout:  # noqa: ARG001
    return np.repeat(layout, prod(at.before[1:]))


def _norm(notes: Ledger, at: Place, layout: Layout) -> Layout:
    notes.norm(at.node, at.module, layout)
    return layout


def _weighted(notes: Ledger, at: Place, layout: Layout) -> Layout:
    """Convolutions and linear layers: new units, computed from all that enter."""
    if at.operation.kind == "conv" and 1 < number(at.operation, "groups") == at.before[0] == at.after[0]:
        return _depthwise(notes, at, layout)
    made = notes.make(at.node, at.after[0])
    if at.operation.kind == "conv" and number(at.operation, "groups") > 1:
        notes.fix(layout)
        notes.fix(made)
    normed = bool(at.operation["norm"])
    if at.operation.kind == "sepconv":
        notes.axis(at.node, f"{at.module}.depthwise.weight", 0, layout, Role.CARRIES)
    inner = {"conv": "conv", "sepconv": "pointwise", "linear": "linear"}[at.operation.kind]
    if at.operation.kind == "conv" and number(at.operation, "groups") > 1:
        notes.axis(at.node, f"{at.module}.conv.weight", 0, made, Role.WRITES)
        if not normed:
            notes.axis(at.node, f"{at.module}.conv.bias", 0, made, Role.WRITES)
    else:
        notes.weights(at.node, f"{at.module}.{inner}", made, layout, bias=not normed)
    if normed:
        notes.norm(at.node, f"{at.module}.norm", made)
    return made


def _depthwise(notes: Ledger, at: Place, layout: Layout) -> Layout:
    """Carry the units that enter through a convolution of each channel by itself; ``groups`` follow their number."""
    notes.axis(at.node, f"{at.module}.conv.weight", 0, layout, Role.CARRIES)
    if at.operation["norm"]:
        notes.norm(at.node, f"{at.module}.norm", layout)
    else:
        notes.axis(at.node, f"{at.module}.conv.bias", 0, layout, Role.CARRIES)
    return layout


def _mbconv(notes: Ledger, at: Place, layout: Layout) -> Layout:
    hidden = layout
    if number(at.operation, "expand") > 1:
        hidden = notes.make(at.node + HIDDEN, at.before[0] * number(at.operation, "expand"))
        notes.weights(at.node, f"{at.module}.expand.conv", hidden, layout, bias=False)
        notes.norm(at.node, f"{at.module}.expand.norm", hidden)
    notes.axis(at.node, f"{at.module}.depthwise.conv.weight", 0, hidden, Role.CARRIES)
    notes.norm(at.node, f"{at.module}.depthwise.norm", hidden)
    made = notes.make(at.node, at.after[0])
    notes.weights(at.node, f"{at.module}.project.conv", made, hidden, bias=False)
    notes.norm(at.node, f"{at.module}.project.norm", made)
    return made


def _squeeze_excite(notes: Ledger, at: Place, layout: Layout) -> Layout:
    hidden = notes.make(at.node + HIDDEN, squeezed(at.operation, at.before[0]))
    notes.weights(at.node, f"{at.module}.down", hidden, layout, bias=True)
    notes.axis(at.node, f"{at.module}.up.weight", 0, layout, Role.CARRIES)
    notes.axis(at.node, f"{at.module}.up.weight", 1, hidden, Role.READS)
    notes.axis(at.node, f"{at.module}.up.bias", 0, layout, Role.CARRIES)
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
