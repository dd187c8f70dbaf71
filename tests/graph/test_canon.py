"""Canonical orders against published numbers of graphs, and against networkx on graphs that look alike everywhere."""

import itertools
import random
from collections.abc import Sequence

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.canon import Graph

Edges = Sequence[tuple[int, int, int]]


def form(colours: Sequence[int], edges: Edges) -> tuple[object, object]:
    graph = Graph(colours, edges)
    order = graph.canonical()
    assert sorted(order) == list(range(len(colours)))
    return tuple(colours[v] for v in order), tuple(graph.edges(order))


@pytest.mark.parametrize(("rows", "columns", "classes"), [(2, 2, 7), (2, 3, 13), (3, 3, 36), (3, 4, 87)])
def test_binary_matrices_up_to_permutations(rows: int, columns: int, classes: int) -> None:
    """OEIS A028657: a matrix is a graph from its rows to its columns."""
    colours = [0] * rows + [1] * columns
    pairs = [(row, rows + column, 0) for row in range(rows) for column in range(columns)]
    found = {
        form(colours, list(itertools.compress(pairs, bits))) for bits in itertools.product((0, 1), repeat=len(pairs))
    }
    assert len(found) == classes


@pytest.mark.parametrize(("vertices", "classes"), [(1, 1), (2, 2), (3, 6), (4, 31), (5, 302)])
def test_acyclic_graphs(vertices: int, classes: int) -> None:
    """OEIS A003087; each has an order in which all edges point forwards."""
    pairs = [(a, b, 0) for a, b in itertools.combinations(range(vertices), 2)]
    found = {
        form([0] * vertices, list(itertools.compress(pairs, bits)))
        for bits in itertools.product((0, 1), repeat=len(pairs))
    }
    assert len(found) == classes


def regular(rng: random.Random, size: int, degree: int, labels: int) -> Edges:
    """Rows and columns that all have the same number of edges: refinement sees no difference."""
    while True:
        columns = [column for column in range(size) for _ in range(degree)]
        rng.shuffle(columns)
        pairs = {(place // degree, size + column) for place, column in enumerate(columns)}
        if len(pairs) == size * degree:
            return [(a, b, rng.randrange(labels)) for a, b in sorted(pairs)]


@given(seed=st.integers(0, 1 << 30), size=st.integers(4, 7), labels=st.sampled_from([1, 1, 2]))
@settings(deadline=None, max_examples=150)
def test_regular_graphs_as_networkx_says(seed: int, size: int, labels: int) -> None:
    rng = random.Random(seed)
    colours = [0] * size + [1] * size
    one, other = (regular(rng, size, 2 if seed % 2 else 3, labels) for _ in range(2))
    graphs = []
    for edges in (one, other):
        graph = nx.DiGraph()
        graph.add_nodes_from((v, {"colour": colour}) for v, colour in enumerate(colours))
        graph.add_edges_from((a, b, {"label": label}) for a, b, label in edges)
        graphs.append(graph)
    same = nx.is_isomorphic(
        *graphs, node_match=lambda a, b: a == b, edge_match=lambda a, b: bool(a["label"] == b["label"])
    )
    assert (form(colours, one) == form(colours, other)) == same
    places = [*rng.sample(range(size), size), *(size + place for place in rng.sample(range(size), size))]
    moved = [(places[a], places[b], label) for a, b, label in one]
    assert form(colours, moved) == form(colours, one)


def test_edge_labels_and_colours_count() -> None:
    assert form([0, 0], [(0, 1, 0)]) != form([0, 0], [(0, 1, 1)])
    assert form([0, 1], [(0, 1, 0)]) != form([1, 0], [(0, 1, 0)])
    assert form([0, 0, 1], [(0, 2, 3), (1, 2, 4)]) == form([0, 0, 1], [(0, 2, 4), (1, 2, 3)])
