"""What a generator knows of a space before any score: samples, what varies between them, and a model that writes it.

Made once for a space in a process and shared by all its strategies: it depends on no seed.
"""

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from detol.embedding.autoencoder import Autoencoder, vocabulary
from detol.embedding.graphs import Graph, cell_number, put_together, take_apart
from detol.embedding.networks import MOST_NODES
from detol.embedding.predictor import Inputs, inputs
from detol.embedding.training import Corpus, train
from detol.embedding.weights import copy, pretrained
from detol.errors import TopologyError
from detol.graph.ops import Operation
from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Decisions

MOST_CELLS = 4
"""Cells of a topology that have a latent point; further ones are written as in a sample."""
CHECKED = 100
"""Samples that the model is asked to write again: it is trained where it gets too few of them right."""
RIGHT = 0.95


@dataclass(frozen=True)
class Basis:
    """A space as a generator sees it.

    Args:
        model: reads and writes its graphs; not to be changed (a strategy that learns takes a copy).
        decisions: of the samples, all different.
        apart: their graphs, outer ones first.
        points: latent, (samples, parts, latent); zero where a topology has no such part.
        fixed: of each part the graph that all samples have there, or ``None`` where it varies.
        words: of each part the operations that may stand in it.
        known: features of the samples.
        right: share of samples that the model writes exactly.
    """

    model: Autoencoder
    decisions: Sequence[Decisions]
    apart: Sequence[tuple[Graph, ...]]
    points: Tensor
    fixed: Sequence[Graph | None]
    words: Sequence[Sequence[Operation]]
    known: Inputs
    right: float

    @property
    def varying(self) -> Sequence[int]:
        """The parts that differ between topologies."""
        return [number for number, graph in enumerate(self.fixed) if graph is None]

    @property
    def usable(self) -> bool:
        """Whether there is anything to write: some part varies, and none is too large."""
        return bool(self.varying) and all(len(graph) <= MOST_NODES for graphs in self.apart for graph in graphs)


def encode(model: Autoencoder, apart: Sequence[tuple[Graph, ...]], parts: int) -> Tensor:
    """Return latent points of topologies taken apart, (n, parts, latent); zero where one has no such part."""
    different = list(dict.fromkeys(graph for graphs in apart for graph in graphs[:parts]))
    place = {graph: number for number, graph in enumerate(different)}
    found = model.encode(different)
    points = torch.zeros(len(apart), parts, model.latent)
    for row, graphs in enumerate(apart):
        for part, graph in enumerate(graphs[:parts]):
            points[row, part] = found[place[graph]]
    return points


def decode(
    model: Autoencoder, basis: Basis, points: Tensor, temperature: float = 0.0, draws: torch.Generator | None = None
) -> list[Topology | None]:
    """Return the topology of each row of latent points (n, parts, latent); ``None`` where they make none.

    Parts that are fixed are taken as they are; cells that the outer graph does not name are left out. For
    ``temperature`` and ``draws`` see :meth:`detol.embedding.autoencoder.Autoencoder.decode`.
    """
    parts: list[Sequence[Graph | None]] = []
    for part, (fixed, words) in enumerate(zip(basis.fixed, basis.words, strict=True)):
        if fixed is not None:
            parts.append([fixed] * len(points))
        else:
            parts.append(model.decode(points[:, part], words, temperature=temperature, draws=draws))
    found: list[Topology | None] = []
    for row in range(len(points)):
        graphs = [each[row] for each in parts]
        outer = graphs[0]
        numbers = [] if outer is None else [cell_number(node) for node in outer.nodes]
        cells = 1 + max((number for number in numbers if number is not None), default=-1)
        wanted = [graph for graph in graphs[: 1 + cells] if graph is not None]
        try:
            found.append(put_together(wanted) if outer is not None and len(wanted) == 1 + cells else None)
        except TopologyError:
            found.append(None)
    return found


def basis_of(space: SearchSpace, samples: int, steps: int) -> Basis:
    """Return the basis of a space, remembered while the space lives.

    The pretrained model is taken as it is where it writes the samples; otherwise it is trained on them.

    Args:
        space: any.
        samples: topologies to draw, >= 2.
        steps: updates of that training at most, >= 0.
    """
    key = (samples, steps)
    try:
        remembered = _KNOWN.setdefault(space, {})
    except TypeError:  # a space that can be no key
        remembered = {}
    if key not in remembered:
        remembered[key] = _made(space, samples, steps)
    return remembered[key]


_KNOWN: "weakref.WeakKeyDictionary[SearchSpace, dict[Hashable, Basis]]" = weakref.WeakKeyDictionary()


def _made(space: SearchSpace, samples: int, steps: int) -> Basis:
    rng = np.random.default_rng(0)
    decisions = list(dict.fromkeys(space.sample(rng) for _ in range(samples)))
    topologies = [space.decode(decided) for decided in decisions]
    apart = [take_apart(topology) for topology in topologies]
    parts = min(max(map(len, apart)), 1 + MOST_CELLS)
    columns = [[graphs[part] for graphs in apart if len(graphs) > part] for part in range(parts)]
    same = [len(set(column)) == 1 and len(column) == len(apart) for column in columns]
    fixed = [column[0] if alike else None for column, alike in zip(columns, same, strict=True)]
    outer, cells = vocabulary(columns[0]), vocabulary([graph for column in columns[1:] for graph in column])
    words = [outer, *[cells] * (parts - 1)]
    model = pretrained()
    written = [(graph, words[part]) for part, column in enumerate(columns) if fixed[part] is None for graph in column]
    written = [(graph, known) for graph, known in written if len(graph) <= MOST_NODES]
    right = _right(model, written[:CHECKED])
    if right < RIGHT and written and steps:
        model = copy(model)
        kinds = {id(known): known for _, known in written}.values()
        corpora = [Corpus.of([graph for graph, known in written if known is one]) for one in kinds]
        train(model, corpora, steps=steps, batch=64)
        right = _right(model, written[:CHECKED])
    return Basis(model, decisions, apart, encode(model, apart, parts), fixed, words, inputs(topologies), right)


def _right(model: Autoencoder, written: Sequence[tuple[Graph, Sequence[Operation]]]) -> float:
    """Return the share of graphs that a model reads and writes again without a fault."""
    if not written:
        return 1.0
    points = model.encode([graph for graph, _ in written])
    good = 0
    for known in {id(words): words for _, words in written}.values():
        places = [place for place, (_, words) in enumerate(written) if words is known]
        again = model.decode(points[places], known)
        good += sum(written[place][0] == graph for place, graph in zip(places, again, strict=True))
    return good / len(written)
