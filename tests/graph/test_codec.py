"""JSON: round trip, cells once, and one clear line for everything that is not a topology."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import TopologyError
from detol.graph.codec import from_json, to_json
from detol.graph.digest import digest
from detol.graph.ops import Operation, Value, op
from detol.graph.topology import Topology, chain


@given(data=st.data())
@settings(deadline=None)
def test_round_trip(topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject) -> None:
    topology = data.draw(topologies())
    back = from_json(to_json(topology))
    assert back == topology
    assert list(back.nodes) == list(topology.nodes)
    assert digest(back) == digest(topology)


@given(
    name=st.text(min_size=1),
    value=st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    node=st.text(),
)
def test_any_name_and_value_comes_back(name: str, value: Value, node: str) -> None:
    if name == "<required>" or value == "<required>" or node in ("input", "output"):
        return
    topology = Topology(
        {"input": op("input"), node: op("symbol", name=name, value=value), "output": op("output")},
        [("input", node), (node, "output")],
    )
    back = from_json(to_json(topology)).nodes[node]
    assert isinstance(back, Operation)
    assert back["value"] == value
    assert type(back["value"]) is type(value)


def test_cells_are_written_once_and_come_back_shared() -> None:
    inner = chain(op("conv"))
    outer = chain(inner, inner, op("pool"))
    equal = chain(chain(op("conv")), chain(op("conv")), op("pool"))
    topology = chain(outer, inner, outer, equal)
    document = json.loads(to_json(topology))
    assert len(document["cells"]) == 2
    back = from_json(to_json(topology))
    assert back == topology
    assert back.nodes["1"] is back.nodes["3"]


def test_cells_that_python_takes_for_equal_stay_two() -> None:
    one, true = (chain(op("symbol", name="a", value=value)) for value in (1, True))
    back = from_json(to_json(chain(one, true)))
    assert digest(back) == digest(chain(one, true)) != digest(chain(one, one))


def test_nested_cells_take_space_once() -> None:
    cell = chain(op("conv"))
    for _ in range(60):
        cell = chain(cell, cell)
    text = to_json(cell)
    assert len(text) < 30_000
    assert digest(from_json(text)) == digest(cell)


HEAD = '{"format": "detol-topology", "version": 1, '
ENDS = '"input": {"op": "input"}, "output": {"op": "output"}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a topology is a JSON document, got ''"),
        ("{", "a topology is a JSON document"),
        ("[1]", '"format": "detol-topology"'),
        ('{"format": "onnx"}', '"format": "detol-topology"'),
        ('{"format": "detol-topology", "version": 2}', "version 1 here, got 2"),
        ('{"format": "detol-topology"}', "version 1 here, got None"),
        (HEAD + '"nodes": [], "edges": []}', "nodes of the topology: must be an object"),
        (HEAD + '"nodes": {}}', "edges of the topology: must be a list"),
        (HEAD + '"nodes": {}, "edges": []}', "exactly one input node, got none"),
        (HEAD + '"nodes": {"a": 3}, "edges": []}', "node 'a' of the topology: must be an object, got 3"),
        (HEAD + '"nodes": {"a": {}}, "edges": []}', "a node is"),
        (HEAD + '"nodes": {"a": {"op": "conv", "kernel": 3}}, "edges": []}', "a node is"),
        (HEAD + '"nodes": {"a": {"op": "konv"}}, "edges": []}', "unknown operation 'konv': did you mean conv"),
        (HEAD + '"nodes": {"a": {"op": "conv", "with": {"kernels": 3}}}, "edges": []}', "did you mean kernel"),
        (HEAD + '"nodes": {"a": {"op": "conv", "with": {"kernel": 4}}}, "edges": []}', "conv.kernel must be an odd"),
        (HEAD + '"nodes": {"a": {"op": "conv", "with": {"kernel": [3]}}}, "edges": []}', "kernel is one value"),
        (
            HEAD + '"nodes": {"a": {"op": "symbol", "with": {"name": "x"}}}, "edges": []}',
            "symbol.value must be any value",
        ),
        (HEAD + '"nodes": {"a": {"cell": 0}}, "edges": []}', "there is no cell 0 before it"),
        (HEAD + '"nodes": {"a": {"cell": true}}, "edges": []}', "there is no cell True before it"),
        (HEAD + '"cells": [{"nodes": {"a": {"cell": 0}}, "edges": []}], "nodes": {}, "edges": []}', "of cell 0"),
        (HEAD + '"cells": {}, "nodes": {}, "edges": []}', "cells: must be a list"),
        (HEAD + '"nodes": {' + ENDS + '}, "edges": [["input"]]}', "a pair of node names"),
        (HEAD + '"nodes": {' + ENDS + '}, "edges": [["input", "a"]]}', "there is no node 'a'"),
        (HEAD + '"nodes": {"a": {"op": "add"}, "a": {"op": "add"}}, "edges": []}', "'a' twice"),
        ("[" * 100_000, "a topology is a JSON document"),
    ],
)
def test_what_is_no_topology_gets_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        from_json(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_that_json_cannot_hold_are_refused() -> None:
    with pytest.raises(TopologyError, match="finite"):
        to_json(chain(op("symbol", name="a", value=float("nan"))))


def test_meta_parameters_left_out_take_their_defaults() -> None:
    text = HEAD + '"nodes": {' + ENDS + ', "1": {"op": "conv"}}, "edges": [["input", "1"], ["1", "output"]]}'
    assert digest(from_json(text)) == digest(chain(op("conv")))
