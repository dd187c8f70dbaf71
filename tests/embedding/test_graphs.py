"""Topologies taken apart and put together again, and operations as vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.embedding.graphs import CELL, Graph, graph_of, put_together, take_apart, topology_of
from detol.embedding.operations import COLUMNS, operation_vector
from detol.errors import TopologyError
from detol.graph.digest import digest
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search_spaces import nasbench201
from detol.spaces import catalogue

NAMES = ["nasbench201", "image_dag", "image_cell", "signal", "tabular", "tiny"]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 10_000))
def test_put_together_is_the_same_network(name, seed):
    space = catalogue.load(name)
    topology = space.decode(space.sample(np.random.default_rng(seed)))
    assert digest(put_together(take_apart(topology))) == digest(topology)


@pytest.mark.parametrize("name", NAMES)
def test_numbering_changes_no_graph(name):
    space, rng = catalogue.load(name), np.random.default_rng(1)
    topology = space.decode(space.sample(rng))
    names = list(topology.nodes)
    order = [names[place] for place in rng.permutation(len(names))]
    new = {old: f"x{number}" for number, old in enumerate(order)}
    edges = [(new[a], new[b]) for a, b in topology.edges]  # in their order: that of the parts of a concat
    other = Topology({new[old]: topology.nodes[old] for old in order}, edges)
    assert take_apart(other) == take_apart(topology)


def test_a_cell_is_one_graph_however_often_it_is_used():
    topology = nasbench201.SPACE.decode(nasbench201.decisions("303103"))
    apart = take_apart(topology)
    assert len(apart) == 4  # the network, the cell, two reductions
    symbols = [node["value"] for node in apart[0].nodes if node.kind == "symbol"]
    assert sorted(symbols) == [0] * 15 + [1, 2]
    assert apart[1] == graph_of(nasbench201.cell(nasbench201.decisions("303103")))


@pytest.mark.parametrize("code", ["000000", "000100", "100010"])
def test_cells_that_change_or_join_nothing_keep_their_place(code):
    """Their networks are taken apart as all others: four graphs, the outer one always the same."""
    usual = take_apart(nasbench201.SPACE.decode(nasbench201.decisions("333333")))
    apart = take_apart(nasbench201.SPACE.decode(nasbench201.decisions(code)))
    assert len(apart) == 4
    assert len(apart[1]) == 2
    assert (apart[0], *apart[2:]) == (usual[0], *usual[2:])


def test_input_is_first_and_output_last():
    for seed in range(10):
        space = catalogue.load("image_dag")
        graph = graph_of(space.decode(space.sample(np.random.default_rng(seed))))
        assert graph.nodes[0].kind == "input"
        assert graph.nodes[-1].kind == "output"
        assert all(source < node for node, terms in enumerate(graph.terms) for source, _ in terms)


def test_what_is_no_topology_is_refused():
    cell = op("symbol", name=CELL, value=0)
    with pytest.raises(TopologyError, match="names cell 0"):
        topology_of(Graph((op("input"), cell, op("output")), ((), ((0, 1),), ((1, 1),))))
    with pytest.raises(TopologyError, match="output"):
        topology_of(Graph((op("input"), op("conv")), ((), ((0, 1),))))
    with pytest.raises(TopologyError, match="is a cell"):
        graph_of(chain(chain(op("conv"), op("conv"))))


def test_operations_are_near_when_they_are_alike():
    three, five, pool = op("conv", kernel=3), op("conv", kernel=5), op("pool", kernel=3)
    one, near, far = (operation_vector(each) for each in (three, five, pool))
    assert one.shape == (COLUMNS,)
    assert np.linalg.norm(one - near) < np.linalg.norm(one - far)
    assert np.linalg.norm(one - near) > 0


def test_operations_of_the_spaces_differ_as_vectors():
    operations = set()
    for name in NAMES:
        space, rng = catalogue.load(name), np.random.default_rng(0)
        for _ in range(60):
            operations |= {node for graph in take_apart(space.decode(space.sample(rng))) for node in graph.nodes}
    rows = np.stack([operation_vector(operation) for operation in operations])
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=-1) + 9 * np.eye(len(rows))
    assert len(rows) > 60
    assert apart.min() > 0.2
