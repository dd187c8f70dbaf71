"""The analytical embedding of a topology: patterns and figures, and both as one vector of fixed length.

Everything is read from the normal form, so that it is the same for all ways of writing a network, and nothing is
trained. ``VERSION`` changes whenever the same topology would get another vector.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from detol.embedding.graph_features import BUCKETS, Floats, GraphFeatures, graph_features
from detol.embedding.light import Light, light
from detol.embedding.paths import PATH_STATISTICS, path_statistics
from detol.embedding.size import NOMINAL, size
from detol.graph.shapes import Shape
from detol.graph.topology import Topology

VERSION = "f1"
NAME = "features"
"""What stored vectors are filed under (:mod:`detol.results.embeddings`)."""

FIGURES = 256
"""Figures are hashed into so many buckets of the vector (Weinberger et al. 2009, arXiv 0902.2206)."""
LENGTH = BUCKETS + FIGURES


def features(topology: Topology, shape: Sequence[int] = NOMINAL["image"]) -> GraphFeatures:
    """Return the patterns of a topology, and its figures: counts, path statistics, depth, width, density, cost.

    Args:
        topology: any; a dead one has the figure ``dead`` alone.
        shape: of a sample, for parameters and multiply-adds; these are left out where operations have no rules.
    """
    return _features(topology, tuple(shape))


def _features(topology: Topology, shape: Shape) -> GraphFeatures:
    found = graph_features(topology)
    top = light(topology)
    if top is None:
        return found
    figures = dict(found.figures)
    for graph, role in levels(top):
        for name, value in path_statistics(graph).items():
            figures[role + name] = figures.get(role + name, 0.0) + value
    sized = size(topology, shape)
    if sized is not None:
        figures |= {"log_params": math.log1p(sized[0]), "log_multiply_adds": math.log1p(sized[1])}
    return GraphFeatures(found.patterns, figures)


def levels(top: Light) -> Sequence[tuple[Light, str]]:
    """Return a graph and all different cells in it, with the role (``""`` or ``cell/``) that their figures go by."""
    waiting, met = [(top, "")], {id(top)}
    for graph, _ in waiting:  # grows while it is gone through
        for node in graph.nodes:
            if isinstance(node, Light) and id(node) not in met:
                met.add(id(node))
                waiting.append((node, "cell/"))
    return waiting


def is_path_statistic(name: str) -> bool:
    """Return whether a figure is of the paths at some level, not a count, a depth or a cost."""
    return name.removeprefix("cell/").partition(":")[0] in PATH_STATISTICS


def vector(topology: Topology, shape: Sequence[int] = NOMINAL["image"]) -> Floats:
    """Return patterns and figures as one vector, float32 (``LENGTH``,); each half has length 1 (or 0).

    Figures are roots of their size, with their sign, so that no large one hides the others.
    """
    found = features(topology, shape)
    row = np.zeros(FIGURES, np.float32)
    for name, value in found.figures.items():
        bucket, sign = _bucket(name)
        row[bucket] += sign * math.copysign(math.sqrt(abs(value)), value)
    return np.concatenate([_unit(found.patterns), _unit(row)])


@lru_cache(maxsize=8192)
def _bucket(name: str) -> tuple[int, float]:
    code = zlib.crc32(name.encode())
    return code % FIGURES, 1.0 if code & 0x10000 else -1.0


def _unit(row: Floats) -> Floats:
    length = float(np.linalg.norm(row))
    return row / np.float32(length) if length else row


def table(rows: Sequence[Mapping[str, float]]) -> tuple[Floats, Sequence[str]]:
    """Return figures of several topologies as one table, float32 (rows, names), and the names; what lacks is 0."""
    names = sorted({name for row in rows for name in row})
    place = {name: at for at, name in enumerate(names)}
    values = np.zeros((len(rows), len(names)), np.float32)
    for number, row in enumerate(rows):
        for name, value in row.items():
            values[number, place[name]] = value
    return values, names
