"""Neurons: adaptive apoptosis. What is nearly constant, silent or a duplicate goes, and its neighbours take it over."""

from collections.abc import Mapping, Sequence
from typing import Any

from detol.graph.prune import without_units
from detol.graph.topology import Topology
from detol.graph.units import units
from detol.strategies.pruning.cuts import Cut, Size, allowed, largest


def cut(topology: Topology, measured: Mapping[str, Any], size: Size, share: float, allowance: float) -> Cut | None:
    """Make the first removals that were measured, as many as keep both the share of parameters and the allowance.

    ``measured`` comes from the measure ``neurons``: removals in order, and the held-out loss after some
    counts of them. Where that loss would be above what is allowed, fewer are made: the cut backs off before anything
    is trained. Arguments and result as ``cuts.Level`` says.
    """
    removals = measured["removals"]
    most = _harmless(measured["ladder"], allowed(measured, allowance))
    found = units(topology, size.shape, size.outputs)
    gone = [int(found.made[node][unit]) for node, unit, *_ in removals[:most]]
    before = size.cost(topology).params

    def fits(count: int) -> bool:
        return size.cost(without_units(topology, found, gone[:count])).params >= (1 - share) * before

    count = largest(1, len(gone), fits)
    count = min(max(count, 1), len(gone))  # one at least, if one is harmless
    while count < len(gone) and gone[count] == gone[count - 1]:  # what a sum ties goes together
        count += 1
    if not count:
        return None
    folded: dict[str, list[tuple[int, float]]] = {}
    merged: dict[str, list[tuple[int, int, float]]] = {}
    for node, unit, stands, factor, constant in removals[:count]:
        folded.setdefault(node, []).append((int(unit), float(constant)))
        if stands >= 0:
            merged.setdefault(node, []).append((int(unit), int(stands), float(factor)))
    return Cut(
        without_units(topology, found, gone[:count]),
        found.without(gone[:count]),
        {node: tuple(several) for node, several in folded.items()},
        {node: tuple(several) for node, several in merged.items()},
    )


def _harmless(ladder: Sequence[Sequence[float]], most: float) -> int:
    """Return the count of the last rung before the loss first passes ``most``."""
    found = 0
    for count, loss in ladder:
        if loss > most:
            break
        found = int(count)
    return found
