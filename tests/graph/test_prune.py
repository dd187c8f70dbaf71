"""Cuts of lowered networks: the result is valid and exactly what was asked for."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import TopologyError
from detol.graph.build import build
from detol.graph.cost import cost
from detol.graph.edit import normalise
from detol.graph.lower import lower
from detol.graph.ops import op
from detol.graph.plan import plan
from detol.graph.prune import (
    bypassable,
    depthwise,
    prunable,
    removable_edges,
    without_edges,
    without_node,
    without_units,
)
from detol.graph.topology import Topology, chain
from detol.graph.units import units
from detol.spaces import catalogue

SHAPE = (3, 8, 8)
RESIDUAL = Topology(
    {
        "input": op("input"),
        "stem": op("conv", channels=4),
        "inner": op("conv", channels=6),
        "outer": op("conv", channels=4),
        "output": op("output"),
    },
    [("input", "stem"), ("stem", "inner"), ("inner", "outer"), ("stem", "output"), ("outer", "output")],
)
DENSE = Topology(
    {
        "input": op("input"),
        "a": op("linear", features=4),
        "b": op("linear", features=3),
        "join": op("concat"),
        "c": op("linear", features=2),
        "output": op("output"),
    },
    [("input", "a"), ("a", "b"), ("a", "join"), ("b", "join"), ("join", "c"), ("c", "output")],
)


def test_units_that_a_sum_ties_go_together() -> None:
    found = units(RESIDUAL, SHAPE, 10)
    assert set(prunable(found)) == {"stem", "inner", "outer"}
    result = without_units(RESIDUAL, found, [int(found.made["stem"][1])])
    assert [result.nodes[name]["channels"] for name in ("stem", "inner", "outer")] == [3, 6, 3]
    result = without_units(RESIDUAL, found, map(int, found.made["inner"][:4]))
    assert [result.nodes[name]["channels"] for name in ("stem", "inner", "outer")] == [4, 2, 4]


def test_depthwise_convolutions_follow_what_enters_them() -> None:
    lowered = lower(chain(op("conv", channels=4), op("mbconv", channels=5, expand=2)), SHAPE)
    found = units(lowered, SHAPE, 10)
    result = without_units(lowered, found, map(int, found.made["2.expand"][:3]))
    follower = result.nodes["2.depthwise"]
    assert follower["channels"] == follower["groups"] == result.nodes["2.expand"]["channels"] == 5
    assert depthwise(follower)
    build(result, SHAPE, 10)


def test_a_node_keeps_a_unit() -> None:
    found = units(RESIDUAL, SHAPE, 10)
    with pytest.raises(TopologyError, match="at least one unit"):
        without_units(RESIDUAL, found, map(int, found.made["inner"]))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.05, 0.9))
def test_any_cut_of_units_can_be_built_and_costs_less(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    space = catalogue.load("image_cell")
    topology = lower(space.decode(space.sample(rng)), SHAPE)
    found = units(topology, SHAPE, 10)
    every = sorted({int(unit) for name in prunable(found) for unit in found.made[name][1:]})
    kept = {int(found.made[name][0]) for name in found.made}
    gone = [unit for unit in every if unit not in kept and rng.random() < share]
    if not gone:
        return
    result = without_units(topology, found, gone)
    smaller = cost(result, SHAPE, 10)
    assert smaller.params < cost(topology, SHAPE, 10).params
    assert smaller.params == sum(p.numel() for p in build(result, SHAPE, 10).parameters())
    # No sum has become uneven: that would have made a projection.
    assert all(term.before[0] == term.after[0] for term in plan(result, SHAPE).projections)


def test_edges_that_can_be_cut() -> None:
    # Without stem -> inner the whole branch is dead; without input -> stem nothing is left.
    assert set(removable_edges(RESIDUAL, SHAPE)) == {
        ("stem", "inner"),
        ("inner", "outer"),
        ("stem", "output"),
        ("outer", "output"),
    }
    result = without_edges(RESIDUAL, SHAPE, [("inner", "outer")])
    assert result == normalise(chain_of("stem"))
    assert without_edges(RESIDUAL, SHAPE, [("stem", "output"), ("outer", "output")]) is None


def chain_of(*names: str) -> Topology:
    order = ["input", *names, "output"]
    return Topology({name: RESIDUAL.nodes[name] for name in order}, list(pairwise(order)))


def test_a_concatenation_may_get_narrower() -> None:
    assert ("a", "join") in removable_edges(DENSE, (5,))
    result = without_edges(DENSE, (5,), [("b", "join")])
    assert result is not None
    assert set(result.nodes) == {"input", "a", "c", "output"}


def test_a_cut_that_would_need_another_shape_is_refused() -> None:
    # Without the strided branch the sum is larger, so what stands behind it would read another size.
    uneven = Topology(
        {
            "input": op("input"),
            "a": op("conv", channels=4),
            "b": op("conv", channels=4, stride=2),
            "flat": op("flatten"),
            "c": op("linear", features=3),
            "output": op("output"),
        },
        [("input", "a"), ("a", "b"), ("a", "flat"), ("b", "flat"), ("flat", "c"), ("c", "output")],
    )
    assert without_edges(uneven, SHAPE, [("b", "flat")]) is None
    assert without_edges(uneven, SHAPE, [("a", "flat")]) is not None


def test_nodes_become_identities() -> None:
    topology = chain(op("conv", channels=4), op("conv", channels=4), op("conv", channels=4, stride=2))
    assert bypassable(topology, SHAPE) == ("2",)
    result = without_node(topology, SHAPE, "2")
    assert result is not None
    assert result.edges == (("input", "1"), ("1", "3"), ("3", "output"))
