import pytest

from detol.errors import SpaceError
from detol.graph.digest import digest
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.spaces.cells import cell_space, chain_space
from detol.spaces.edges import edge_names

OPERATIONS = {"none": None, "skip": op("identity"), "conv": op("conv"), "pool": op("pool")}


def test_edges_are_named_by_target_then_source() -> None:
    assert edge_names(4) == ("edge_0_1", "edge_0_2", "edge_1_2", "edge_0_3", "edge_1_3", "edge_2_3")


def test_every_cell_is_read_back() -> None:
    space = cell_space("cells", OPERATIONS, nodes=3, before={"stem": op("conv", channels=8)}, repeat=2)
    assert space.size == 4**3
    for decisions in space.enumerate():
        topology = space.decode(decisions)
        found = space.read(topology)
        assert found is not None
        assert digest(space.decode(found)) == digest(topology)
    assert chain(op("conv", channels=8), op("norm")) not in space


def test_a_cell_sums_what_enters_a_node() -> None:
    space = cell_space("cells", OPERATIONS, nodes=3)
    topology = space.decode({"edge_0_1": "conv", "edge_0_2": "skip", "edge_1_2": "pool"})
    by_hand = Topology(
        {"input": op("input"), "a": op("conv"), "b": op("pool"), "output": op("output")},
        [("input", "a"), ("a", "b"), ("b", "output"), ("input", "output")],
    )
    assert digest(topology) == digest(chain(by_hand))


def test_an_impossible_cell_space_is_refused() -> None:
    with pytest.raises(SpaceError, match="nodes >= 2"):
        cell_space("cells", OPERATIONS, nodes=1)
    with pytest.raises(SpaceError, match="at least one value"):
        cell_space("cells", {})


def test_chains_skip_layers_that_are_none_and_are_read_back() -> None:
    space = chain_space("chains", 3, OPERATIONS)
    assert space.size == 4**3
    assert digest(space.decode({"layer_1": "conv", "layer_2": "none", "layer_3": "pool"})) == digest(
        chain(op("conv"), op("pool"))
    )
    for decisions in space.enumerate():
        assert space.decode(decisions) in space
    assert chain(*[op("conv")] * 4) not in space
    with pytest.raises(SpaceError, match="at least one choice"):
        chain_space("chains", 0, OPERATIONS)
