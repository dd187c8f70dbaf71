"""A topology as GraphML, for networkx, Gephi, yEd and the like: cells are unfolded, so that it is one plain graph."""

import io
from collections.abc import Sequence

import networkx as nx

from detol.graph.ops import Operation
from detol.graph.shapes import infer
from detol.graph.topology import Topology


def graphml(topology: Topology, shape: Sequence[int] | None = None) -> str:
    """Return the topology as a GraphML document.

    A node of a cell is called ``CELL/NODE``; the input and output of a cell are nodes of kind ``identity``. Attributes
    of nodes: ``label`` (operation with what differs from its defaults), ``op``, ``cell`` (path of the cell it is in),
    each meta-parameter by its name, and ``shape`` where it is known. Attribute of edges: ``slot``, the place among the
    edges into the same node, which matters for ``concat``.

    Args:
        topology: any.
        shape: of one sample; when given, nodes of the network (not those in cells) carry the shape that leaves them.
    """
    graph = nx.MultiDiGraph(name=repr(topology))
    shapes = {} if shape is None else infer(topology, shape)
    _add(graph, topology, "")
    for name, found in shapes.items():
        for node in (name, f"{name}/{_output(topology, name)}"):
            if node in graph:
                graph.nodes[node]["shape"] = "x".join(map(str, found))
    text = io.BytesIO()
    nx.write_graphml_xml(graph, text)
    return text.getvalue().decode()


def _output(topology: Topology, name: str) -> str:
    node = topology.nodes[name]
    return node.output if isinstance(node, Topology) else ""


def _add(graph: "nx.MultiDiGraph", topology: Topology, path: str) -> None:
    for name, node in topology.nodes.items():
        if isinstance(node, Topology):
            _add(graph, node, f"{path}{name}/")
        else:
            inner = bool(path) and node.kind in ("input", "output")
            graph.add_node(
                f"{path}{name}",
                label=f"cell {node.kind}" if inner else str(node),
                op="identity" if inner else node.kind,
                **({"cell": path.rstrip("/")} if path else {}),
                **_parameters(node),
            )
    slots: dict[str, int] = {}
    for source, target in topology.edges:
        slots[target] = slots.get(target, 0) + 1
        ends = _end(topology, source, path, inlet=False), _end(topology, target, path, inlet=True)
        graph.add_edge(*ends, slot=slots[target])


def _end(topology: Topology, name: str, path: str, *, inlet: bool) -> str:
    node = topology.nodes[name]
    if isinstance(node, Topology):
        return f"{path}{name}/{node.input if inlet else node.output}"
    return f"{path}{name}"


def _parameters(node: Operation) -> dict[str, str | int | float | bool]:
    """Return the meta-parameters that GraphML can hold; ``None`` ("as the input") is left out."""
    return {key: value for key, value in node.parameters if value is not None}
