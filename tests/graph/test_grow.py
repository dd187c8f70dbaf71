"""Widening and deepening keep the function, for every kind that allows it and any topology; all else is refused."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from detol.errors import TopologyError
from detol.graph.build import build
from detol.graph.edit import is_dead
from detol.graph.flat import flat
from detol.graph.grow import Deepening, Growth, deepen, neutral, wideable, widen
from detol.graph.neutral import Start, starts
from detol.graph.ops import Operation, op
from detol.graph.resize import resized
from detol.graph.topology import Topology, chain
from detol.graph.units import units
from detol.search.records import Transfer
from detol.workers.neutral import calibrate
from detol.workers.transfer import inherit

Strategies = Callable[..., st.SearchStrategy[Topology]]
IMAGE = (3, 9, 8)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def trained(topology: Topology, shape: Sequence[int], seed: int = 0) -> nn.Module:
    """Return a network as training leaves it: the statistics of norms are those of their inputs."""
    torch.manual_seed(seed)
    network = build(topology, shape, 5)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.3)
            module.momentum = 0.5
    network.train()
    with torch.no_grad():
        for _ in range(4):
            network(torch.randn(16, *shape))
    return network.eval()


def grown(parent: nn.Module, before: Topology, growth: Growth, shape: Sequence[int]) -> nn.Module:
    child = build(growth.topology, shape, 5)
    transfer = Transfer(0, nodes=growth.nodes, units=growth.units)
    found = inherit(growth.topology, child.state_dict(), before, parent.state_dict(), transfer, shape=shape, outputs=5)
    child.load_state_dict(dict(found.state))
    return child.eval()


def same_function(one: nn.Module, other: nn.Module, shape: Sequence[int]) -> None:
    x = torch.randn(8, *shape, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, got = one(x), other(x)
    assert (got - expected).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max()))


SERIES = [
    op("conv", kernel=3),
    op("conv", kernel=5, dilation=2),
    op("conv", kernel=3, order="pre"),
    op("conv", kernel=1, norm=False),
    op("conv", activation="none"),
    op("sepconv", kernel=5),
    op("sepconv", order="pre", norm=False),
    op("mbconv", expand=1),
    op("mbconv", kernel=5, expand=3),
    op("norm"),
]
BRANCHES = [
    op("conv", order="pre"),
    op("conv", activation="none", norm=False),
    op("conv", activation="tanh", norm=False),
    op("conv", activation="gelu"),
    op("sepconv", order="pre", activation="silu"),
    op("mbconv"),
    op("norm"),
]
NEVER = [
    op("conv", stride=2),
    op("conv", channels=7),
    op("conv", groups=2),
    op("squeeze_excite"),
    op("pool"),
    op("dropout", rate=0.5),
]


def placed(topology: Topology, edge: tuple[str, str], operation: Operation, *, beside: bool) -> Growth | None:
    return neutral(topology, Deepening("", topology.edges.index(edge), beside, operation), IMAGE)


BASE = chain(op("conv", channels=6), op("conv", channels=8))


@pytest.mark.parametrize("operation", SERIES, ids=str)
def test_a_layer_in_series_behind_a_relu_starts_as_an_identity(operation: Operation) -> None:
    growth = placed(BASE, ("1", "2"), operation, beside=False)
    assert growth is not None
    found = starts(flat(growth.topology, IMAGE), flat(BASE, IMAGE), growth.nodes)
    assert set(found.values()) == {Start.IDENTITY}
    parent = trained(BASE, IMAGE)
    same_function(parent, grown(parent, BASE, growth, IMAGE), IMAGE)


@pytest.mark.parametrize("operation", BRANCHES, ids=str)
def test_a_layer_beside_an_edge_starts_as_zero_and_learns(operation: Operation) -> None:
    growth = placed(BASE, ("1", "2"), operation, beside=True)
    assert growth is not None
    assert placed(BASE, ("1", "2"), operation.replace(), beside=True) is not None
    parent = trained(BASE, IMAGE)
    child = grown(parent, BASE, growth, IMAGE)
    same_function(parent, child, IMAGE)
    child(torch.randn(4, *IMAGE)).square().sum().backward()
    name = growth.place[0]
    assert any(p.grad.abs().max() > 0 for p in child.get_submodule(f"nodes.{name}").parameters() if p.grad is not None)


@pytest.mark.parametrize("operation", NEVER, ids=str)
@pytest.mark.parametrize("beside", [False, True])
def test_other_layers_are_never_neutral(operation: Operation, beside: bool) -> None:
    assert placed(BASE, ("1", "2"), operation, beside=beside) is None


def test_a_relu_is_no_identity_of_what_may_be_negative_and_no_zero_that_learns() -> None:
    signed = chain(op("conv", channels=6, activation="none"), op("conv", channels=8))
    assert placed(signed, ("1", "2"), op("conv"), beside=False) is None
    assert placed(signed, ("1", "2"), op("conv"), beside=True) is None
    assert placed(signed, ("1", "2"), op("conv", activation="none"), beside=False) is not None


@pytest.mark.parametrize("operation", [op("linear"), op("linear", norm=False), op("linear", dropout=0.1), op("norm")])
def test_linear_layers_in_series(operation: Operation) -> None:
    topology = chain(op("linear", features=9), op("linear", features=4))
    growth = neutral(topology, Deepening("", 1, False, operation), (7,))
    assert growth is not None
    parent = trained(topology, (7,))
    same_function(parent, grown(parent, topology, growth, (7,)), (7,))


WIDE = [
    op("conv", kernel=3),
    op("conv", order="pre", norm=False),
    op("sepconv", kernel=5),
    op("mbconv", expand=2),
    op("mbconv", expand=1),
    op("squeeze_excite"),
    op("squeeze_excite", ratio=1),
    op("pool", mode="max"),
    op("norm"),
    op("activation", fn="gelu"),
    op("dropout", rate=0.3),
    op("flatten"),
    op("global_pool"),
]


@pytest.mark.parametrize("operation", WIDE, ids=str)
def test_a_layer_is_widened_in_front_of_any_kind(operation: Operation) -> None:
    topology = chain(op("conv", channels=6), operation)
    growth = widen(topology, IMAGE, 5, next(wideable(units(topology, IMAGE, 5))), 4, np.random.default_rng(0))
    assert growth.topology != topology
    parent = trained(topology, IMAGE)
    same_function(parent, grown(parent, topology, growth, IMAGE), IMAGE)


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_growth_keeps_the_function_of_any_topology(
    topologies: Strategies, strided: tuple[Operation | Topology, ...], data: st.DataObject
) -> None:
    topology = data.draw(topologies(operations=strided))
    shape = data.draw(st.sampled_from([IMAGE, (2, 13)]))
    if is_dead(topology):
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    parent = trained(topology, shape)
    groups = list(wideable(units(topology, shape, 5)))
    if groups:
        layers = data.draw(st.sampled_from(groups))
        with suppress(TopologyError):  # it would be wider than what it is projected to
            same_function(parent, grown(parent, topology, widen(topology, shape, 5, layers, 1, rng), shape), shape)
    with suppress(TopologyError):  # nothing can be added
        growth = deepen(topology, shape, [*SERIES[:3], *BRANCHES[:1]], rng)
        same_function(parent, grown(parent, topology, growth, shape), shape)


def test_a_layer_out_of_a_sum_of_doubled_channels_keeps_its_norm() -> None:
    # In the parent the sum ties the layer's six channels to the input's three, each of them twice; in the child the new
    # layer is tied to them and the old one's six stand for themselves.
    cell = Topology(
        {"input": op("input"), "a": op("sepconv"), "output": op("output")},
        [("input", "a"), ("a", "output"), ("input", "output")],
    )
    nodes = {"input": op("input"), "twice": op("concat"), "cell": cell, "output": op("output")}
    edges = [("input", "twice"), ("input", "twice"), ("twice", "cell"), ("cell", "output")]
    topology = Topology(nodes, edges)
    parent = trained(topology, IMAGE)
    done = set()
    for seed in range(12):
        growth = deepen(topology, IMAGE, SERIES[:3], np.random.default_rng(seed))
        done.add(growth.place)
        same_function(parent, grown(parent, topology, growth, IMAGE), IMAGE)
    assert any(place[0].startswith("cell/") for place in done)


def test_what_is_tied_is_widened_together_and_what_is_fixed_is_not() -> None:
    nodes = {
        "input": op("input"),
        "a": op("conv", channels=6),
        "b": op("conv"),
        "c": op("conv"),
        "output": op("output"),
    }
    topology = Topology(nodes, [("input", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("c", "output")])
    assert list(wideable(units(topology, IMAGE, 5))) == [("a", "b"), ("c",)]
    growth = widen(topology, IMAGE, 5, ("a", "b"), 2, np.random.default_rng(0))
    # b follows a without being told; c keeps its 6.
    assert growth.topology.nodes["a"] == op("conv", channels=8)
    assert growth.topology.nodes["b"] == op("conv")
    assert growth.topology.nodes["c"] == op("conv", channels=6)
    fixed = chain(op("conv", groups=3), op("conv", channels=4))
    assert list(wideable(units(fixed, IMAGE, 5))) == [("2",)]


def test_bad_growth_is_refused_in_one_line() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(TopologyError, match="cannot be widened together"):
        widen(BASE, IMAGE, 5, ("1", "2"), 1, rng)
    for more in (0, 7):
        with pytest.raises(TopologyError, match="by 1 to 6"):
            widen(BASE, IMAGE, 5, ("1",), more, rng)
    with pytest.raises(TopologyError, match="add others"):
        deepen(BASE, IMAGE, NEVER, rng)
    with pytest.raises(TopologyError, match="unknown layer"):
        resized(BASE, IMAGE, {"3": 4})
    with pytest.raises(TopologyError, match="at least 1 unit"):
        resized(BASE, IMAGE, {"1": 0})
    narrow = Topology(
        {"input": op("input"), "a": op("conv", channels=4), "b": op("conv", channels=5), "output": op("output")},
        [("input", "a"), ("a", "b"), ("a", "output"), ("b", "output")],
    )
    with pytest.raises(TopologyError, match="joined otherwise"):
        widen(narrow, IMAGE, 5, ("a",), 1, rng)


def test_identities_are_identities_in_training_once_calibrated() -> None:
    growth = placed(BASE, ("1", "2"), op("conv"), beside=False)
    assert growth is not None
    parent = trained(BASE, IMAGE)
    child = build(growth.topology, IMAGE, 5)
    transfer = Transfer(0, nodes=growth.nodes)
    found = inherit(growth.topology, child.state_dict(), BASE, parent.state_dict(), transfer, shape=IMAGE, outputs=5)
    child.load_state_dict(dict(found.state))
    batch = torch.randn(64, *IMAGE)
    before = [module(batch) for module in (parent.train(), child.train())]
    assert (before[0] - before[1]).abs().max() > 0.05  # batch norm takes mean and variance out
    parent.load_state_dict(trained(BASE, IMAGE).state_dict())
    child.load_state_dict(dict(found.state))
    calibrate(child, found.identities, batch)
    same_function(trained(BASE, IMAGE), child.eval(), IMAGE)
    parent.train(), child.train()
    # What enters the new norm is nearly what was measured, but for the norm before it, which uses the batch now.
    assert (parent(batch) - child(batch)).abs().max() < 0.2 * (before[0] - before[1]).abs().max()
