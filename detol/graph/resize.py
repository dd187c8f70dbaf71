"""Giving layers another number of units, all others keeping theirs."""

from collections.abc import Mapping, Sequence

from detol.errors import TopologyError, unknown
from detol.graph.edit import Node
from detol.graph.flat import flat
from detol.graph.ops import Operation
from detol.graph.topology import Topology

WIDTHS = {"conv": "channels", "sepconv": "channels", "mbconv": "channels", "linear": "features"}
"""The meta-parameter that says how many units a node of a kind has."""


def resized(topology: Topology, shape: Sequence[int], sizes: Mapping[str, int]) -> Topology:
    """Return the topology with other numbers of units in some layers.

    A layer that has as many units as enter it (``None``) is told its number only where that has to differ from then
    on, so that a stage which is resized as a whole is written as before.

    Args:
        topology: to change; cells that are used several times are changed where the path says alone.
        shape: of one sample.
        sizes: by path of a layer (``CELL/NODE``), its units, >= 1.

    Raises:
        TopologyError: a path that is no layer of the normal form, or a number below 1.
        ShapeError: the result does not fit ``shape`` (groups, say).
    """
    nodes = flat(topology, shape)
    layers = {path: node.after[0] for path, node in nodes.items() if node.operation.kind in WIDTHS}
    for path, size in sizes.items():
        if path not in layers:
            raise TopologyError(str(unknown("layer", path, layers)))
        if size < 1:
            raise TopologyError(f"a layer has at least 1 unit, {path!r} would have {size}")
    wanted = {**layers, **sizes}
    told = {path: size for path, size in sizes.items() if size != layers[path] and not _open(nodes[path].operation)}
    while True:
        result = _with(topology, told, "")
        now = flat(result, shape)
        # In their order, for what is told one layer decides how many enter the next.
        wrong = next((path for path, size in wanted.items() if path in now and now[path].after[0] != size), None)
        if wrong is None:
            return result
        if wrong in told:
            raise TopologyError(f"layer {wrong!r} cannot have {wanted[wrong]} units")
        told[wrong] = wanted[wrong]


def _open(operation: Operation) -> bool:
    return operation[WIDTHS[operation.kind]] is None


def _with(topology: Topology, told: Mapping[str, int], path: str) -> Topology:
    nodes: dict[str, Node] = {}
    for name, node in topology.nodes.items():
        here = path + name
        if isinstance(node, Topology):
            inside = any(key.startswith(f"{here}/") for key in told)
            nodes[name] = _with(node, told, f"{here}/") if inside else node
        else:
            nodes[name] = node.replace(**{WIDTHS[node.kind]: told[here]}) if here in told else node
    return Topology(nodes, topology.edges)
