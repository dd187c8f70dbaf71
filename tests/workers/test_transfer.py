"""Weights taken over from a parent: growth keeps the function, what did not change is copied, all else by its rule."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from detol.errors import TopologyError, UsageError
from detol.graph.build import build
from detol.graph.correspond import correspond
from detol.graph.edit import is_dead
from detol.graph.flat import flat
from detol.graph.grow import Growth, deepen, wideable, widen
from detol.graph.ops import op
from detol.graph.resize import resized
from detol.graph.topology import Topology, chain
from detol.graph.units import Role, units
from detol.search.records import Transfer
from detol.spaces import catalogue
from detol.workers.transfer import Inherited, inherit, inherit_optimiser

OUTPUTS = 5
SPACES = {
    "image_cell": (3, 8, 8),
    "image_dag": (3, 8, 8),
    "nasbench201": (3, 8, 8),
    "signal": (2, 16),
    "tabular": (7,),
    "tiny": (1, 8, 8),
}
NEW = (
    op("conv", kernel=3),
    op("conv", kernel=5, order="pre"),
    op("conv", kernel=1, activation="none", norm=False),
    op("sepconv", kernel=3, order="pre"),
    op("sepconv"),
    op("mbconv", expand=2),
    op("linear"),
    op("linear", activation="tanh"),
    op("norm"),
)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def trained(topology: Topology, shape: Sequence[int], seed: int = 0) -> nn.Module:
    """Return a network as training leaves it: norms whose statistics are those of their inputs, no weight at zero."""
    torch.manual_seed(seed)
    network = build(topology, shape, OUTPUTS)
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


def child_of(
    parent: nn.Module, before: Topology, after: Topology, transfer: Transfer, shape: Sequence[int], **options: float
) -> tuple[nn.Module, Inherited]:
    torch.manual_seed(99)
    child = build(after, shape, OUTPUTS)
    found = inherit(
        after, child.state_dict(), before, parent.state_dict(), transfer, shape=shape, outputs=OUTPUTS, **options
    )
    child.load_state_dict(dict(found.state))
    return child.eval(), found


def grown(parent: nn.Module, before: Topology, growth: Growth, shape: Sequence[int]) -> tuple[nn.Module, Inherited]:
    transfer = Transfer(0, nodes=growth.nodes, units=growth.units)
    return child_of(parent, before, growth.topology, transfer, shape)


def same_function(one: nn.Module, other: nn.Module, shape: Sequence[int]) -> None:
    x = torch.randn(8, *shape, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, got = one(x), other(x)
    assert (got - expected).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max()))


def live(name: str, count: int) -> list[Topology]:
    space, rng = catalogue.load(name), np.random.default_rng(11)
    drawn = (space.decode(space.sample(rng)) for _ in range(4 * count))
    return [topology for topology in drawn if not is_dead(topology)][:count]


@pytest.mark.parametrize("name", SPACES)
def test_widening_keeps_the_function_in_every_space(name: str) -> None:
    shape, rng, widened = SPACES[name], np.random.default_rng(2), 0
    for topology in live(name, 4):
        groups = list(wideable(units(topology, shape, OUTPUTS)))
        parent = trained(topology, shape)
        for number in rng.permutation(len(groups))[:2]:
            layers = groups[int(number)]
            count = len(units(topology, shape, OUTPUTS).made[layers[0]])
            try:
                growth = widen(topology, shape, OUTPUTS, layers, int(rng.integers(1, count + 1)), rng)
            except TopologyError:  # it would be wider than what it is projected to
                continue
            child, found = grown(parent, topology, growth, shape)
            same_function(parent, child, shape)
            assert found.share > 0.99
            widened += 1
    assert widened >= 4


@pytest.mark.parametrize("name", SPACES)
def test_deepening_keeps_the_function_in_every_space(name: str) -> None:
    shape, rng = SPACES[name], np.random.default_rng(3)
    for topology in live(name, 3):
        parent = trained(topology, shape)
        for _ in range(2):
            growth = deepen(topology, shape, NEW, rng)
            child, found = grown(parent, topology, growth, shape)
            same_function(parent, child, shape)
            assert 0 < found.share < 1


# -- match and morph

PARENT = chain(op("conv", channels=6), op("conv", channels=8, kernel=3), op("conv", channels=4))
IMAGE = (3, 8, 8)


def mutated(
    after: Topology, rule: str, before: Topology = PARENT, **options: float
) -> tuple[nn.Module, nn.Module, Inherited]:
    parent = trained(before, IMAGE)
    transfer = Transfer(0, nodes=correspond(before, after), rule=rule)
    child, found = child_of(parent, before, after, transfer, IMAGE, **options)
    return parent, child, found


@pytest.mark.parametrize("rule", ["match", "morph"])
@pytest.mark.parametrize("name", SPACES)
def test_the_same_network_is_copied_whole(name: str, rule: str) -> None:
    for topology in live(name, 2):
        parent = trained(topology, SPACES[name])
        transfer = Transfer(0, nodes=correspond(topology, topology), rule=rule)
        child, found = child_of(parent, topology, topology, transfer, SPACES[name])
        assert found.share == 1
        for key, tensor in parent.state_dict().items():
            assert torch.equal(child.state_dict()[key], tensor)


def test_match_copies_tensors_of_equal_shape_alone() -> None:
    after = chain(op("conv", channels=6), op("conv", channels=8, kernel=5), op("conv", channels=4))
    parent, child, found = mutated(after, "match")
    old, new = parent.state_dict(), child.state_dict()
    torch.manual_seed(99)
    fresh = build(after, IMAGE, OUTPUTS).state_dict()
    for key, tensor in new.items():
        assert torch.equal(tensor, fresh[key] if key == "nodes.2.conv.weight" else old[key])
    params = sum(p.numel() for p in child.parameters())
    assert found.share == pytest.approx(1 - 8 * 6 * 25 / params)


def test_morph_pads_a_growing_kernel_and_cuts_a_shrinking_one() -> None:
    after = chain(op("conv", channels=6), op("conv", channels=8, kernel=5), op("conv", channels=4))
    parent, child, found = mutated(after, "morph")
    same_function(parent, child, IMAGE)
    assert 0 < found.share < 1
    parent, child, found = mutated(PARENT, "morph", before=after)
    wide, cut = (m.state_dict()["nodes.2.conv.weight"] for m in (parent, child))
    assert torch.equal(cut, wide[:, :, 1:4, 1:4])
    assert found.share == 1


def test_morph_keeps_the_function_when_layers_become_wider() -> None:
    after = chain(op("conv", channels=9), op("conv", channels=12, kernel=3), op("conv", channels=5))
    parent, child, found = mutated(after, "morph")
    same_function(parent, child, IMAGE)
    # New units are fresh, not copies of each other: they learn different things at once.
    new = child.state_dict()["nodes.1.conv.weight"][6:]
    assert len(torch.unique(new.flatten(1), dim=0)) == 3
    assert 0.3 < found.share < 0.7


def test_morph_keeps_the_units_of_a_narrower_layer_that_matter() -> None:
    before = chain(op("conv", channels=8), op("conv", channels=8, kernel=3), op("conv", channels=4))
    after = chain(op("conv", channels=4), op("conv", channels=8, kernel=3), op("conv", channels=4))
    parent = trained(before, (3, 8, 8))
    gone, stay = [0, 1, 4, 6], [2, 3, 5, 7]
    with torch.no_grad():  # nothing reads these: what is left computes the same
        parent.state_dict()["nodes.2.conv.weight"][:, gone] = 0
    child, _ = child_of(parent, before, after, Transfer(0, nodes=correspond(before, after)), (3, 8, 8))
    old, new = parent.state_dict(), child.state_dict()
    assert torch.equal(new["nodes.1.conv.weight"], old["nodes.1.conv.weight"][stay])
    assert torch.equal(new["nodes.2.conv.weight"], old["nodes.2.conv.weight"][:, stay])
    assert torch.equal(new["nodes.1.norm.running_var"], old["nodes.1.norm.running_var"][stay])
    same_function(parent, child, (3, 8, 8))


def test_a_stage_is_widened_through_skips_and_projections() -> None:
    """In every space, a mutation of one width keeps the function unless a stage becomes narrower."""
    space = catalogue.load("image_cell")
    base = dict(space.references["residual"])
    for change in ({"width_1": 24}, {"width_2": 48}, {"width_1": 24, "width_2": 48}):
        before, after = space.decode(base), space.decode({**base, **change})
        parent = trained(before, IMAGE)
        child, found = child_of(parent, before, after, Transfer(0, nodes=correspond(before, after)), IMAGE)
        same_function(parent, child, IMAGE)
        assert found.share > 0.3


def test_a_chain_that_numbers_its_layers_anew_is_aligned() -> None:
    space = catalogue.load("image_cell")
    base = dict(space.references["residual"])
    before, after = space.decode(base), space.decode({**base, "cells_1": 2})
    nodes = correspond(before, after)
    assert {new: old for new, old in nodes.items() if "/" not in new} | {} == {
        "input": "input", "output": "output", "1": "1",
        **{str(n + 1): str(n) for n in (5, 6)},
    }  # fmt: skip
    parent = trained(before, IMAGE)
    child, found = child_of(parent, before, after, Transfer(0, nodes=nodes), IMAGE)
    same_function(parent, child, IMAGE)  # the new cell is residual: it starts as an identity
    assert found.share > 0.7


def test_a_node_of_another_kind_starts_fresh_and_what_reads_it_is_kept() -> None:
    after = chain(op("conv", channels=6), op("sepconv", channels=8, kernel=3), op("conv", channels=4))
    for rule in ("match", "morph"):
        parent, child, _ = mutated(after, rule)
        old, new = parent.state_dict(), child.state_dict()
        assert torch.equal(new["nodes.3.conv.weight"], old["nodes.3.conv.weight"])
        assert torch.equal(new["nodes.1.conv.weight"], old["nodes.1.conv.weight"])


@pytest.mark.parametrize("kind", ["linear", "conv", "sepconv"])
def test_a_norm_that_is_left_out_is_put_into_the_layer_before_it(kind: str) -> None:
    shape = (7,) if kind == "linear" else (3, 8, 8)
    sized = {"features": 9} if kind == "linear" else {"channels": 9, "kernel": 3}
    before, after = (chain(op(kind, **sized), op(kind, norm=norm, **sized)) for norm in (True, False))
    parent = trained(before, shape)
    transfer = Transfer(0, nodes=correspond(before, after))
    child, found = child_of(parent, before, after, transfer, shape)
    same_function(parent, child, shape)
    assert found.share == 1
    matched, _ = child_of(parent, before, after, replace(transfer, rule="match"), shape)
    with pytest.raises(AssertionError):
        same_function(parent, matched, shape)


def test_net2wider_divides_evenly_without_a_spread() -> None:
    """Chen et al. 2016, section 2.2: what reads a unit that is there twice is halved."""
    growth = Growth(
        "widen", ("1",), chain(op("conv", channels=8), *list(PARENT.nodes.values())[2:4]),
        {name: name for name in ("1", "2", "3")}, {"1": (0, 1, 2, 3, 4, 5, 2, 4)},
    )  # fmt: skip
    parent = trained(PARENT, IMAGE)
    transfer = Transfer(0, nodes=growth.nodes, units=growth.units)
    child, _ = child_of(parent, PARENT, growth.topology, transfer, IMAGE, spread=0.0)
    old, new = parent.state_dict()["nodes.2.conv.weight"], child.state_dict()["nodes.2.conv.weight"]
    for place, (unit, count) in enumerate([(0, 1), (1, 1), (2, 2), (3, 1), (4, 2), (5, 1), (2, 2), (4, 2)]):
        torch.testing.assert_close(new[:, place], old[:, unit] / count)
    child, _ = child_of(parent, PARENT, growth.topology, transfer, IMAGE)
    spread = child.state_dict()["nodes.2.conv.weight"]
    assert not torch.equal(spread[:, 2], spread[:, 6])
    torch.testing.assert_close(spread[:, 2] + spread[:, 6], old[:, 2])


# -- pruning


@pytest.mark.parametrize("name", SPACES)
def test_pruned_units_are_as_if_nothing_read_them(name: str) -> None:
    shape, rng, pruned = SPACES[name], np.random.default_rng(4), 0
    for topology in live(name, 3):
        found = units(topology, shape, OUTPUTS)
        parent = trained(topology, shape)
        for layers in list(wideable(found))[:3]:
            count = len(found.made[layers[0]])
            gone = rng.choice(found.made[layers[0]], count // 2, replace=False)
            child_topology = resized(topology, shape, dict.fromkeys(layers, count - count // 2))
            hidden = any(found.operations[n].kind in ("mbconv", "squeeze_excite") for n in found.operations)
            if hidden or len(units(child_topology, shape, OUTPUTS).projections) != len(found.projections):
                continue  # inner units go as well, or a projection does
            kept = {node: places for node, places in found.without(gone).items() if node in layers}
            same = {path: path for path in flat(topology, shape)}
            child, summary = child_of(parent, topology, child_topology, Transfer(0, same, kept), shape)
            assert summary.share == 1
            masked = build(topology, shape, OUTPUTS)
            masked.load_state_dict(parent.state_dict())
            with torch.no_grad():
                for axis in found.axes:
                    if axis.role is Role.READS:
                        masked.state_dict()[axis.parameter][:, np.isin(axis.units, gone)] = 0
            same_function(masked.eval(), child, shape)
            pruned += 1
    assert pruned or name in ("image_dag",)


MLP = chain(op("linear", features=8), op("linear", features=6, norm=False), op("linear", features=4))


@pytest.mark.parametrize(
    "middle",
    [
        MLP,
        chain(
            op("linear", features=8, activation="none", norm=False),
            op("norm"),
            op("activation", fn="tanh"),
            op("linear", features=6),
            op("linear", features=3),
        ),
    ],
)
def test_a_constant_unit_is_folded_without_a_change(middle: Topology) -> None:
    parent = trained(middle, (7,))
    state = parent.state_dict()
    with torch.no_grad():  # unit 2 of layer 1 no longer depends on its input
        state["nodes.1.linear.weight"][2] = 0
    node = parent.get_submodule("nodes.1")
    constant = float(node(torch.randn(1, 7)).detach()[0, 2])
    kept = tuple(n for n in range(8) if n != 2)
    after = resized(middle, (7,), {"1": 7})
    same = {path: path for path in flat(middle, (7,))}
    transfer = Transfer(0, same, {"1": kept}, folded={"1": ((2, constant),)})
    same_function(parent, child_of(parent, middle, after, transfer, (7,))[0], (7,))


def test_a_constant_unit_of_a_convolution_is_folded_into_the_norm_behind_what_reads_it() -> None:
    topology = chain(op("conv", channels=6), op("conv", kernel=1, channels=5), op("sepconv", kernel=1, channels=4))
    parent = trained(topology, IMAGE)
    with torch.no_grad():
        for layer in ("1", "2"):
            parent.state_dict()[f"nodes.{layer}.norm.weight"][1] = 0
            parent.state_dict()[f"nodes.{layer}.norm.bias"][1] = 0.7
    after = resized(topology, IMAGE, {"1": 5, "2": 4})
    same = {path: path for path in flat(topology, IMAGE)}
    transfer = Transfer(0, same, {"1": (0, 2, 3, 4, 5), "2": (0, 2, 3, 4)}, folded={"1": ((1, 0.7),), "2": ((1, 0.7),)})
    same_function(parent, child_of(parent, topology, after, transfer, IMAGE)[0], IMAGE)


def test_equal_units_are_merged_without_a_change() -> None:
    parent = trained(MLP, (7,))
    with torch.no_grad():  # unit 5 is unit 1, negated by nothing: equal rows, equal norm
        for key, tensor in parent.state_dict().items():
            if key.startswith("nodes.1.") and tensor.ndim:
                tensor[5] = tensor[1]
    after = resized(MLP, (7,), {"1": 7})
    same = {path: path for path in flat(MLP, (7,))}
    transfer = Transfer(0, same, {"1": (0, 1, 2, 3, 4, 6, 7)}, merged={"1": ((5, 1, 1.0),)})
    same_function(parent, child_of(parent, MLP, after, transfer, (7,))[0], (7,))


# -- the optimiser, and bad records


def test_the_optimisers_state_is_cut_and_repeated_as_the_weights_are() -> None:
    parent = trained(MLP, (7,)).train()
    optimiser = torch.optim.AdamW(parent.parameters())
    parent(torch.randn(32, 7)).square().sum().backward()
    optimiser.step()
    states = {name: dict(optimiser.state[p]) for name, p in parent.named_parameters()}
    after = resized(MLP, (7,), {"1": 9, "2": 4})
    same = {path: path for path in flat(MLP, (7,))}
    transfer = Transfer(0, same, {"1": (*range(8), 3), "2": (0, 2, 3, 5)}, optimiser=True)
    child, found = child_of(parent, MLP, after, transfer, (7,))
    got = inherit_optimiser(states, found)
    shapes = {name: p.shape for name, p in child.named_parameters()}
    assert {name: state["exp_avg"].shape for name, state in got.items()} == shapes
    old = states["nodes.2.linear.weight"]["exp_avg"]
    expected = old[[0, 2, 3, 5]][:, [*range(8), 3]]  # a gradient is that of the one unit: not divided
    assert torch.equal(got["nodes.2.linear.weight"]["exp_avg"], expected)
    assert all(float(state["step"]) == 1 for state in got.values())


def test_bad_records_are_refused_in_one_line() -> None:
    parent = trained(MLP, (7,))
    after = resized(MLP, (7,), {"1": 7})
    same = {path: path for path in flat(MLP, (7,))}
    with pytest.raises(UsageError, match="unknown rule"):
        child_of(parent, MLP, after, Transfer(0, same, rule="copy"), (7,))
    for units_, what in (
        ({"9": (0,)}, "has none"),
        ({"1": (0, 1)}, "give one for each"),
        ({"1": (0, 1, 2, 3, 4, 5, 8)}, "counted from 0"),
    ):
        with pytest.raises(TopologyError, match=what):
            child_of(parent, MLP, after, Transfer(0, same, units_), (7,))
    with pytest.raises(TopologyError, match="count from 0"):
        child_of(parent, MLP, after, Transfer(0, same, folded={"1": ((8, 1.0),)}), (7,))
    with pytest.raises(TopologyError, match="name a layer"):
        child_of(parent, MLP, after, Transfer(0, same, merged={"x": ((0, 1, 1.0),)}), (7,))
