"""From the units of a child to those of its parent: what each position along each axis is a copy of."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from detol.errors import TopologyError
from detol.graph.units import HIDDEN, Layout, Units

Places: TypeAlias = NDArray[np.int64]
"""For each position of the child, one of the parent, or -1: it has none."""

FRESH = -1


class UnitMap:
    """What the units of a child are copies of.

    Args:
        child: its units.
        parent: its units.
        nodes: child's node -> parent's node, inputs and outputs included (``correspond.within``).
        copies: child's node -> for each of its units the parent's (counted from 0 in the node): as
            ``records.Transfer.units``. Nodes without an entry keep their units in order; the inner units of a node (
            ``NODE:hidden``) are repeated when there are more of them.
        identities: new nodes of the child that pass on what enters them, in the order of the plan, each with the nodes
            that enter it.

    Raises:
        TopologyError: ``copies`` for a node that has no units, too many or too few of them, or of one that the parent
            has not.
    """

    def __init__(
        self,
        child: Units,
        parent: Units,
        nodes: Mapping[str, str],
        copies: Mapping[str, Sequence[int]],
        identities: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.child, self.parent = child, parent
        self.nodes = {**nodes, **_projections(child, parent, nodes, identities or {}), **_hidden(child, parent, nodes)}
        # Child's unit -> parent's units, in order, each with which of its positions in one layer it is a copy of.
        self._olds: dict[int, dict[int, int]] = defaultdict(dict)
        self._stands: dict[int, int] = {}  # for a unit that an identity passes on: the one that enters it
        data, old_data = (next(iter(units.enters.values())) for units in (child, parent))
        for unit, old in zip(map(int, data), map(int, old_data), strict=True):
            self._olds[unit].setdefault(old, 0)
        self.rows: dict[str, Places] = {}
        known = {name: child.made[name] for name in child.made if self.nodes.get(name) in parent.made}
        for name, places in copies.items():
            self._check(name, places)
        for name in known:
            if name in copies:
                self._set(name, np.array(copies[name], dtype=np.int64))
        for name in known:
            if name not in self.rows:
                self._set(name, self._default(name))
        for name in filter(child.made.__contains__, identities or {}):  # a norm passes units on anyway
            for unit, entering in zip(map(int, child.made[name]), map(int, child.enters[name]), strict=True):
                for old, rank in self._olds.get(entering, {}).items():
                    self._olds[unit].setdefault(old, rank)
                self._stands[unit] = self._stands.get(entering, entering)

    def along(self, here: Layout, there: Layout) -> Places:
        """Return where each position of a child's axis is on the parent's axis.

        The n-th position of a unit (passed on by identities or not) corresponds to the n-th of the unit that it is a
        copy of, counted from the position that it is a copy of where that unit stands several times. Where no position
        has a correspondent but the axes are equally long, positions keep their place.
        """
        places: dict[int, list[int]] = defaultdict(list)
        for place, unit in enumerate(map(int, there)):
            places[unit].append(place)
        found = np.full(len(here), FRESH, dtype=np.int64)
        seen: Counter[int] = Counter()
        for place, unit in enumerate(map(int, here)):
            first = self._stands.get(unit, unit)
            for old, rank in self._olds.get(unit, {}).items():
                number = seen[first] + (rank if seen[first] + rank < len(places[old]) else 0)
                if number < len(places[old]):
                    found[place] = places[old][number]
                    break
            seen[first] += 1
        if len(here) == len(there) and (found == FRESH).all():
            return np.arange(len(here))
        return found

    def _set(self, name: str, places: Places) -> None:
        self.rows[name] = places
        olds = self.parent.made[self.nodes[name]]
        for unit, place in zip(map(int, self.child.made[name]), map(int, places), strict=True):
            if place != FRESH:
                old = int(olds[place])
                self._olds[unit].setdefault(old, int((olds[:place] == old).sum()))

    def _default(self, name: str) -> Places:
        """Return what the ties to other nodes say of a node's units, otherwise their order."""
        olds = self.parent.made[self.nodes[name]]
        count, there = len(self.child.made[name]), {int(unit): place for place, unit in enumerate(olds)}
        tied = [
            next((there[old] for old in self._olds.get(int(unit), ()) if old in there), FRESH)
            for unit in self.child.made[name]
        ]
        if count != len(olds) and any(place != FRESH for place in tied):
            return np.array(tied, dtype=np.int64)
        places = np.arange(count)
        if name.endswith(HIDDEN):
            return places % len(olds)
        return np.where(places < len(olds), places, FRESH)

    def _check(self, name: str, places: Sequence[int]) -> None:
        old = self.nodes.get(name, "")
        if name not in self.child.made or old not in self.parent.made:
            raise TopologyError(f"a transfer names units of {name!r}, which has none in child and parent: name a layer")
        want, most = len(self.child.made[name]), len(self.parent.made[old])
        if len(places) != want or not all(0 <= place < most for place in places):
            raise TopologyError(
                f"a transfer gives {name!r} {len(places)} units of its parent's {most}, the child has {want}: "
                "give one for each, counted from 0"
            )


def _hidden(child: Units, parent: Units, nodes: Mapping[str, str]) -> dict[str, str]:
    pairs = {f"{new}{HIDDEN}": f"{old}{HIDDEN}" for new, old in nodes.items()}
    return {new: old for new, old in pairs.items() if new in child.made and old in parent.made}


def _projections(
    child: Units, parent: Units, nodes: Mapping[str, str], identities: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return the projections that correspond: their sources do, and so does one of the nodes they enter."""
    found: dict[str, str] = {}
    for new, (source, targets) in child.projections.items():
        while len(identities.get(source, ())) == 1:
            source = identities[source][0]
        wanted = {nodes.get(target) for target in targets} - {None}
        for old, (there, ends) in parent.projections.items():
            if nodes.get(source) == there and wanted & set(ends):
                found[new] = old
                break
    return found
