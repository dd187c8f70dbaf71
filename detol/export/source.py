"""A network as Python source: straight-line code with named layers, which needs torch alone.

``network_source`` returns the classes, and the names of their layers in the order in which ``detol.graph.build`` makes
its own, by which ``renamed`` hands the weights over.
"""

import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from torch import nn

from detol.export.classes import Body, bare, classes
from detol.export.layers import constructors, head, projection
from detol.graph.ops import Operation
from detol.graph.plan import Plan, Step, Term, plan
from detol.graph.shapes import Shape
from detol.graph.topology import Topology

if TYPE_CHECKING:
    from detol.graph import build

_TAKEN = {"x", "self", "torch", "nn", "F", "Tensor", "mean", "std", "head", "training", "channels", "width", "forward"}
_PLAIN = ("input", "output", "add", "concat")
"""Kinds that are written as an expression, not as a layer."""

_LONG = 80
"""Letters of a sum that stands on one line."""


@dataclass(slots=True)
class Layers:
    """The layers of a network or cell: their names in the order of ``build``, with those of cells."""

    nodes: list[tuple[str, "Layers | None"]] = field(default_factory=list)
    projections: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NetworkSource:
    """The source of a network.

    Args:
        cells: of the classes that the network uses, in an order in which each comes after what it needs.
        init: lines of the network's ``__init__``, not indented.
        forward: likewise of its ``forward``: from the standardised ``x`` to ``x`` before the head.
        layers: names of the layers.
        excites: whether ``SqueezeExcite`` is used.
    """

    cells: tuple[str, ...]
    init: tuple[str, ...]
    forward: tuple[str, ...]
    layers: Layers
    excites: bool


Written: TypeAlias = tuple[Body, Layers]


def network_source(topology: Topology, shape: Sequence[int], outputs: int) -> NetworkSource:
    """Return the source of a topology's network for samples of a shape.

    Raises:
        ShapeError: the topology does not fit the shape.
        TopologyError: the topology is dead, or holds a kind without source.
    """
    made = plan(topology, shape)
    calls: dict[int, str] = {}
    written: dict[int, Written] = {}
    names: Counter[str] = Counter()
    sources: list[str] = []

    def name(body: Body) -> str:
        base = "Reduction" if body.before[1:] != body.after[1:] else "Cell"
        names[base] += 1
        return base if names[base] == 1 else f"{base}{names[base]}"

    for level in _levels(made):  # the innermost first: an outer cell names the classes of its inner ones
        for cell in level:
            written[id(cell)] = _write(cell, calls, written, last="return ")
        for found in classes([written[id(cell)][0] for cell in level], name):
            sources.append(found.source)
            calls |= {id(cell): found.calls[body] for cell in level if (body := written[id(cell)][0]) in found.calls}
    body, layers = _write(made, calls, written, last="x = ", shapes=True)
    init = [*body.init, *_layer("head", head(made.output, outputs))]
    text = "\n".join([*sources, *init])
    return NetworkSource(
        tuple(map(bare, sources)),
        tuple(map(bare, init)),
        tuple(map(bare, body.forward)),
        layers,
        "SqueezeExcite(" in text,
    )


