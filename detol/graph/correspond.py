"""Which nodes of a child correspond to which of its parent, when the edit itself kept no record.

Both come from the same space, so most nodes have kept their names; but spaces that number the layers of a chain rename
all that follows an insertion. So the nodes are aligned in their order, as sequences are (Needleman and Wunsch 1970, doi
10.1016/0022-2836(70)90057-4), equal operations and equal names counting most.
"""

from collections.abc import Mapping

from detol.graph.edit import Node, normal
from detol.graph.ops import Operation
from detol.graph.topology import Topology

EQUAL, ALIKE, NAME = 1.0, 0.6, 0.3
"""What a pair counts: equal nodes, nodes of one kind, and besides that a common name."""


def correspond(parent: Topology, child: Topology) -> Mapping[str, str]:
    """Return child's node -> parent's node for operations of the same kind, those in corresponding cells by path.

    Inputs and outputs (of the networks and of cells that correspond) are among them. Only nodes of the normal forms are
    named, and the order of both is kept: no pair crosses another.
    """
    found: dict[str, str] = {}
    _pairs(parent, child, "", "", found)
    return found


def within(parent: Topology, child: Topology, nodes: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a record says, completed: inputs and outputs, and the nodes of cells of which it names none.

    Pairs that are no nodes of the normal forms, or of different kinds, are left out.
    """
    found: dict[str, str] = {}
    _recorded(parent, child, "", "", nodes, found)
    return found


def alike(one: Node, other: Node) -> float:
    """Return how much two nodes resemble each other, in [0, 1]; 0 for different kinds."""
    if one == other:
        return EQUAL
    if isinstance(one, Operation) and isinstance(other, Operation):
        if one.kind != other.kind:
            return 0.0
        same = sum(a == b for a, b in zip(one.parameters, other.parameters, strict=True))
        return ALIKE + (EQUAL - ALIKE) * same / (1 + len(one.parameters))
    if isinstance(one, Topology) and isinstance(other, Topology):
        inner = correspond(other, one)
        total = max(len(normal(one).nodes), len(normal(other).nodes)) - 2
        return (EQUAL - 0.05) * max(0, len(inner) - 2) / max(1, total)
    return 0.0


def _pairs(parent: Topology, child: Topology, there: str, here: str, found: dict[str, str]) -> None:
    found[here + child.input], found[here + child.output] = there + parent.input, there + parent.output
    for name, old in _aligned(parent, child):
        _pair(normal(parent).nodes[old], normal(child).nodes[name], there + old, here + name, found)


def _pair(old: Node, new: Node, there: str, here: str, found: dict[str, str]) -> None:
    if isinstance(old, Topology) and isinstance(new, Topology):
        _pairs(old, new, f"{there}/", f"{here}/", found)
    else:
        found[here] = there


def _aligned(parent: Topology, child: Topology) -> list[tuple[str, str]]:
    """Return the pairs (child's, parent's) of the alignment with the greatest sum."""
    olds, news = _order(parent), _order(child)
    old_nodes, new_nodes = normal(parent).nodes, normal(child).nodes
    known: dict[tuple[int, int], float] = {}

    def pair(old: str, new: str) -> float:
        key = (id(old_nodes[old]), id(new_nodes[new]))
        if key not in known:
            known[key] = alike(new_nodes[new], old_nodes[old])
        return known[key] + NAME * (old == new) if known[key] else 0.0

    best = [[0.0] * (len(olds) + 1) for _ in range(len(news) + 1)]
    for i, new in enumerate(news, start=1):
        for j, old in enumerate(olds, start=1):
            best[i][j] = max(best[i - 1][j], best[i][j - 1], best[i - 1][j - 1] + pair(old, new))
    i, j, pairs = len(news), len(olds), []
    while i and j:
        gain = pair(olds[j - 1], news[i - 1])
        if gain and best[i][j] == best[i - 1][j - 1] + gain:
            i, j = i - 1, j - 1
            pairs.append((news[i], olds[j]))
        elif best[i][j] == best[i - 1][j]:
            i -= 1
        else:
            j -= 1
    return pairs


def _order(topology: Topology) -> list[str]:
    kept = normal(topology).nodes
    return [name for name in topology.order if name in kept and name not in (topology.input, topology.output)]


def _recorded(
    parent: Topology, child: Topology, there: str, here: str, nodes: Mapping[str, str], found: dict[str, str]
) -> None:
    found[here + child.input], found[here + child.output] = there + parent.input, there + parent.output
    olds, news = normal(parent).nodes, normal(child).nodes
    for name, new in news.items():
        path = here + name
        old_path = nodes.get(path)
        inside = isinstance(new, Topology) and next((key for key in nodes if key.startswith(f"{path}/")), None)
        if old_path is None and inside:  # a cell that is not named itself: its nodes say which it is
            old_path = next((there + old for old in olds if nodes[inside].startswith(f"{there}{old}/")), None)
        if old_path is None or not old_path.startswith(there) or old_path[len(there) :] not in olds:
            continue
        old = olds[old_path[len(there) :]]
        if inside and isinstance(new, Topology) and isinstance(old, Topology):
            _recorded(old, new, f"{old_path}/", f"{path}/", nodes, found)
        elif isinstance(old, Topology) is isinstance(new, Topology) and alike(new, old):
            _pair(old, new, old_path, path, found)
