"""Statistics of the paths from input to output: what a signal meets on its way, by kind of operation.

Counts of patterns (:mod:`detol.embedding.graph_features`) say what is there; these say what must be passed: the least
and most operations of a kind on a path, how many paths meet none of them, and how deep a network is that avoids them.
All are dynamic programmes over the nodes, linear in the edges, so that a graph with 10^12 paths takes no longer.

Two weights of a path: each path alike, and by the share of the variance that arrives through it. For the second, terms
of a sum are taken as uncorrelated, an operation with weights (which normalises) sets the variance to 1, and one without
keeps it, but for pooling, which averages part of it away (the mean-field view of signal propagation, Schoenholz et al.
2017, arXiv 1611.01232, with one number for each node).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from detol.embedding.light import Light, Terms
from detol.graph.ops import KINDS, Operation

POOLED = 0.4
"""Share of the variance that is left after pooling: between 1/9 (no correlation of neighbours) and 1."""

PATH_STATISTICS = frozenset(
    {
        *("path_least", "path_most", "path_mean", "path_none", "path_reach"),
        *("flow_mean", "flow_spread", "flow_none", "flow_gain", "width", "density"),
    }
)
"""What :func:`path_statistics` gives, by the part of a name before its group."""

ALL, WEIGHTED = "all", "weighted"
"""Groups that every graph has: all operations, and those with weights."""

Doubles = NDArray[np.float64]


def path_statistics(graph: Light) -> Mapping[str, float]:
    """Return the statistics of one level of a topology (a cell counts as one operation), all finite.

    For each group G (``all``, ``weighted``, each kind, each kind with its kernel): ``path_least:G``, ``path_most:G``,
    ``path_mean:G`` (operations of G on a path), ``path_none:G`` (share of paths without), ``path_reach:G`` (most
    operations with weights on a path without G; -1: there is no such path), and by share of variance
    ``flow_mean:G``, ``flow_spread:G`` (standard deviation), ``flow_none:G``. Besides ``flow_gain``, the logarithm of
    the variance at the output, ``width`` (most nodes at one depth) and ``density`` (edges for each two nodes).
    """
    return _statistics(tuple(map(groups_of, graph.nodes)), graph.terms)


def groups_of(node: "Operation | Light") -> tuple[str, ...]:
    """Return the groups that a node belongs to; none for the input, the output and sums."""
    if isinstance(node, Light):
        return (ALL, WEIGHTED, "cell")
    return _groups(node)


@lru_cache(maxsize=4096)
def _groups(node: Operation) -> tuple[str, ...]:
    if node.kind in ("input", "output", "add"):
        return ()
    values = dict(node.parameters)
    found = [ALL, *([WEIGHTED] if KINDS[node.kind].weighted else []), node.kind]
    if node.kind == "symbol":
        found[-1] = f"symbol {values['value']}"
    elif "kernel" in values:
        found.append(f"{node.kind} {values['kernel']}")
    return tuple(found)


_MOST, _REACH = range(2)
_FLOW, _SQUARES, _FLOW_NONE, _TOTAL, _NONE = range(5)
_BY_SHARE, _BY_PATHS = 3, 2  # of these rows, the first ones and the last


@dataclass(slots=True)
class _Reading:
    """What is known at a node, for each group, over the paths that lead to it.

    ``maxima`` has the rows ``_MOST`` and ``_REACH``. ``sums`` has, by share of variance (the shares add up to 1), the
    count (``_FLOW``), its square, and where it is zero; then, by weight of the paths, the count and where it is zero.
    (Arrays of several rows: on so few groups a call of numpy costs more than what it does.)
    """

    least: Doubles
    maxima: Doubles
    sums: Doubles
    paths: float  # total weight
    variance: float


@lru_cache(maxsize=8192)
def _statistics(groups: tuple[tuple[str, ...], ...], terms: tuple[Terms, ...]) -> Mapping[str, float]:
    names = sorted({ALL, WEIGHTED}.union(*groups))
    place = {name: number for number, name in enumerate(names)}
    here = np.zeros((len(groups), len(names)))
    for node, own in enumerate(groups):
        here[node, [place[name] for name in own]] = 1.0
    sums = np.zeros((5, len(names)))
    sums[[_FLOW_NONE, _NONE]] = 1.0
    readings = [_Reading(np.zeros(len(names)), np.zeros((2, len(names))), sums, 1.0, 1.0)]
    for node in range(1, len(groups)):
        entering = [(readings[source], times) for source, times in terms[node]]
        readings.append(_through(entering, here[node], groups[node], here[node, place[WEIGHTED]]))
    last = readings[-1]
    spread = np.sqrt(np.maximum(0.0, last.sums[_SQUARES] - last.sums[_FLOW] ** 2))
    values = {
        "path_least": last.least,
        "path_most": last.maxima[_MOST],
        "path_mean": last.sums[_TOTAL] / last.paths,
        "path_none": last.sums[_NONE] / last.paths,
        "path_reach": np.maximum(last.maxima[_REACH], -1.0),
        "flow_mean": last.sums[_FLOW],
        "flow_spread": spread,
        "flow_none": last.sums[_FLOW_NONE],
    }
    found = {
        f"{key}:{name}": value for key, row in values.items() for name, value in zip(names, row.tolist(), strict=True)
    }
    return {**found, "flow_gain": float(np.log(last.variance)), **_shape(terms)}


def _through(
    entering: Sequence[tuple[_Reading, int]], own: Doubles, groups: tuple[str, ...], weighted: float
) -> _Reading:
    """Return the reading behind a node, from what enters it (each with its multiplicity)."""
    paths = sum(r.paths * times for r, times in entering)
    scale = 1.0 if paths < 1e12 else 1e12 / paths  # ratios alone count: they stay as they are
    variance = sum(r.variance * times**2 for r, times in entering)
    if len(entering) == 1:
        ((only, times),) = entering
        least, maxima, sums = only.least, only.maxima.copy(), only.sums.copy()
        sums[_TOTAL:] *= times
    else:
        least = np.min([r.least for r, _ in entering], axis=0)
        maxima = np.max([r.maxima for r, _ in entering], axis=0)
        shares = [r.variance * times**2 / variance for r, times in entering]
        weights = [
            [share] * _BY_SHARE + [times] * _BY_PATHS for share, (_, times) in zip(shares, entering, strict=True)
        ]
        sums = np.sum(np.array(weights)[:, :, None] * [r.sums for r, _ in entering], axis=0)
    met = own != 0
    maxima[_MOST] += own
    maxima[_REACH] += weighted
    maxima[_REACH, met] = -np.inf
    sums[[[_FLOW_NONE], [_NONE]], met] = 0.0
    sums[_SQUARES] = sums[_SQUARES] + 2 * sums[_FLOW] * own + own
    sums[_FLOW] += own
    sums[_TOTAL] += own * paths
    sums[_TOTAL:] *= scale
    return _Reading(
        least=least + own,
        maxima=maxima,
        sums=sums,
        paths=paths * scale,
        variance=1.0 if weighted else variance * (POOLED if "pool" in groups else 1.0),
    )


def _shape(terms: Sequence[Terms]) -> Mapping[str, float]:
    """Return how wide and how densely connected a graph is."""
    depth = [0] * len(terms)
    for node in range(1, len(terms)):
        depth[node] = 1 + max(depth[source] for source, _ in terms[node])
    width = max(depth.count(level) for level in set(depth))
    nodes = len(terms)
    return {"width": float(width), "density": 2 * sum(map(len, terms)) / (nodes * (nodes - 1))}
