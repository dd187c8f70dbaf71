"""A layered layout for drawing: layers from top to bottom, few crossings, long edges straight.

The three steps of Sugiyama, Tagawa and Toda 1981 (doi 10.1109/TSMC.1981.4308636): layers by the longest path, order
within layers by barycentres, places by least squares with a least distance.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]
Vertex: TypeAlias = Hashable

GAP = 26.0
"""Pixels between neighbours in a layer."""
RISE = 34.0
"""Pixels between layers."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Centres of nodes, for each edge the points it passes (from, bends, to), and the size of it all, in pixels."""

    centres: Mapping[str, Point]
    routes: Mapping[tuple[str, str], Sequence[Point]]
    width: float
    height: float


def layered(sizes: Mapping[str, Point], edges: Sequence[tuple[str, str]], order: Sequence[str]) -> Layout:
    """Place boxes of given (width, height); ``order`` is topological; repeated edges count as one."""
    edges = list(dict.fromkeys(edges))
    layers, chains = _split(_depths(order, edges), order, edges)
    links = [link for chain in chains.values() for link in itertools.pairwise(chain)]
    up: dict[Vertex, list[Vertex]] = {v: [] for layer in layers for v in layer}
    down: dict[Vertex, list[Vertex]] = {v: [] for layer in layers for v in layer}
    for a, b in links:
        down[a].append(b)
        up[b].append(a)
    layers = _untangle(layers, up, down)
    box = {v: sizes[v] if isinstance(v, str) else (2.0, 0.0) for layer in layers for v in layer}
    xs = _places(layers, up, down, {v: size[0] for v, size in box.items()})
    ys: dict[Vertex, float] = {}
    top = 0.0
    extents: dict[Vertex, tuple[float, float]] = {}
    for layer in layers:
        height = max(box[v][1] for v in layer)
        for v in layer:
            ys[v] = top + height / 2
            half = (box[v][1] if isinstance(v, str) else height) / 2
            extents[v] = (ys[v] - half, ys[v] + half)
        top += height + RISE
    left = min(xs[v] - box[v][0] / 2 for v in xs)
    right = max(xs[v] + box[v][0] / 2 for v in xs)
    routes: dict[tuple[str, str], list[Point]] = {}
    for edge, chain in chains.items():
        points = [(xs[chain[0]] - left, extents[chain[0]][1])]
        for v in chain[1:-1]:
            points += [(xs[v] - left, extents[v][0]), (xs[v] - left, extents[v][1])]
        routes[edge] = [*points, (xs[chain[-1]] - left, extents[chain[-1]][0])]
    _land(routes, sizes)
    centres = {v: (xs[v] - left, ys[v]) for v in xs if isinstance(v, str)}
    return Layout(centres, routes, right - left, top - RISE)


def _land(routes: Mapping[tuple[str, str], list[Point]], sizes: Mapping[str, Point]) -> None:
    """Let the edges into one node end side by side, in the order in which they come."""
    entering: dict[str, list[list[Point]]] = {}
    for (_, target), points in routes.items():
        entering.setdefault(target, []).append(points)
    for target, several in entering.items():
        room = min(26.0, (sizes[target][0] - 20) / max(1, len(several) - 1))
        for number, points in enumerate(sorted(several, key=lambda route: route[-2][0])):
            x, y = points[-1]
            points[-1] = (x + room * (number - (len(several) - 1) / 2), y)


