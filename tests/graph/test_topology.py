"""Topologies and operations as values: what they refuse, how they compare, that nothing changes them."""

import pickle
from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.errors import TopologyError
from detol.graph.digest import digest
from detol.graph.ops import KINDS, Kind, Operation, Parameter, define, op
from detol.graph.topology import Topology, chain

ENDS: dict[str, Operation | Topology] = {"input": op("input"), "output": op("output")}


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({}, [], "exactly one input node, got none"),
        ({**ENDS, "in2": op("input")}, [], r"exactly one input node, got \['input', 'in2'\]"),
        ({"input": op("input")}, [], "exactly one output node"),
        (ENDS, [("input", "x")], "there is no node 'x'"),
        ({**ENDS, "a": op("conv")}, [("a", "input")], "nothing enters the input"),
        ({**ENDS, "a": op("conv")}, [("output", "a")], "leaves the output"),
        ({**ENDS, "a": op("conv")}, [("a", "a")], "no cycles, got a"),
        ({**ENDS, "a": op("conv"), "b": op("conv")}, [("a", "b"), ("b", "a")], "no cycles, got a -> b"),
    ],
)
def test_what_is_no_topology(
    nodes: dict[str, Operation | Topology], edges: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        Topology(nodes, edges)
    assert "\n" not in str(caught.value)


@given(data=st.data())
def test_order_and_live_are_networkx_s(
    topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    topology = data.draw(topologies(10))
    place = {name: number for number, name in enumerate(topology.nodes)}
    assert topology.order == tuple(nx.lexicographical_topological_sort(topology.graph, key=place.__getitem__))
    on_paths = {
        name
        for name in topology.nodes
        if nx.has_path(topology.graph, "input", name) and nx.has_path(topology.graph, name, "output")
    }
    assert topology.live == on_paths


@given(data=st.data())
def test_pickles_are_equal_and_carry_no_caches(
    topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    topology = data.draw(topologies())
    size = len(pickle.dumps(topology))
    identity = digest(topology)
    assert len(pickle.dumps(topology)) == size
    back = pickle.loads(pickle.dumps(topology))
    assert back == topology
    assert hash(back) == hash(topology)
    assert digest(back) == identity


def test_a_topology_cannot_change() -> None:
    topology = chain(op("conv"))
    with pytest.raises(AttributeError, match="frozen"):
        topology.edges = ()
    with pytest.raises(TypeError):
        topology.nodes["2"] = op("conv")  # type: ignore[index]
    with pytest.raises(nx.NetworkXError):
        topology.graph.add_node("2")
    assert topology != chain(op("pool"))
    assert topology != "a string"


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("konv", {}, "unknown operation 'konv': did you mean conv"),
        ("conv", {"kernal": 3}, "unknown meta-parameter of conv 'kernal': did you mean kernel"),
        ("conv", {"kernel": 2}, "conv.kernel must be an odd whole number >= 1, got 2"),
        ("conv", {"kernel": True}, "got True"),
        ("conv", {"stride": 0}, "conv.stride must be a whole number >= 1, got 0"),
        ("conv", {"channels": 1.5}, "or None for as many as the input has, got 1.5"),
        ("conv", {"norm": 1}, "conv.norm must be true or false, got 1"),
        ("conv", {"activation": "rely"}, "one of relu, gelu, silu, tanh, none, got 'rely'"),
        ("dropout", {"rate": 1}, "a share in"),
        ("dropout", {"rate": 10**400}, "a share in [0, 1), got a whole number of 1329 bits"),
        ("symbol", {"name": "x"}, "symbol.value must be any value"),
        ("symbol", {"name": "", "value": 1}, "symbol.name must be a name, got ''"),
    ],
)
def test_operations_that_break_a_rule(kind: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        op(kind, **parameters)
    assert message in str(caught.value)


def test_operations_are_values() -> None:
    assert op("conv", kernel=5, stride=2) == op("conv", stride=2, kernel=5)
    assert str(op("conv", kernel=5)) == "conv(kernel=5)"
    assert str(op("pool")) == "pool"
    assert op("conv", kernel=5)["kernel"] == 5
    assert op("conv").replace(kernel=7) == op("conv", kernel=7)
    assert repr(op("dropout", rate=0)["rate"]) == "0.0", "one value, one digest"
    with pytest.raises(KeyError):
        op("pool")["channels"]
    with pytest.raises(TopologyError):
        op("conv").replace(kernel=4)


def test_kinds_are_defined_once() -> None:
    assert define(Kind("identity", weighted=False)) is KINDS["identity"]
    with pytest.raises(TopologyError, match="exists with other meta-parameters"):
        define(Kind("identity", {"a": Parameter(1, "one", lambda value: value == 1)}))
