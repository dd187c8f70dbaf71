"""How nodes that are new in a child may start so that the child computes what its parent did.

A new node in series starts as an identity where its operation can be one (Net2DeeperNet: Chen et al. 2016, arXiv
1511.05641, section 2.3); a new branch of a sum starts as zero where a gradient still reaches it then (as the last norm
of a residual branch: Goyal et al. 2017, arXiv 1706.02677, section 5.1). All others start afresh.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from detol.graph.flat import FlatNode
from detol.graph.shapes import number


class Start(StrEnum):
    """How a new node with weights starts."""

    IDENTITY = "identity"
    ZERO = "zero"
    FRESH = "fresh"


def can_be_identity(node: FlatNode) -> bool:
    """Return whether weights exist with which the node passes on what enters it (in evaluation).

    A ReLU passes on what is not negative. A gate (``squeeze_excite``) is never 1, and pooling has no weights.
    """
    operation = node.operation
    if operation.kind == "norm":
        return True
    if operation.kind not in ("conv", "sepconv", "mbconv", "linear") or node.before != node.after:
        return False
    if operation.kind != "linear" and number(operation, "stride") != 1:
        return False
    if operation.kind == "conv" and number(operation, "groups") != 1:
        return False
    return operation["activation"] == "none" or (operation["activation"] == "relu" and node.positive)


def can_be_zero(node: FlatNode) -> bool:
    """Return whether weights exist with which the node gives zeros, and still learns.

    A ReLU behind a zero passes no gradient back; all other activations do, and so does a ReLU in front.
    """
    operation = node.operation
    if operation.kind == "norm":
        return True
    if operation.kind == "mbconv":
        return True
    if operation.kind not in ("conv", "sepconv", "linear"):
        return False
    return operation["activation"] != "relu" or dict(operation.parameters).get("order") == "pre"


def starts(
    child: Mapping[str, FlatNode], parent: Mapping[str, FlatNode], nodes: Mapping[str, str]
) -> Mapping[str, Start]:
    """Return how each new node of the child starts, such that what old nodes get stays the same where that can be.

    Args:
        child: the child laid flat.
        parent: the parent laid flat.
        nodes: child's node -> parent's node, inputs and outputs of the networks and of cells included.
    """
    found: dict[str, Start] = {}
    after: dict[str, list[str]] = {name: [] for name in child}
    for name, node in child.items():
        for source in dict.fromkeys(node.sources):
            after[source].append(name)
    # Nearest to what reads it first: a branch whose end is zero may hold anything.
    for name in reversed(list(child)):
        node = child[name]
        if name in nodes or node.passes or node.operation.kind == "concat":
            continue
        found[name] = _start(name, node, child, parent, nodes, found, after)
    return found


def _start(
    name: str,
    node: FlatNode,
    child: Mapping[str, FlatNode],
    parent: Mapping[str, FlatNode],
    nodes: Mapping[str, str],
    found: Mapping[str, Start],
    after: Mapping[str, list[str]],
) -> Start:
    readers = _old_readers(name, child, nodes, found, after)
    sums = [reader for reader in readers if child[reader].operation.kind != "concat"]
    there = {old: new for new, old in nodes.items()}
    for reader in readers:
        wanted = Counter(there.get(source, "") for source in parent[nodes[reader]].sources)
        given = _given(reader, child, nodes, {**found, name: Start.ZERO})
        if reader in sums and not wanted - given and can_be_zero(node):
            return Start.ZERO
        with_it = _given(reader, child, nodes, {**found, name: Start.IDENTITY})
        if wanted - given != wanted - with_it and can_be_identity(node):
            return Start.IDENTITY
    return Start.FRESH


def _old_readers(
    name: str,
    child: Mapping[str, FlatNode],
    nodes: Mapping[str, str],
    found: Mapping[str, Start],
    after: Mapping[str, list[str]],
) -> list[str]:
    """Return the old nodes that see a new one, directly or through new ones that pass it on."""
    seen: dict[str, None] = {}
    waiting = list(after[name])
    while waiting:
        reader = waiting.pop()
        if reader in nodes:
            seen[reader] = None
        elif child[reader].passes or found.get(reader) is Start.IDENTITY:
            waiting += after[reader]
    return list(seen)


def _given(
    reader: str, child: Mapping[str, FlatNode], nodes: Mapping[str, str], starting: Mapping[str, Start]
) -> Counter[str]:
    """Return which old nodes an old node sees through new ones, those that are undecided taken for identities."""
    total: Counter[str] = Counter()
    waiting = list(child[reader].sources)
    while waiting:
        source = waiting.pop()
        if source in nodes:
            total[source] += 1
        elif child[source].passes or starting.get(source, Start.IDENTITY) is Start.IDENTITY:
            waiting += child[source].sources
    return total