def renamed(network: "build.Network", layers: Layers, keys: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the name of each weight in the written network by its name in the built one.

    Args:
        network: as ``build`` returns it.
        layers: of the written one.
        keys: names of the written network's weights by the layer that holds them, in order.
    """
    found: dict[str, str] = {}
    for inside, outside in [*_pairs(network, layers, "", ""), ("head", "head")]:
        module = network.get_submodule(inside)
        there = [f"{inside}.{key}" for key in module.state_dict()]
        found |= dict(zip(there, keys.get(outside, ()), strict=True))
    return found


def _pairs(body: "build.Body", layers: Layers, inside: str, outside: str) -> Iterator[tuple[str, str]]:
    """Yield (name in the built network, name in the written one) of each layer that is not a cell."""
    for (key, module), (name, inner) in zip(body.nodes.items(), layers.nodes, strict=True):
        if inner is None:
            yield f"{inside}nodes.{key}", f"{outside}{name}"
        else:
            yield from _pairs(module, inner, f"{inside}nodes.{key}.", f"{outside}{name}.")  # type: ignore[arg-type]
    for key, name in zip(body.projections, layers.projections, strict=True):
        yield f"{inside}projections.{key}", f"{outside}{name}"


def _levels(made: Plan) -> list[list[Plan]]:
    """Return the cells below a plan by how deep cells are nested in them, each plan once."""
    heights: dict[int, int] = {}
    levels: dict[int, list[Plan]] = {}

    def height(one: Plan) -> int:
        if id(one) not in heights:
            inner = [height(step.work) for step in one.steps if isinstance(step.work, Plan)]
            heights[id(one)] = 1 + max(inner, default=-1)
            levels.setdefault(heights[id(one)], []).append(one)
        return heights[id(one)]

    height(made)
    return [[cell for cell in levels[key] if cell is not made] for key in sorted(levels)]


class _Names:
    """Gives each layer a name that Python and torch take, readable and used once."""

    def __init__(self) -> None:
        self._used = set(_TAKEN)

    def new(self, text: str, prefix: str) -> str:
        base = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_").lower()
        base = base if base and not base[0].isdigit() else f"{prefix}_{base}".rstrip("_")
        base = f"{base}_" if keyword.iskeyword(base) or hasattr(nn.Module, base) else base
        name, number = base, 2
        while name in self._used:
            name, number = f"{base}_{number}", number + 1
        self._used.add(name)
        return name


def _write(
    made: Plan, calls: Mapping[int, str], written: Mapping[int, Written], *, last: str, shapes: bool = False
) -> Written:
    """Return the source of a plan; its last line is ``last`` and the value of its output node."""
    names, layers = _Names(), Layers()
    init: list[str] = []
    own: dict[str, str] = {}
    for step in made.steps:
        if isinstance(step.work, Plan):
            kind = "reduction" if step.before[1:] != step.after[1:] else "cell"
            own[step.name] = names.new(step.name, kind)
            layers.nodes.append((own[step.name], written[id(step.work)][1]))
            init.append(f"self.{own[step.name]} = {calls[id(step.work)]}")
        elif step.work.kind not in _PLAIN:
            own[step.name] = names.new(step.name, step.work.kind)
            layers.nodes.append((own[step.name], None))
            init += _layer(own[step.name], constructors(step.work, step.before, step.after))
    brought: dict[tuple[str, Shape], str] = {}
    for term in made.projections:
        base = own.get(term.source, "input")
        # The widths of a cell are not part of its names: cells of several widths share a class.
        to = f"to_{'x'.join(map(str, term.after))}" if shapes else "shortcut"
        name = brought[term.source, term.after] = names.new(f"{base}_{to}", "project")
        layers.projections.append(name)
        init += _layer(name, projection(term.before, term.after))
    forward = _Forward(made, own, brought, names).lines(last, shapes=shapes)
    return Body(tuple(init), tuple(forward), made.steps[0].after, made.output), layers


class _Forward:
    """Writes the lines of ``forward``: a value that only the next line needs is called ``x``."""

    def __init__(
        self, made: Plan, own: Mapping[str, str], brought: Mapping[tuple[str, Shape], str], names: _Names
    ) -> None:
        self._own, self._brought, self._names = own, brought, names
        self._steps = made.steps
        self._left = Counter(term.source for step in made.steps for term in step.terms)
        self._variable: dict[str, str] = {}
        self._projected: dict[tuple[str, Shape], str] = {}
        self._found: list[str] = []

    def lines(self, last: str, *, shapes: bool) -> list[str]:
        """Return them; ``shapes`` adds the shape of each value as a comment."""
        for place, step in enumerate(self._steps):
            value = self._merged(step) if step.terms else "x"
            if step.name in self._own:
                value = f"self.{self._own[step.name]}({_broken(value)})"
            elif len(value) > _LONG:
                value = f"({_broken(value)})" if not step.concat else _broken(value).strip()
            if step is self._steps[-1]:
                if value == "x" and self._found and self._found[-1].startswith("x = "):
                    value = self._found.pop().removeprefix("x = ")
                self._found += [] if (last, value) == ("x = ", "x") else [f"{last}{value}"]
            elif value.isidentifier():
                self._variable[step.name] = value  # nothing was computed
            else:
                self._variable[step.name] = name = self._name(step, place)
                shape = f"  # {_times(step.after)}" if shapes else ""
                self._found.append(f"{name} = {value}{shape}")
        return "\n".join(self._found).splitlines()

    def _name(self, step: Step, place: int) -> str:
        """Return ``x`` where the value is used by the next step alone and no other value called ``x`` is needed."""
        after = self._steps[place + 1]
        alone = self._left[step.name] == 1 and [term.source for term in after.terms].count(step.name) == 1
        if alone and not any(name == "x" and self._left[source] for source, name in self._variable.items()):
            return "x"
        if step.name in self._own:
            return self._own[step.name]
        kind = step.work.kind if isinstance(step.work, Operation) else "cell"
        return self._names.new(step.name, kind)

    def _merged(self, step: Step) -> str:
        parts = [self._part(term) for term in step.terms]
        for term in step.terms:
            self._left[term.source] -= 1
        if step.concat:
            return parts[0] if len(parts) == 1 else f"torch.cat([{', '.join(parts)}], dim=1)"
        return " + ".join(parts)

    def _part(self, term: Term) -> str:
        value = self._variable[term.source]
        if term.projected:
            key = (term.source, term.after)
            if key not in self._projected:
                name = self._projected[key] = self._brought[key]
                self._found.append(f"{name} = self.{name}({value})")
            value = self._projected[key]
        return value if term.times == 1 else f"{term.times} * {value}"


def _layer(name: str, made: Sequence[str]) -> list[str]:
    if len(made) == 1:
        return [f"self.{name} = {made[0]}"]
    return [f"self.{name} = nn.Sequential(", *(f"    {one}," for one in made), ")"]


def _broken(text: str) -> str:
    """Return a sum or concatenation, over several lines if it is long."""
    if len(text) <= _LONG:
        return text
    if text.startswith("torch.cat(["):
        inner = text.removeprefix("torch.cat([").removesuffix("], dim=1)").replace(", ", ",\n        ")
        return f"\n    torch.cat([\n        {inner},\n    ], dim=1)\n"
    return "\n    " + text.replace(" + ", "\n    + ") + "\n"


def _times(shape: Shape) -> str:
    return " x ".join(map(str, shape))
