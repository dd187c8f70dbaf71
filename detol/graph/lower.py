"""Lowering: the same network with every layer in the open, so that any unit or edge of it can be cut by itself.

Cells are opened (each use of one becomes nodes of its own), inverted bottlenecks are written as their three
convolutions, every width is a number, and 1x1 projections that a sum needs are nodes. What remains implicit is pooling
to a common size. Afterwards all tensors that meet in a sum have equally many channels.
"""

from collections.abc import Sequence

from detol.graph.edit import Node, normalise
from detol.graph.ops import Operation, op
from detol.graph.plan import Plan, Step, Term, plan, projection_name
from detol.graph.shapes import Shape, number
from detol.graph.topology import Topology

Terms = list[tuple[str, int]]


def lower(topology: Topology, shape: Sequence[int]) -> Topology:
    """Return the lowered network of a topology for samples of a shape, in its normal form.

    It computes the same family of functions; its weights have other names. Two things differ in training: projections
    across sizes convolve before they pool (these commute), and each use of a cell's batch norm counts by itself, as it
    does in ``build``. A network that is lowered already keeps its digest.

    Args:
        topology: a topology that is not dead.
        shape: of one sample: (C, H, W), (C, L) or (F,).

    Raises:
        ShapeError: the topology does not fit the shape.
        TopologyError: the topology is dead, or an operation has no shape rule.
    """
    opened = _Opened()
    made = plan(topology, shape)
    opened.put(made, "", None)
    return normalise(Topology(opened.nodes, opened.edges))


class _Opened:
    """Nodes and edges as they are written down."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: list[tuple[str, str]] = []

    def put(self, made: Plan, prefix: str, entering: Terms | None) -> Terms:
        """Write a plan's steps; return the sum that stands for its output.

        ``entering`` stands for the input of a cell; the network itself has an input and an output of its own.
        """
        stands: dict[str, Terms] = {}
        projected: dict[tuple[str, Shape], str] = {}
        last = made.steps[-1].name
        for step in made.steps:
            if not step.terms:
                stands[step.name] = [(self.node("input", op("input"), []), 1)] if entering is None else entering
                continue
            parts = [self._term(term, stands, projected, prefix) for term in step.terms]
            terms = [part for several in parts for part in several]
            if step.name == last:
                stands[step.name] = terms if entering is not None else [(self.node("output", op("output"), terms), 1)]
            elif isinstance(step.work, Plan):
                stands[step.name] = self.put(step.work, f"{prefix}{step.name}.", terms)
            elif step.concat:
                single = [self._single(part, f"{prefix}{step.name}.part") for part in parts]
                stands[step.name] = [(self.node(prefix + step.name, step.work, single), 1)]
            else:
                stands[step.name] = [(self._operation(prefix + step.name, step, terms), 1)]
        return stands[last]

    def node(self, name: str, work: Node, terms: Terms) -> str:
        """Write one node and the edges into it; return its name, which is new."""
        while name in self.nodes:
            name += "_"
        self.nodes[name] = work
        self.edges += [(source, name) for source, times in terms for _ in range(times)]
        return name

    def _term(
        self, term: Term, stands: dict[str, Terms], projected: dict[tuple[str, Shape], str], prefix: str
    ) -> Terms:
        """Return what stands for a tensor that enters a sum, behind a 1x1 convolution if its channels differ."""
        terms = stands[term.source]
        if term.before[0] != term.after[0]:
            key = (term.source, term.after)
            if key not in projected:
                projected[key] = self.node(
                    prefix + projection_name(term), _projection(term.before, term.after[0]), terms
                )
            terms = [(projected[key], 1)]
        return [(source, times * term.times) for source, times in terms]

    def _single(self, terms: Terms, name: str) -> tuple[str, int]:
        if len(terms) == 1 and terms[0][1] == 1:
            return terms[0]
        return self.node(name, op("add"), terms), 1

    def _operation(self, name: str, step: Step, terms: Terms) -> str:
        work = step.work
        assert isinstance(work, Operation)
        if work.kind in ("conv", "sepconv"):
            work = work.replace(channels=step.after[0])
        elif work.kind == "linear":
            work = work.replace(features=step.after[0])
        elif work.kind == "mbconv":
            return self._bottleneck(name, work, step, terms)
        return self.node(name, work, terms)

    def _bottleneck(self, name: str, work: Operation, step: Step, terms: Terms) -> str:
        """Write expand (1x1), depthwise and project (1x1) as three nodes, as ``build`` makes them."""
        wide = step.before[0] * number(work, "expand")
        act = work["activation"]
        if wide > step.before[0]:
            expand = op("conv", kernel=1, channels=wide, activation=act)
            terms = [(self.node(f"{name}.expand", expand, terms), 1)]
        depthwise = op("conv", kernel=work["kernel"], stride=work["stride"], channels=wide, groups=wide, activation=act)
        terms = [(self.node(f"{name}.depthwise", depthwise, terms), 1)]
        return self.node(name, op("conv", kernel=1, channels=step.after[0], activation="none"), terms)


def _projection(before: Shape, channels: int) -> Operation:
    if len(before) == 1:
        return op("linear", features=channels, activation="none", norm=True)
    return op("conv", kernel=1, channels=channels, activation="none")
