"""The plan of a network: what is computed from what, with all shapes known and every projection in its place.

``cost`` adds it up and ``build`` makes modules of it, so they cannot disagree. A plan is made from the normal form and
in the canonical order: topologies of equal digest have equal plans, up to the names of nodes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from detol.errors import ShapeError, TopologyError
from detol.graph.digest import canonical_order
from detol.graph.edit import Normal, concatenates, normal
from detol.graph.ops import Operation
from detol.graph.shapes import Shape, checked, concatenated, leaves, merged
from detol.graph.topology import Topology


@dataclass(frozen=True, slots=True)
class Term:
    """One tensor that enters a node: where it is from, how many times it counts, the shape it must have."""

    source: str
    times: int
    before: Shape
    after: Shape

    @property
    def projected(self) -> bool:
        """Whether the source has another shape than the node wants."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the plan: ``work`` is an operation, or the plan of a cell; ``terms`` are summed or concatenated."""

    name: str
    work: "Operation | Plan"
    terms: tuple[Term, ...]
    concat: bool
    before: Shape
    after: Shape


@dataclass(frozen=True)
class Plan:
    """The steps in an order in which each comes after what it needs; the first is the input, the last the output."""

    form: Normal
    steps: tuple[Step, ...]
    shapes: Mapping[str, Shape] = field(repr=False)

    def after(self, name: str) -> Shape:
        """Return the shape after a node of the normal form."""
        return self.shapes[name]

    @property
    def output(self) -> Shape:
        """The shape after the output node."""
        return self.steps[-1].after

    @property
    def projections(self) -> tuple[Term, ...]:
        """Each different projection once: nodes that want the same tensor in the same shape share one."""
        found = {(term.source, term.after): term for step in self.steps for term in step.terms if term.projected}
        return tuple(found.values())


def plan(topology: Topology, shape: Sequence[int]) -> Plan:
    """Return the plan of a network for samples of a shape: (C, H, W), (C, L) or (F,).

    Raises:
        ShapeError: ``shape`` is none, or a node does not take what reaches it (the message names it).
        TopologyError: the topology is dead, or an operation has no shape rule.
    """
    return _plan(topology, checked(shape), {})


Known: TypeAlias = dict[tuple[int, Shape], Plan]


def _plan(topology: Topology, shape: Shape, known: Known) -> Plan:
    form = normal(topology)
    if form.dead:
        raise TopologyError("no path leads from the input to the output: a dead topology cannot be built")
    shapes: dict[str, Shape] = {}
    steps = []
    order = canonical_order(topology)
    place = {name: number for number, name in enumerate(order)}
    # Only the output has nothing behind it, so it may stand last whatever its depth; cells rely on it.
    for name in [*(n for n in order if n != topology.output), topology.output]:
        node = form.nodes[name]
        concat = concatenates(node)
        sources = form.terms[name] if concat else sorted(form.terms[name], key=lambda term: place[term[0]])
        entering = [shapes[source] for source, _ in sources]
        try:
            before = (concatenated if concat else merged)(entering) if entering else shape
            work, shapes[name] = _work(node, before, known)
        except ShapeError as error:
            reaching = " and ".join(str(one) for one in dict.fromkeys(entering)) or str(shape)
            raise ShapeError(f"node {name!r} got {reaching}: {error}") from None
        wanted = [(one[0], *before[1:]) for one in entering] if concat else [before] * len(entering)
        terms = tuple(
            Term(source, times, now, then) for (source, times), now, then in zip(sources, entering, wanted, strict=True)
        )
        steps.append(Step(name, work, terms, concat, before, shapes[name]))
    return Plan(form, tuple(steps), shapes)


def _work(node: Operation | Topology, shape: Shape, known: Known) -> tuple[Operation | Plan, Shape]:
    if isinstance(node, Operation):
        return node, leaves(node, shape)
    inner = known.get((id(node), shape))
    if inner is None:
        inner = known[id(node), shape] = _plan(node, shape, known)
    return inner, inner.output


def projection_name(term: Term) -> str:
    """Return a readable name of a projection, e.g. ``stem_to_16x8x8``."""
    return f"{term.source}_to_{'x'.join(map(str, term.after))}"


def depth(plan: Plan) -> int:
    """Return the most operations on a path from input to output, those inside cells counted, merges not."""
    depths: Counter[str] = Counter()
    for step in plan.steps:
        depths[step.name] = own_depth(step.work) + max((depths[term.source] for term in step.terms), default=0)
    return depths[plan.steps[-1].name]


def own_depth(work: Operation | Plan) -> int:
    """Return a node's share in ``depth``: 1 for an operation, a cell's own depth, 0 for merges, input and output."""
    return depth(work) if isinstance(work, Plan) else int(work.kind not in _FREE)


_FREE = ("input", "output", "add", "concat")
