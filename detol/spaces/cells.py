"""Constructors of common spaces, so that a user's space file is a few lines: cells on a graph, chains of layers."""

from collections.abc import Mapping

from detol.errors import SpaceError
from detol.graph.topology import Topology, chain
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.edges import Layers, cell_topology, edge_names, read_cells
from detol.spaces.space import DataKind, DecisionSpace


def cell_space(
    name: str,
    operations: Layers,
    nodes: int = 4,
    *,
    before: Layers | None = None,
    after: Layers | None = None,
    repeat: int = 1,
    references: Mapping[str, Mapping[str, Option]] | None = None,
    description: str = "",
    kind: DataKind = "any",
    source: str = "",
) -> DecisionSpace:
    """Return the space of cells on a complete graph of ``nodes``, one operation on each edge (as NAS-Bench-201).

    Args:
        name: of the space.
        operations: by label; the options of each edge. ``None``: no edge.
        nodes: of the cell with its input and output, >= 2; its choices are ``edge_0_1``, ``edge_0_2``, ``edge_1_2`` ...
        before: layers in front of the first cell (a stem), by name.
        after: layers behind the last cell, by name.
        repeat: how many times the cell stands in a row, >= 1.
        references: hand-designed cells by name.
        description: one line for people.
        kind: the data it suits.
        source: the paper.

    Raises:
        SpaceError: fewer than two nodes, no repeat, or no operations.
    """
    if nodes < 2 or repeat < 1:
        raise SpaceError(f"space {name!r}: a cell has nodes >= 2 and repeat >= 1, got {nodes} and {repeat}")

    def build(decisions: Decisions) -> Topology:
        cell = cell_topology(decisions, operations, nodes)
        parts = [*(before or {}).values(), *[cell] * repeat, *(after or {}).values()]
        return chain(*(part for part in parts if part is not None))

    simple = all(not isinstance(operation, Topology) for operation in operations.values())
    return DecisionSpace(
        name,
        [Choice(edge, tuple(operations)) for edge in edge_names(nodes)],
        build,
        references=references,
        description=description,
        kind=kind,
        source=source,
        read=(lambda topology: read_cells(topology, operations, nodes)) if simple else None,
    )


def chain_space(
    name: str,
    layers: int = 8,
    operations: Layers | None = None,
    *,
    references: Mapping[str, Mapping[str, Option]] | None = None,
    description: str = "",
    kind: DataKind = "any",
    source: str = "",
) -> DecisionSpace:
    """Return the space of chains of ``layers`` layers, each one of ``operations``; choices ``layer_1``, ``layer_2`` ...

    Args:
        name: of the space.
        layers: how many, >= 1.
        operations: by label; ``None`` as an operation: no layer.
        references: hand-designed chains by name.
        description: one line for people.
        kind: the data it suits.
        source: the paper.

    Raises:
        SpaceError: no layers or no operations.
    """
    known = dict(operations or {})
    choices = [Choice(f"layer_{number}", tuple(known)) for number in range(1, layers + 1)]

    def build(decisions: Decisions) -> Topology:
        return chain(*(layer for label in decisions.values() if (layer := known[str(label)]) is not None))

    def read(topology: Topology) -> list[dict[str, Option]]:
        labels = {operation: label for label, operation in known.items()}
        found = [labels.get(topology.nodes[node]) for node in topology.order if topology.nodes[node] in labels]
        spare = labels.get(None)
        filled = found + [spare] * (layers - len(found))
        return [{f"layer_{at}": label for at, label in enumerate(filled, start=1) if label is not None}]

    return DecisionSpace(
        name, choices, build, references=references, description=description, kind=kind, source=source, read=read
    )
