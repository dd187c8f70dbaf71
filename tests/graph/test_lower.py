"""Lowering: what was a cell, a bottleneck or a projection is nodes, and the network is the same one."""

import numpy as np
import pytest
import torch

from detol.errors import ShapeError, TopologyError
from detol.graph.build import build
from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.edit import normalise
from detol.graph.lower import lower
from detol.graph.ops import Operation, op
from detol.graph.plan import plan
from detol.graph.topology import Topology, chain
from detol.spaces import catalogue

SPACES = {
    "image_cell": (3, 16, 16),
    "image_dag": (1, 28, 28),
    "tabular": (16,),
    "signal": (1, 96),
    "nasbench201": (3, 16, 16),
}


@pytest.mark.parametrize("name", list(SPACES))
def test_samples_keep_their_parameters_and_lowering_is_idempotent(name: str) -> None:
    space, shape, rng = catalogue.load(name), SPACES[name], np.random.default_rng(0)
    seen = 0
    for _ in range(40):
        topology = space.decode(space.sample(rng))
        try:
            before = cost(topology, shape, 10)
        except TopologyError:  # dead, or too small for its pooling
            continue
        lowered = lower(topology, shape)
        assert cost(lowered, shape, 10).params == before.params
        assert digest(lower(lowered, shape)) == digest(lowered)
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", list(SPACES))
def test_nothing_is_left_implicit(name: str) -> None:
    space, shape, rng = catalogue.load(name), SPACES[name], np.random.default_rng(1)
    for _ in range(20):
        try:
            lowered = lower(space.decode(space.sample(rng)), shape)
        except TopologyError:
            continue
        assert lowered == normalise(lowered)
        for node in lowered.nodes.values():
            assert isinstance(node, Operation)
            assert node.kind != "mbconv"
            values = dict(node.parameters)
            assert values.get("channels", 1) is not None
            assert values.get("features", 1) is not None
        for term in plan(lowered, shape).projections:
            assert term.before[0] == term.after[0]


def test_a_lowered_network_keeps_its_digest() -> None:
    topology = chain(op("linear", features=8), op("linear", features=4))
    assert digest(lower(topology, (5,))) == digest(topology)


@pytest.mark.parametrize("expand", [1, 3])
def test_a_bottleneck_computes_what_its_three_convolutions_do(expand: int) -> None:
    topology = chain(op("mbconv", kernel=3, channels=6, stride=2, expand=expand), op("mbconv", kernel=5, expand=expand))
    before, after = build(topology, (4, 9, 9), 3), build(lower(topology, (4, 9, 9)), (4, 9, 9), 3)
    values = list(before.state_dict().values())
    assert [v.shape for v in values] == [v.shape for v in after.state_dict().values()]
    after.load_state_dict(dict(zip(after.state_dict(), values, strict=True)))
    x = torch.randn(5, 4, 9, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(before.eval()(x), after.eval()(x))


def test_a_cell_that_is_used_twice_computes_the_same_when_opened() -> None:
    cell = Topology(
        {"input": op("input"), "a": op("conv", kernel=3), "b": op("conv", kernel=1), "output": op("output")},
        [("input", "a"), ("a", "b"), ("a", "output"), ("b", "output"), ("input", "output")],
    )
    topology = chain(op("conv", channels=4), cell, op("pool"), cell)
    before, after = build(topology, (2, 8, 8), 3), build(lower(topology, (2, 8, 8)), (2, 8, 8), 3)
    keys = {f"nodes.{n}.nodes.{x}": f"nodes.{n}_{x}" for n in ("_2", "_4", "2", "4") for x in ("a", "b")}
    state = {}
    for key, value in before.state_dict().items():
        found = next((key.replace(old, new) for old, new in keys.items() if key.startswith(f"{old}.")), key)
        state[found] = value
    after.load_state_dict(state)
    x = torch.randn(5, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(before.eval()(x), after.eval()(x))


def test_a_projection_becomes_a_node() -> None:
    topology = Topology(
        {
            "input": op("input"),
            "a": op("conv", channels=4),
            "b": op("conv", channels=6, stride=2),
            "output": op("output"),
        },
        [("input", "a"), ("a", "b"), ("a", "output"), ("b", "output")],
    )
    lowered = lower(topology, (3, 8, 8))
    (name,) = set(lowered.nodes) - set(topology.nodes)
    assert lowered.nodes[name] == op("conv", kernel=1, channels=6, activation="none")
    assert cost(lowered, (3, 8, 8), 2).params == cost(topology, (3, 8, 8), 2).params


def test_what_cannot_be_built_cannot_be_lowered() -> None:
    with pytest.raises(TopologyError, match="dead"):
        lower(chain(op("zero")), (3, 8, 8))
    with pytest.raises(ShapeError):
        lower(chain(op("linear", features=3)), (3, 8, 8))
