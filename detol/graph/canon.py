"""The canonical order of a coloured directed acyclic graph: equal certificates mean isomorphic graphs, and vice versa.

Individualisation and refinement (McKay and Piperno 2014, doi 10.1016/j.jsc.2013.09.003), with two steps that keep
symmetric networks cheap: after refinement, what is joined uniformly to everything else is split off, so that parallel
branches are ordered one by one (the number of branches adds, it does not multiply); and of vertices that a known
automorphism exchanges only one is tried.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

Certificate: TypeAlias = tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]
"""The colours in the canonical order, and the edges (from, to, label) between places of that order."""


class Graph:
    """Vertices 0 ... n - 1, each with a colour; at most one labelled edge from one vertex to another.

    Args:
        colours: a whole number for each vertex; isomorphisms keep it.
        edges: (from, to, label); labels are whole numbers, isomorphisms keep them.
    """

    def __init__(self, colours: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> None:
        self.colours = list(colours)
        self.ahead: list[dict[int, int]] = [{} for _ in colours]
        self.behind: list[dict[int, int]] = [{} for _ in colours]
        for source, target, kind in edges:
            self.ahead[source][target] = kind
            self.behind[target][source] = kind

    def canonical(self) -> list[int]:
        """Return the vertices in a canonical order: unique up to automorphisms of the graph."""
        order, _ = self._order(list(range(len(self.colours))), dict(enumerate(self.colours)))
        return order

    def _order(self, vertices: list[int], colours: dict[int, int]) -> tuple[list[int], list[dict[int, int]]]:
        """Order some vertices; also return automorphisms (only what they move) that were found on the way."""
        colours = self._refine(vertices, colours)
        cells = _cells(vertices, colours)
        if len(cells) == len(vertices):
            return [cell[0] for cell in cells], []
        parts = self._components(cells, colours)
        if len(parts) == 1:
            return self._branch(parts[0], cells, colours)
        ordered: list[tuple[tuple[int, ...], Certificate, list[int]]] = []
        found: list[dict[int, int]] = []
        for part in parts:
            order, symmetries = self._order(part, {v: colours[v] for v in part}) if len(part) > 1 else (part, [])
            found += symmetries
            ordered.append((tuple(colours[v] for v in order), self._certificate(order, colours), order))
        ordered.sort(key=lambda entry: entry[:2])
        for one, other in pairwise(ordered):
            if one[:2] == other[:2]:  # equal parts may change places
                there = dict(zip(one[2], other[2], strict=True))
                found.append(there | {new: old for old, new in there.items()})
        return [v for _, _, order in ordered for v in order], found

    def _branch(
        self, vertices: list[int], cells: list[list[int]], colours: dict[int, int]
    ) -> tuple[list[int], list[dict[int, int]]]:
        """Set each vertex of one cell apart in turn and keep the least order."""
        cell = min((c for c in cells if len(c) > 1), key=lambda c: (len(c), colours[c[0]]))
        fresh = max(colours[v] for v in vertices) + 1
        best: tuple[Certificate, list[int]] | None = None
        tried: list[int] = []
        found: list[dict[int, int]] = []
        for vertex in cell:
            if tried and _orbit(vertex, found) & set(tried):
                continue
            tried.append(vertex)
            order, symmetries = self._order(vertices, {v: colours[v] for v in vertices} | {vertex: fresh})
            found += symmetries
            certificate = self._certificate(order, colours)
            if best is None or certificate < best[0]:
                best = certificate, order
            elif certificate == best[0]:
                found.append({a: b for a, b in zip(best[1], order, strict=True) if a != b})
        assert best is not None
        return best[1], found

    def _refine(self, vertices: list[int], colours: dict[int, int]) -> dict[int, int]:
        """Return the coarsest finer colouring (0, 1, ...) in which equal colours have equal neighbourhoods."""
        ahead = {v: [(w, kind) for w, kind in self.ahead[v].items() if w in colours] for v in vertices}
        behind = {v: [(w, kind) for w, kind in self.behind[v].items() if w in colours] for v in vertices}
        count = 0
        while True:
            views = {
                v: (
                    colours[v],
                    sorted([(colours[w], kind) for w, kind in behind[v]]),
                    sorted([(colours[w], kind) for w, kind in ahead[v]]),
                )
                for v in vertices
            }
            rank = -1
            last: object = None
            now: dict[int, int] = {}
            for v in sorted(vertices, key=views.__getitem__):
                if views[v] != last:
                    rank, last = rank + 1, views[v]
                now[v] = rank
            colours = now
            if rank + 1 in (count, len(vertices)):
                return colours
            count = rank + 1

    def _components(self, cells: list[list[int]], colours: dict[int, int]) -> list[list[int]]:
        """Split vertices into parts that only the colours tie together.

        Between two cells where all pairs have the same edge, or none has, the colours say it all (a cell of one is
        always so, for the colouring is equitable); the parts are connected by the other edges.
        """
        size = {colours[cell[0]]: len(cell) for cell in cells}
        parent = {v: v for cell in cells for v in cell}

        def root(v: int) -> int:
            while parent[v] != v:
                parent[v] = parent[parent[v]]
                v = parent[v]
            return v

        for cell in cells:
            if len(cell) == 1:
                continue
            tally: dict[tuple[int, int], int] = {}
            for w, kind in self.ahead[cell[0]].items():
                if w in colours:
                    tally[colours[w], kind] = tally.get((colours[w], kind), 0) + 1
            loose = {colour for (colour, _), count in tally.items() if count < size[colour]}
            for v in cell:
                for w in self.ahead[v]:
                    if w in colours and colours[w] in loose:
                        parent[root(v)] = root(w)
        parts: dict[int, list[int]] = {}
        for cell in cells:
            for v in cell:
                parts.setdefault(root(v), []).append(v)
        return list(parts.values())

    def _certificate(self, order: list[int], colours: dict[int, int]) -> Certificate:
        return tuple(colours[v] for v in order), tuple(self.edges(order))

    def edges(self, order: list[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the edges among the vertices of an order, as places in it, sorted."""
        place = {v: number for number, v in enumerate(order)}
        for number, v in enumerate(order):
            yield from sorted((number, place[w], kind) for w, kind in self.ahead[v].items() if w in place)


def _cells(vertices: list[int], colours: dict[int, int]) -> list[list[int]]:
    cells: dict[int, list[int]] = {}
    for v in vertices:
        cells.setdefault(colours[v], []).append(v)
    return [cells[colour] for colour in sorted(cells)]


def _orbit(vertex: int, symmetries: list[dict[int, int]]) -> set[int]:
    """Return where a vertex gets by repeated use of the automorphisms (finite order: inverses come by themselves)."""
    orbit, waiting = {vertex}, [vertex]
    while waiting:
        v = waiting.pop()
        for symmetry in symmetries:
            w = symmetry.get(v, v)
            if w not in orbit:
                orbit.add(w)
                waiting.append(w)
    return orbit
