"""Differences of topologies: what was edited is found, whatever the nodes are called."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.graph.difference import align, difference
from detol.graph.draw import svg
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.spaces import catalogue

DIAMOND = Topology(
    {
        "input": op("input"),
        "a": op("conv", channels=8),
        "b": op("conv", kernel=5, channels=8),
        "c": op("pool"),
        "sum": op("add"),
        "output": op("output"),
    },
    [("input", "a"), ("a", "b"), ("a", "c"), ("b", "sum"), ("c", "sum"), ("sum", "output")],
)


def renamed(topology: Topology, seed: int) -> tuple[Topology, dict[str, str]]:
    names = list(topology.nodes)
    order = np.random.default_rng(seed).permutation(len(names))
    new = {names[old]: f"x{place}" for place, old in enumerate(order)}
    nodes = {new[names[old]]: topology.nodes[names[old]] for old in order}
    return Topology(nodes, [(new[a], new[b]) for a, b in topology.edges]), new


def edited(**changes: object) -> Topology:
    return Topology({**DIAMOND.nodes, **changes}, DIAMOND.edges)


def test_a_topology_does_not_differ_from_itself():
    assert difference(DIAMOND, DIAMOND).none


@given(st.integers(0, 10_000))
def test_names_do_not_matter(seed):
    other, names = renamed(DIAMOND, seed)
    assert align(DIAMOND, other) == names
    assert difference(DIAMOND, other).none


@given(st.integers(0, 10_000))
def test_a_changed_parameter_is_one_change(seed):
    other, names = renamed(edited(b=op("conv", kernel=7, channels=8)), seed)
    found = difference(DIAMOND, other)
    assert [(c.what, c.before, c.after) for c in found.changes] == [("changed", "b", names["b"])]
    assert (found.changes[0].was, found.changes[0].becomes) == (
        "conv(channels=8, kernel=5)",
        "conv(channels=8, kernel=7)",
    )
    assert found.edges == (0, 0)
    assert found.first[""] == {"b": "changed"}


def test_another_kind_in_the_same_place_is_a_change_not_a_removal():
    found = difference(DIAMOND, edited(c=op("identity")))
    assert [(c.what, c.was, c.becomes) for c in found.changes] == [("changed", "pool", "identity")]


def test_an_inserted_node_is_added_with_its_edges():
    nodes = {**DIAMOND.nodes, "new": op("linear", features=4)}
    edges = [edge for edge in DIAMOND.edges if edge != ("sum", "output")] + [("sum", "new"), ("new", "output")]
    found = difference(DIAMOND, Topology(nodes, edges))
    assert [(c.what, c.after) for c in found.changes] == [("added", "new")]
    assert found.edges == (1, 2)
    assert found.first[""] == {("sum", "output"): "removed"}
    assert found.second[""] == {"new": "added", ("sum", "new"): "added", ("new", "output"): "added"}


def test_removal_is_the_mirror_of_addition():
    nodes = {name: node for name, node in DIAMOND.nodes.items() if name != "c"}
    less = Topology(nodes, [edge for edge in DIAMOND.edges if "c" not in edge])
    there, back = difference(DIAMOND, less), difference(less, DIAMOND)
    assert [(c.what, c.before) for c in there.changes] == [("removed", "c")]
    assert [(c.what, c.after) for c in back.changes] == [("added", "c")]
    assert there.edges == back.edges[::-1] == (2, 0)


def test_a_multiplicity_is_a_changed_edge():
    twice = Topology(DIAMOND.nodes, [*DIAMOND.edges, ("b", "sum")])
    found = difference(DIAMOND, twice)
    assert not found.changes
    assert found.first[""] == found.second[""] == {("b", "sum"): "changed"}
    assert found.edges == (0, 1)


def test_the_order_of_a_concat_is_a_change():
    nodes = {**DIAMOND.nodes, "sum": op("concat")}
    swapped = [*DIAMOND.edges[:3], ("c", "sum"), ("b", "sum"), DIAMOND.edges[-1]]
    found = difference(Topology(nodes, DIAMOND.edges), Topology(nodes, swapped))
    assert [(c.what, c.before) for c in found.changes] == [("changed", "sum")]


def test_cells_are_compared_inside():
    one, two = chain(op("conv"), op("pool")), chain(op("conv", kernel=5), op("pool"))
    found = difference(chain(one, op("pool"), one), chain(two, op("pool"), two))
    inside = [(c.was, c.becomes) for c in found.changes if c.inside]
    assert inside == [("conv", "conv(kernel=5)")]
    assert sum(c.what == "changed" and not c.inside for c in found.changes) == 2
    drawn = svg(chain(one, op("pool"), one), marks=found.first)
    assert drawn.count('class="n changed"') == 3


@pytest.mark.parametrize("name", catalogue.names())
def test_what_is_sampled_can_be_compared(name):
    space = catalogue.load(name)
    rng = np.random.default_rng(0)
    parent = space.sample(rng)
    one, child, other = (space.decode(d) for d in (parent, space.mutate(parent, rng), space.sample(rng)))
    near, far = difference(one, child), difference(one, other)
    for found, second in ((near, child), (far, other)):
        assert found.none == (dict(one.nodes) == dict(second.nodes) and sorted(one.edges) == sorted(second.edges))
        for topology, marks in ((one, found.first), (second, found.second)):
            assert set(marks[""]) <= {*topology.nodes, *topology.edges}
            assert svg(topology, marks=marks).startswith("<svg")