def _depths(order: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    depths = dict.fromkeys(order, 0)
    before: dict[str, list[str]] = {name: [] for name in order}
    for source, target in edges:
        before[target].append(source)
    for name in order:
        depths[name] = max((depths[source] + 1 for source in before[name]), default=0)
    return depths


def _split(
    depths: Mapping[str, int], order: Sequence[str], edges: Sequence[tuple[str, str]]
) -> tuple[list[list[Vertex]], dict[tuple[str, str], list[Vertex]]]:
    """Return the layers, and each edge as a chain with one bend in every layer that it passes."""
    layers: list[list[Vertex]] = [[] for _ in range(max(depths.values()) + 1)]
    for name in order:
        layers[depths[name]].append(name)
    chains: dict[tuple[str, str], list[Vertex]] = {}
    for source, target in edges:
        bends: list[Vertex] = [(source, target, layer) for layer in range(depths[source] + 1, depths[target])]
        for layer, bend in enumerate(bends, start=depths[source] + 1):
            layers[layer].append(bend)
        chains[source, target] = [source, *bends, target]
    return [layer for layer in layers if layer], chains


def _untangle(
    layers: list[list[Vertex]], up: Mapping[Vertex, list[Vertex]], down: Mapping[Vertex, list[Vertex]]
) -> list[list[Vertex]]:
    """Sort layers by barycentres, downwards and upwards in turn, and keep the order with the fewest crossings."""
    best, fewest = layers, _crossings(layers, down)
    for sweep in range(8):
        if not fewest:
            break
        near, way = (up, 1) if sweep % 2 == 0 else (down, -1)
        layers = [list(layer) for layer in layers]
        for number in list(range(len(layers)))[::way][1:]:
            place = {v: i for i, v in enumerate(layers[number - way])}
            centre = {
                v: sum(place[w] for w in near[v]) / len(near[v]) if near[v] else float(i)
                for i, v in enumerate(layers[number])
            }
            layers[number].sort(key=centre.__getitem__)
        found = _crossings(layers, down)
        if found < fewest:
            best, fewest = layers, found
    return best


def _crossings(layers: Sequence[Sequence[Vertex]], down: Mapping[Vertex, list[Vertex]]) -> int:
    total = 0
    for upper, lower in itertools.pairwise(layers):
        place = {v: i for i, v in enumerate(lower)}
        ends = [i for v in upper for i in sorted(place[w] for w in down[v])]
        total += sum(1 for i, a in enumerate(ends) for b in ends[i + 1 :] if a > b)
    return total


def _places(
    layers: Sequence[Sequence[Vertex]],
    up: Mapping[Vertex, list[Vertex]],
    down: Mapping[Vertex, list[Vertex]],
    widths: Mapping[Vertex, float],
) -> dict[Vertex, float]:
    """Return the horizontal place of each vertex: near its neighbours' mean, a gap from the next one at least."""
    xs: dict[Vertex, float] = {}
    for layer in layers:
        x = -sum(widths[v] + GAP for v in layer) / 2
        for v in layer:
            xs[v] = x + widths[v] / 2
            x += widths[v] + GAP
    for sweep in range(25):  # the last one downwards: ends hang straight below what they follow
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted, weights = [], []
            for v in layer:
                near = [*up[v], *down[v]]
                wanted.append(sum(xs[w] for w in near) / len(near) if near else xs[v])
                weights.append(1.0 if isinstance(v, str) else 4.0)  # bends first: straight long edges
            apart = [(widths[a] + widths[b]) / 2 + GAP for a, b in itertools.pairwise(layer)]
            xs.update(zip(layer, _spread(wanted, weights, apart), strict=True))
    return xs


def _spread(wanted: Sequence[float], weights: Sequence[float], apart: Sequence[float]) -> list[float]:
    """Return increasing places, each ``apart`` from the next, nearest to the wanted ones (pool adjacent violators)."""
    shifts = [0.0]
    for gap in apart:
        shifts.append(shifts[-1] + gap)
    blocks: list[tuple[float, float, int]] = []  # (mean, weight, members) of places less their shifts
    for want, weight, shift in zip(wanted, weights, shifts, strict=True):
        block = (want - shift, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, heavy, members = blocks.pop()
            total = heavy + block[1]
            block = ((mean * heavy + block[0] * block[1]) / total, total, members + block[2])
        blocks.append(block)
    means = [mean for mean, _, members in blocks for _ in range(members)]
    return [mean + shift for mean, shift in zip(means, shifts, strict=True)]
