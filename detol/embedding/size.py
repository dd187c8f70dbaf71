"""An estimate of a topology's parameters and multiply-adds that is quick enough for a whole space.

It applies the exact rules of ``detol.graph`` to each live operation, each rule once for each shape that enters, and
leaves out projections and the head. The exact figures (``detol.graph.cost``) take some milliseconds each.
"""

from functools import lru_cache
from typing import TypeAlias

from detol.embedding.light import Light, light
from detol.errors import DetolError
from detol.graph import cost, shapes
from detol.graph.ops import Operation
from detol.graph.shapes import Shape
from detol.graph.topology import Topology

NOMINAL: dict[str, Shape] = {"image": (3, 32, 32), "signal": (3, 128), "features": (32,), "any": (3, 32, 32)}
"""The shape of a sample by the kind of data a space suits; where the real one is not known, ratios stay similar."""

Sized: TypeAlias = tuple[Shape, float, float]
"""Shape that leaves, parameters, multiply-adds."""


def size(topology: Topology, shape: Shape) -> tuple[float, float] | None:
    """Return about how many parameters and multiply-adds a network has; ``None`` where its operations have no rules."""
    graph = light(topology)
    if graph is None:
        return 0.0, 0.0
    try:
        _, params, adds = _graph(graph, shape, {})
    except DetolError:
        return None
    return params, adds


def _graph(graph: Light, shape: Shape, cells: dict[tuple[int, Shape], Sized]) -> Sized:
    after: list[Shape] = []
    params = adds = 0.0
    for node, terms in zip(graph.nodes, graph.terms, strict=True):
        before = shape if not terms else _entering(node, [after[source] for source, _ in terms])
        if isinstance(node, Light):
            key = (id(node), before)
            if key not in cells:
                cells[key] = _graph(node, before, cells)
            leaving, more, work = cells[key]
        else:
            leaving, more, work = _operation(node, before)
        after.append(leaving)
        params += more
        adds += work
    return after[-1], params, adds


def _entering(node: Operation | Light, parts: list[Shape]) -> Shape:
    if len(parts) == 1:
        return parts[0]
    joined = isinstance(node, Operation) and node.kind == "concat"
    return shapes.concatenated(parts) if joined else shapes.merged(parts)


@lru_cache(maxsize=4096)
def _operation(operation: Operation, before: Shape) -> Sized:
    if operation.kind not in shapes.RULES or operation.kind not in cost.RULES:
        raise DetolError(f"operation kind {operation.kind!r} has no rules of shape and cost")
    after = shapes.RULES[operation.kind](operation, before)
    layers = cost.RULES[operation.kind](operation, before, after)
    return after, float(sum(layer.params for layer in layers)), float(sum(layer.multiply_adds for layer in layers))
