"""Cells with operations on their edges (as in NAS-Bench-201): from labels to a topology and back."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from detol.graph.edit import normal, plain
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.spaces.decisions import Option
from detol.spaces.reading import inner

Layers = Mapping[str, Operation | Topology | None]
"""What each label stands for; ``None`` is no edge in a cell, no layer in a chain."""


def edge_names(nodes: int) -> tuple[str, ...]:
    """Return ``edge_FROM_TO`` for every pair of a cell's nodes: 0>1, 0>2, 1>2, 0>3 ... (by target, then source)."""
    return tuple(f"edge_{source}_{target}" for target in range(1, nodes) for source in range(target))


def cell_topology(labels: Mapping[str, Option], operations: Layers, nodes: int = 4) -> Topology:
    """Return the cell whose edges carry the operations that ``labels`` (by edge name) stand for.

    Node 0 is the input, the last one the output; each node sums what enters it (Dong and Yang 2020, section 2.1).
    """
    node = {0: "input", nodes - 1: "output"}
    found: dict[str, Operation | Topology] = {"input": op("input")}
    found.update({node.setdefault(number, f"sum_{number}"): op("add") for number in range(1, nodes - 1)})
    edges: list[tuple[str, str]] = []
    for source, target in sorted(combinations(range(nodes), 2), key=lambda pair: pair[::-1]):
        name = f"edge_{source}_{target}"
        operation = operations[str(labels[name])]
        if operation is None:
            continue
        found[name] = operation
        edges += [(node[source], name), (name, node[target])]
    found["output"] = op("output")
    return Topology(found, edges)


def read_cells(topology: Topology, operations: Layers, nodes: int = 4) -> Iterator[dict[str, Option]]:
    """Yield the labels by edge name that a cell inside ``topology`` can come from; the inverse of ``cell_topology``.

    Each cell of the normal form is tried, and the two that leave no trace: the one that changes nothing, and the one
    that joins nothing. Operations that are topologies themselves are not recognised.
    """
    labels = {plain(operation): label for label, operation in operations.items() if isinstance(operation, Operation)}
    none = next((label for label, operation in operations.items() if operation in (None, op("zero"))), None)
    dead = Topology({"input": op("input"), "output": op("output")}, [])
    cells = {node: None for _, node in inner(topology) if isinstance(node, Topology)}
    for cell in [*cells, chain(), dead]:
        form = normal(cell)
        found = {name: node for name, node in inner(cell) if isinstance(node, Operation) and node in labels}
        if len(found) < len(inner(cell)):
            continue
        search = _Search(
            edge_names(nodes),
            {name: (labels[node], dict(form.terms[name])) for name, node in found.items()},
            none,
            labels.get(op("identity")),
            dict(form.terms[cell.output]),
        )
        yield from search.ways({}, [{cell.input: 1}], frozenset(found))


@dataclass(frozen=True, slots=True)
class _Search:
    """Backtracking over the edges: which label each may have, given the value of the node it comes from.

    A value is the sum of operations, with multiplicities, that a node holds; ``operations`` are the labels of those in
    the cell, each with the value that enters it.
    """

    edges: tuple[str, ...]
    operations: Mapping[str, tuple[str, Mapping[str, int]]]
    none: str | None
    skip: str | None
    wanted: Mapping[str, int]

    def ways(
        self, taken: dict[str, Option], values: list[dict[str, int]], left: frozenset[str]
    ) -> Iterator[dict[str, Option]]:
        """Yield all complete labels; ``values`` are those of the nodes so far, the last one perhaps unfinished."""
        if len(taken) == len(self.edges):
            if not left and values[-1] == self.wanted:
                yield taken
            return
        edge = self.edges[len(taken)]
        _, source, target = edge.split("_")
        if int(target) == len(values):
            values = [*values, {}]
        for label, result, gone in self._labels(values[int(source)], left):
            summed = dict(Counter(values[-1]) + Counter(result))
            yield from self.ways({**taken, edge: label}, [*values[:-1], summed], left - gone)

    def _labels(
        self, value: Mapping[str, int], left: frozenset[str]
    ) -> Iterator[tuple[str, Mapping[str, int], frozenset[str]]]:
        if self.none is not None:
            yield self.none, {}, frozenset()
        if self.skip is not None and value:
            yield self.skip, value, frozenset()
        for name in sorted(left):
            label, entering = self.operations[name]
            if entering == value:
                yield label, {name: 1}, frozenset((name,))
