"""Which axes follow which units: every axis is known, and units may change places without changing the function."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from detol.graph.build import build
from detol.graph.edit import is_dead
from detol.graph.ops import Kind, Operation, define, op
from detol.graph.topology import Topology, chain
from detol.graph.units import Role, Units, units
from detol.spaces import catalogue

Strategies = Callable[..., st.SearchStrategy[Topology]]
SHAPES = [(3, 9, 8), (2, 13)]
SPACES = {
    "image_cell": (3, 8, 8),
    "image_dag": (3, 8, 8),
    "nasbench201": (3, 8, 8),
    "signal": (2, 16),
    "tabular": (7,),
    "tiny": (1, 8, 8),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def randomised(network: nn.Module, seed: int = 0) -> nn.Module:
    """Give a network weights that tell every unit from every other, norms included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(0.5 + noise.abs() if name.endswith(("running_var", "norm.weight")) else 0.3 * noise)
    return network.double().eval()


def every_axis_is_known(found: Units, network: nn.Module) -> None:
    known = {(axis.parameter, axis.axis): axis for axis in found.axes}
    assert len(known) == len(found.axes)
    for name, tensor in network.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        assert len(known[name, 0].units) == tensor.shape[0]
        if tensor.ndim > 1:
            if (name, 1) in known:
                assert len(known[name, 1].units) == tensor.shape[1]
            else:
                assert known[name, 0].role is Role.CARRIES  # depthwise
                assert tensor.shape[1] == 1
    assert {axis.parameter for axis in found.axes} <= network.state_dict().keys()


def exchanged(found: Units, network: nn.Module, one: int, other: int) -> bool:
    """Let two units change places in all parameters; ``False``, and nothing is done, where their places differ."""
    moves = []
    for axis in found.axes:
        here, there = np.flatnonzero(axis.units == one), np.flatnonzero(axis.units == other)
        if len(here) != len(there):
            return False
        moves.append((axis, np.concatenate([here, there]), np.concatenate([there, here])))
    state = network.state_dict()
    with torch.no_grad():
        for axis, to, source in moves:
            tensor = state[axis.parameter].movedim(axis.axis, 0)
            tensor[to] = tensor[source].clone()
    return True


def check(topology: Topology, shape: tuple[int, ...], seed: int) -> int:
    """Exchange two units of each node in turn; return how many pairs could change places."""
    found = units(topology, shape, 5)
    network = randomised(build(topology, shape, 5))
    every_axis_is_known(found, network)
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rng = np.random.default_rng(seed)
    moved = 0
    with torch.no_grad():
        expected = network(x)
        for node, made in found.made.items():
            if len(made) < 2 or not found.free(node):
                continue
            one, other = map(int, rng.choice(made, 2, replace=False))
            if one != other and exchanged(found, network, one, other):
                moved += 1
                torch.testing.assert_close(network(x), expected, rtol=1e-9, atol=1e-9)
    return moved


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_units_may_change_places(
    topologies: Strategies, strided: tuple[Operation | Topology, ...], data: st.DataObject
) -> None:
    topology = data.draw(topologies(operations=strided))
    if not is_dead(topology):
        check(topology, data.draw(st.sampled_from(SHAPES)), data.draw(st.integers(0, 9)))


@pytest.mark.parametrize("name", SPACES)
def test_units_of_every_shipped_space_may_change_places(name: str) -> None:
    space, rng = catalogue.load(name), np.random.default_rng(5)
    drawn = (space.decode(space.sample(rng)) for _ in range(9))
    alive = [topology for topology in drawn if not is_dead(topology)][:3]
    assert sum(check(topology, SPACES[name], seed) for seed, topology in enumerate(alive)) > 2


def test_a_chain_by_hand() -> None:
    found = units(chain(op("conv", channels=4), op("conv", channels=6), op("flatten")), (3, 2, 2), 5)
    assert found.groups == (("1",), ("2",))
    assert found.writers("1") == (("nodes.1.conv.weight", 0),)
    own, read = [r for r in found.readers("1") if r.role is Role.CARRIES], found.readers("1")[-1]
    assert [r.parameter for r in own] == [
        f"nodes.1.norm.{n}" for n in ("weight", "bias", "running_mean", "running_var")
    ]
    assert (read.parameter, read.axis, read.offset, read.repeat) == ("nodes.2.conv.weight", 1, 0, 1)
    head = found.readers("2")[-1]
    assert (head.parameter, head.axis, head.offset, head.repeat) == ("head.linear.weight", 1, 0, 4)
    assert head.positions[2].tolist() == [8, 9, 10, 11]


def test_a_sum_ties_and_a_concat_shifts() -> None:
    nodes = {
        "input": op("input"),
        "a": op("conv", channels=4),
        "b": op("conv", channels=4),
        "c": op("conv", channels=2, norm=False),
        "join": op("concat"),
        "d": op("conv", channels=4),
        "output": op("output"),
    }
    edges = [("input", "a"), ("a", "b"), ("a", "c"), ("a", "join"), ("c", "join"), ("join", "d"), ("b", "output")]
    found = units(Topology(nodes, [*edges, ("d", "output")]), (3, 4, 4), 5)
    assert set(found.groups) == {("a",), ("b", "d"), ("c",)}
    assert found.writers("c") == (("nodes.c.conv.weight", 0), ("nodes.c.conv.bias", 0))
    (reader,) = found.readers("c")
    assert (reader.parameter, reader.axis, reader.offset) == ("nodes.d.conv.weight", 1, 4)
    gone = [int(found.made["b"][1])]
    assert found.without(gone) == {"b": (0, 2, 3), "d": (0, 2, 3)}


def test_a_projection_is_tied_to_what_it_is_added_to() -> None:
    cell = Topology(
        {"input": op("input"), "a": op("conv", channels=8, stride=2), "output": op("output")},
        [("input", "a"), ("a", "output"), ("input", "output")],
    )
    found = units(chain(op("conv", channels=4), cell), (3, 8, 8), 5)
    (name,) = found.projections
    assert found.projections[name] == ("2/input", ("2/output",))
    assert found.group("2/a") == ("2/a", name)


def test_the_data_and_the_outputs_are_fixed_and_so_is_what_is_added_to_them() -> None:
    nodes = {"input": op("input"), "a": op("conv"), "b": op("conv"), "output": op("output")}
    found = units(Topology(nodes, [("input", "a"), ("a", "b"), ("b", "output"), ("input", "b")]), (3, 4, 4), 5)
    assert not found.free("a")
    assert found.free("b")


def test_grouped_convolutions_and_kinds_without_a_rule_are_fixed() -> None:
    grouped = chain(op("conv", channels=4), op("conv", channels=8, groups=2), op("conv", channels=4))
    found = units(grouped, (3, 4, 4), 5)
    assert [found.free(name) for name in ("1", "2", "3")] == [False, False, True]
    define(Kind("units_test_kind"))
    from detol.graph import cost, shapes

    shapes.register("units_test_kind", lambda _, shape: shape)
    cost.register("units_test_kind", lambda *_: [])
    found = units(chain(op("conv", channels=4), op("units_test_kind")), (3, 4, 4), 5)
    assert not found.free("1")
