"""The network of a topology laid flat: the operations of all cells in one graph, called by their paths.

A cell's input and output stay as nodes that pass on the sum of what enters them. Paths are those of
:mod:`detol.graph.units`: ``CELL/NODE``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from detol.graph.ops import Operation
from detol.graph.plan import Plan, plan
from detol.graph.shapes import Shape
from detol.graph.topology import Topology


@dataclass(frozen=True, slots=True)
class FlatNode:
    """One operation of the flat network.

    Args:
        operation: what it computes.
        sources: nodes that enter it, as often as they count; of a ``concat`` in the order of its parts.
        projected: those of the sources that are brought to another shape on the way.
        before: shape that enters, after merging.
        after: shape that leaves.
        positive: whether no value that enters can be negative.
    """

    operation: Operation
    sources: tuple[str, ...]
    projected: frozenset[str]
    before: Shape
    after: Shape
    positive: bool

    @property
    def passes(self) -> bool:
        """Whether it only passes on the sum of what enters, in evaluation at least."""
        return self.operation.kind in ("input", "output", "add", "dropout") or (
            self.operation.kind == "activation" and self.operation["fn"] == "relu" and self.positive
        )


def flat(topology: Topology, shape: Sequence[int]) -> Mapping[str, FlatNode]:
    """Return the operations of the normal form by path, each after what it needs.

    Raises:
        ShapeError, TopologyError: as :func:`detol.graph.plan.plan`.
    """
    found: dict[str, FlatNode] = {}
    signs: dict[str, bool] = {}
    for path, node in _walk(plan(topology, shape), "", ()):
        positive = bool(node.sources) and all(signs[s] and s not in node.projected for s in node.sources)
        found[path] = FlatNode(node.operation, node.sources, node.projected, node.before, node.after, positive)
        signs[path] = _sign(node.operation, positive)
    return found


def _walk(made: Plan, path: str, entering: tuple[str, ...]) -> Iterator[tuple[str, FlatNode]]:
    ends = {
        step.name: f"{path}{step.name}" + (f"/{step.work.steps[-1].name}" if isinstance(step.work, Plan) else "")
        for step in made.steps
    }
    for step in made.steps:
        sources = tuple(ends[term.source] for term in step.terms for _ in range(term.times)) or entering
        projected = frozenset(ends[term.source] for term in step.terms if term.projected)
        if isinstance(step.work, Operation):
            yield f"{path}{step.name}", FlatNode(step.work, sources, projected, step.before, step.after, False)
            continue
        first = True
        for inner, node in _walk(step.work, f"{path}{step.name}/", sources):
            # What is projected on its way into the cell is so on its way into the cell's input.
            kept = projected if first else node.projected
            yield inner, FlatNode(node.operation, node.sources, kept, node.before, node.after, False)
            first = False


def _sign(operation: Operation, positive: bool) -> bool:
    """Return whether what leaves an operation cannot be negative, ``positive`` saying so of what enters."""
    kind = operation.kind
    if kind == "activation":
        return operation["fn"] == "relu" or (positive and operation["fn"] == "tanh")
    if kind in ("conv", "sepconv", "linear"):
        return operation["activation"] == "relu" and dict(operation.parameters).get("order") != "pre"
    passing = ("input", "output", "add", "concat", "pool", "global_pool", "flatten", "dropout", "squeeze_excite")
    return positive and kind in passing
