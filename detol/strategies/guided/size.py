"""An estimate of a topology's parameters and multiply-adds that is quick enough for a whole space.

It applies the exact rules of ``detol.graph`` to each live operation, each rule once for each shape that enters, and
leaves out projections and the head. The exact figures (``detol.graph.cost``) take some milliseconds each.
"""

from functools import lru_cache
from math import prod

from detol.errors import DetolError
from detol.graph import cost, shapes
from detol.graph.edit import normal
from detol.graph.ops import Operation
from detol.graph.shapes import Shape
from detol.graph.topology import Topology

NOMINAL: dict[str, Shape] = {"image": (3, 32, 32), "signal": (3, 128), "features": (32,), "any": (3, 32, 32)}
"""The shape of a sample by the kind of data a space suits; where the real one is not known, ratios stay similar."""


def size(topology: Topology, shape: Shape) -> tuple[float, float]:
    """Return about how many parameters and multiply-adds a network has; NaN both where no rule applies."""
    try:
        _, params, adds = _walk(topology, shape, {})
    except DetolError:
        return float("nan"), float("nan")
    return params, adds


def _walk(
    topology: Topology, shape: Shape, cells: dict[tuple[int, Shape], tuple[Shape, float, float]]
) -> tuple[Shape, float, float]:
    form = normal(topology)
    if form.dead:
        return shape, 0.0, 0.0
    done: dict[str, Shape] = {}
    params = adds = 0.0
    waiting = list(form.nodes)
    while waiting:
        rest = []
        for name in waiting:
            terms = form.terms[name]
            if any(source not in done for source, _ in terms):
                rest.append(name)
                continue
            node = form.nodes[name]
            before = shape if not terms else _entering(node, [done[source] for source, _ in terms])
            if isinstance(node, Topology):
                key = (id(node), before)
                if key not in cells:
                    cells[key] = _walk(node, before, cells)
                done[name], more, work = cells[key]
            else:
                done[name], more, work = _operation(node, before)
            params += more
            adds += work
        waiting = rest
    return done[_output(form.nodes)], params, adds


def _entering(node: Operation | Topology, parts: list[Shape]) -> Shape:
    if len(parts) == 1:
        return parts[0]
    joined = isinstance(node, Operation) and node.kind == "concat"
    return shapes.concatenated(parts) if joined else shapes.merged(parts)


def _output(nodes: "dict[str, Operation | Topology] | object") -> str:
    assert hasattr(nodes, "items")
    return next(name for name, node in nodes.items() if isinstance(node, Operation) and node.kind == "output")


@lru_cache(maxsize=4096)
def _operation(operation: Operation, before: Shape) -> tuple[Shape, float, float]:
    if operation.kind not in shapes.RULES or operation.kind not in cost.RULES:
        raise DetolError(f"{operation.kind} has no rules")
    after = shapes.RULES[operation.kind](operation, before)
    layers = cost.RULES[operation.kind](operation, before, after)
    assert prod(after) > 0
    return after, float(sum(x.params for x in layers)), float(sum(x.multiply_adds for x in layers))
