"""Channels and filters: structured pruning, one ranking over all layers (Molchanov et al. 2019, arXiv 1906.10771)."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from detol.graph.prune import prunable, without_units
from detol.graph.topology import Topology
from detol.graph.units import Units, units
from detol.strategies.pruning.cuts import Cut, Size, largest

CRITERIA = ("taylor", "scale")
HALF = 0.5
"""At most this share of a layer goes in one step, and at least ``FEWEST`` units stay."""
FEWEST = 2

Values: TypeAlias = Mapping[str, list[float]]
"""By node, one for each unit."""


def cut(
    topology: Topology,
    measured: Mapping[str, Any],
    size: Size,
    share: float,
    allowance: float,  # noqa: ARG001  training restores what a cut costs
    *,
    criterion: str = "taylor",
) -> Cut | None:
    """Remove the units that matter least, until a share of the network's cost is saved.

    The cost is multiply-adds where samples have axes, else parameters. Units that are tied go together; the mean of
    what they put out moves into what reads them. By the ``criterion`` taylor a unit matters as much as its saliency for
    each multiply-add (or parameter) saved; by ``scale`` as much as the scale of its batch norm (Liu et al. 2017, arXiv
    1708.06519), nodes without one being spared. ``measured`` comes from the measure ``channels``. The other arguments
    and the result are as ``cuts.Level`` says; the allowance is not looked at.
    """
    found = units(topology, size.shape, size.outputs)
    worth = _worth(topology, found, measured["saliency"], size) if criterion == "taylor" else _scales(found, measured)
    order = _order(found, worth)
    price = _price(topology, size)

    def saved(count: int) -> float:
        return 1 - _price(without_units(topology, found, order[:count]), size) / price

    count = largest(1, len(order), lambda count: saved(count) <= share)
    count = min(max(count, 1), len(order))  # a single unit may save more than the share
    if not count:
        return None
    gone = order[:count]
    return Cut(without_units(topology, found, gone), found.without(gone), _folded(found, measured["mean"], gone))


def _price(topology: Topology, size: Size) -> int:
    costs = size.cost(topology)
    return costs.multiply_adds if len(size.shape) > 1 else costs.params


def _worth(topology: Topology, found: Units, saliency: Values, size: Size) -> dict[int, float]:
    """Return by unit its saliency for each multiply-add (or parameter) that goes with it."""
    price = _price(topology, size)
    worth: dict[int, float] = {}
    for name, values in _fitting(found, saliency):
        made = [int(unit) for unit in found.made[name]]
        if len(made) > 1 and made[0] not in worth:
            saved = max(price - _price(without_units(topology, found, made[:1]), size), 1)
            for unit, value in zip(made, values, strict=True):
                worth.setdefault(unit, value / saved)
    return worth


def _scales(found: Units, measured: Mapping[str, Any]) -> dict[int, float]:
    """Return by unit the mean scale of its batch norms."""
    scales: dict[int, list[float]] = {}
    for name, values in _fitting(found, measured["scale"]):
        for unit, value in zip(map(int, found.made[name]), values, strict=True):
            scales.setdefault(unit, []).append(value)
    return {unit: float(np.mean(several)) for unit, several in scales.items()}


def _fitting(found: Units, values: Values) -> list[tuple[str, list[float]]]:
    """Return the nodes that can be cut with their values; those measured on another network are left out."""
    names = (name for name in prunable(found) if name in values)
    return [(name, values[name]) for name in names if len(values[name]) == len(found.made[name])]


def _order(found: Units, worth: Mapping[int, float]) -> list[int]:
    """Return the units that may go in this step, the first first: every node keeps enough of its own."""
    room = {name: len(made) - _stay(len(made)) for name, made in found.made.items()}
    holders: dict[int, list[str]] = {}
    for name, made in found.made.items():
        for unit in map(int, made):
            holders.setdefault(unit, []).append(name)
    order = []
    for unit in sorted(worth, key=lambda unit: (worth[unit], unit)):
        if all(room[name] >= holders[unit].count(name) for name in holders[unit]):
            order.append(unit)
            for name in holders[unit]:
                room[name] -= 1
    return order


def _stay(width: int) -> int:
    return max(min(width, FEWEST), int(np.ceil(HALF * width)))


def _folded(found: Units, mean: Values, gone: list[int]) -> dict[str, tuple[tuple[int, float], ...]]:
    lost = set(gone)
    folded = {
        name: tuple((place, values[place]) for place, unit in enumerate(map(int, found.made[name])) if unit in lost)
        for name, values in _fitting(found, mean)
    }
    return {name: pairs for name, pairs in folded.items() if pairs}
