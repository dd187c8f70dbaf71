"""Graphs as tensors: padded to one size, operations looked up in a list of those that occur."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from detol.embedding.graphs import MOST_TIMES, Graph
from detol.embedding.operations import operation_vector
from detol.graph.edit import concatenates
from detol.graph.ops import Operation

DEPTHS = 8
"""Columns that say how far a node is from the input and from the output."""


@dataclass(frozen=True, slots=True)
class Batch:
    """B graphs of at most N nodes.

    Args:
        vocabulary: operations that nodes are looked up in; float32 (V, columns) as vectors.
        vectors: of the vocabulary.
        nodes: place in the vocabulary, int64 (B, N); 0 where there is no node.
        real: whether there is a node, bool (B, N).
        times: multiplicity of the edge from node j to node i, float32 (B, N, N) at [b, i, j].
        slots: place among the parts of a ``concat``, from 1; 0 where none, float32 (B, N, N).
        depths: float32 (B, N, ``DEPTHS``).
    """

    vocabulary: Sequence[Operation]
    vectors: Tensor
    nodes: Tensor
    real: Tensor
    times: Tensor
    slots: Tensor
    depths: Tensor

    def __len__(self) -> int:
        """Return how many graphs it holds."""
        return len(self.nodes)

    def __getitem__(self, where: Tensor) -> "Batch":
        """Return some of the graphs, cut down to the largest of them."""
        real = self.real[where]
        wide = int(real.sum(1).max())
        return Batch(
            self.vocabulary,
            self.vectors,
            self.nodes[where, :wide],
            real[:, :wide],
            self.times[where, :wide, :wide],
            self.slots[where, :wide, :wide],
            self.depths[where, :wide],
        )

    def to(self, device: str) -> "Batch":
        """Return the batch with all tensors on a device."""
        parts = (self.vectors, self.nodes, self.real, self.times, self.slots, self.depths)
        return Batch(self.vocabulary, *(part.to(device) for part in parts))


def vocabulary_of(graphs: Sequence[Graph]) -> Sequence[Operation]:
    """Return the different operations of graphs, sorted."""
    return sorted({node for graph in graphs for node in graph.nodes}, key=str)


def vectors_of(vocabulary: Sequence[Operation]) -> Tensor:
    """Return operations as vectors, float32 (V, columns)."""
    return torch.from_numpy(np.stack([operation_vector(operation) for operation in vocabulary]))


def batch_of(graphs: Sequence[Graph], vocabulary: Sequence[Operation] | None = None) -> Batch:
    """Return graphs as tensors.

    Args:
        graphs: at least one.
        vocabulary: holds all their operations; ``None``: those that occur.

    Raises:
        KeyError: an operation that the vocabulary lacks.
    """
    known = vocabulary_of(graphs) if vocabulary is None else vocabulary
    place = {operation: number for number, operation in enumerate(known)}
    count, wide = len(graphs), max(map(len, graphs))
    nodes, real = np.zeros((count, wide), np.int64), np.zeros((count, wide), np.bool_)
    times, slots = np.zeros((count, wide, wide), np.float32), np.zeros((count, wide, wide), np.float32)
    depths = np.zeros((count, wide, DEPTHS), np.float32)
    for row, graph in enumerate(graphs):
        nodes[row, : len(graph)] = [place[node] for node in graph.nodes]
        real[row, : len(graph)] = True
        for target, entering in enumerate(graph.terms):
            ordered = concatenates(graph.nodes[target])
            for slot, (source, many) in enumerate(entering, start=1):
                times[row, target, source] = min(times[row, target, source] + many, MOST_TIMES - 1)
                if ordered and not slots[row, target, source]:
                    slots[row, target, source] = slot
        depths[row, : len(graph)] = _depths(graph)
    return Batch(known, vectors_of(known), *map(torch.from_numpy, (nodes, real, times, slots, depths)))


def _depths(graph: Graph) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    """Return the longest ways from the input and to the output, as waves of several lengths: (nodes, ``DEPTHS``)."""
    before = np.zeros(len(graph))
    behind = np.zeros(len(graph))
    for node, entering in enumerate(graph.terms):
        before[node] = max((before[source] + 1 for source, _ in entering), default=0)
    for node in range(len(graph) - 1, -1, -1):
        for source, _ in graph.terms[node]:
            behind[source] = max(behind[source], behind[node] + 1)
    waves = [turn(way / length) for way in (before, behind) for length in (1.5, 6.0) for turn in (np.sin, np.cos)]
    return np.stack(waves, 1).astype(np.float32)
