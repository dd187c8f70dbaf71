"""Reading decisions back from a topology's structure, so that a large space can tell what is in it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from detol.graph.edit import Normal, concatenates, normal, normalise
from detol.graph.ops import Operation
from detol.graph.topology import Topology

NOTHING = -1
"""As a node to add: none."""


def inner(topology: Topology) -> list[tuple[str, "Operation | Topology"]]:
    """Return the nodes of the normal form with their names in order, without input, output and merges."""
    form = normalise(topology)
    found = [(name, form.nodes[name]) for name in form.order]
    return [
        (name, node)
        for name, node in found
        if not (isinstance(node, Operation) and node.kind in ("input", "output", "add", "concat"))
    ]


@dataclass(frozen=True, slots=True)
class Steps:
    """One way to write a cell: step i, from 1, is ``labels[i-1]`` on ``sources[i-1]``, plus ``added[i-1]`` (nodes)."""

    labels: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    added: tuple[int, ...] = ()


def steps_of(cell: Topology, labels: Mapping[Operation, str], skip: str, most: int) -> Iterator[tuple[Steps, str]]:
    """Yield the ways to write a cell as at most ``most`` steps, with the join that makes its output of them.

    Backtracks over the orders of its operations; a step may be taken only where the value it reads is what enters the
    operation, so few ways are tried. The shortest come first.

    Args:
        cell: a topology of operations.
        labels: of the operations that a step may be.
        skip: the label of a step that passes its source on.
        most: steps, >= 1.
    """
    form = normal(cell)
    operations = {name: node for name, node in inner(cell) if isinstance(node, Operation)}
    mixed = [name for name, node in form.nodes.items() if concatenates(node)]
    parts = [_value(form, source) for source, _ in form.terms[mixed[0]]] if mixed else []
    if mixed:  # the 1x1 convolution behind the concatenation is no step
        operations = {name: node for name, node in operations.items() if (mixed[0], 1) not in form.terms[name]}
    if any(node not in labels for node in operations.values()):
        return
    entering = {name: dict(form.terms[name]) for name in operations}
    wanted = dict(form.terms[cell.output])
    for count in range(max(1, len(operations)), most + 1):
        search = _Search({n: labels[o] for n, o in operations.items()}, entering, skip, cell.input, count)
        for steps, values in search.ways():
            used = {*steps.sources, *steps.added}
            loose = [values[number] for number in range(1, count + 1) if number not in used]
            if mixed:
                if loose == parts:
                    yield steps, "concat"
            elif values[-1] == wanted:
                yield steps, "last"
            elif dict(sum((Counter(value) for value in loose), Counter())) == wanted:
                yield steps, "sum"


def _value(form: Normal, part: str) -> dict[str, int]:
    """Return a part of a concatenation as a sum of operations: an ``add`` in front of it stands for what enters it."""
    node = form.nodes[part]
    return dict(form.terms[part]) if isinstance(node, Operation) and node.kind == "add" else {part: 1}


@dataclass(frozen=True, slots=True)
class _Search:
    labels: Mapping[str, str]
    entering: Mapping[str, Mapping[str, int]]
    skip: str
    start: str
    count: int

    def ways(self) -> Iterator[tuple[Steps, list[dict[str, int]]]]:
        yield from self._extend(Steps(), [{self.start: 1}], frozenset(self.labels))

    def _extend(
        self, steps: Steps, values: list[dict[str, int]], left: frozenset[str]
    ) -> Iterator[tuple[Steps, list[dict[str, int]]]]:
        taken = len(steps.labels)
        if taken == self.count:
            if not left:
                yield steps, values
            return
        for source, value in enumerate(values):
            fitting = [(self.labels[name], {name: 1}, {name}) for name in sorted(left) if self.entering[name] == value]
            spare = [(self.skip, value, set[str]())] if self.count - taken > len(left) else []
            for label, result, gone in [*fitting, *spare]:
                for added in range(NOTHING, len(values)):
                    new = result if added == NOTHING else dict(Counter(result) + Counter(values[added]))
                    longer = replace(
                        steps,
                        labels=(*steps.labels, label),
                        sources=(*steps.sources, source),
                        added=(*steps.added, added),
                    )
                    yield from self._extend(longer, [*values, new], left - gone)
