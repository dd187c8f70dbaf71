"""Layers that are narrower in a child: which of their units stay."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from detol.graph.build import build
from detol.graph.correspond import correspond
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.graph.units import units
from detol.search.records import Transfer
from detol.workers.narrow import energies
from detol.workers.transfer import inherit

OUTPUTS = 3


def trained(topology: Topology, shape: Sequence[int]) -> nn.Module:
    torch.manual_seed(0)
    network = build(topology, shape, OUTPUTS).train()
    with torch.no_grad():
        for _ in range(4):
            network(torch.randn(16, *shape))
    return network.eval()


def child_of(parent: nn.Module, before: Topology, after: Topology, shape: Sequence[int]) -> nn.Module:
    child, transfer = build(after, shape, OUTPUTS), Transfer(0, nodes=correspond(before, after))
    found = inherit(after, child.state_dict(), before, parent.state_dict(), transfer, shape=shape, outputs=OUTPUTS)
    child.load_state_dict(dict(found.state))
    return child.eval()


def test_what_a_unit_is_worth_by_hand() -> None:
    """A linear layer of 2 units with scales 2 and 1, shifts 0 and 1, read with weights (1, 2, 3) and (0, 0, 1)."""
    topology = chain(op("linear", features=2))
    state = trained(topology, (4,)).state_dict()
    state["nodes.1.norm.weight"].copy_(torch.tensor([2.0, 1.0]))
    state["nodes.1.norm.bias"].copy_(torch.tensor([0.0, 1.0]))
    state["head.linear.weight"].copy_(torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]))
    found = units(topology, (4,), OUTPUTS)
    assert energies(found, state)[found.made["1"]].tolist() == pytest.approx([4 * 14, 2 * 1])


def test_of_units_that_are_read_alike_the_ones_of_greater_scale_stay() -> None:
    before, after = (chain(op("linear", features=width), op("linear", features=4)) for width in (4, 2))
    parent = trained(before, (7,))
    with torch.no_grad():
        state = parent.state_dict()
        state["nodes.2.linear.weight"].fill_(1.0)
        state["nodes.1.norm.weight"].copy_(torch.tensor([1.0, -3.0, 0.1, 2.0]))
        state["nodes.1.norm.bias"].copy_(torch.tensor([0.0, 0.0, 5.0, 0.0]))
    child = child_of(parent, before, after, (7,))
    assert child.state_dict()["nodes.1.norm.weight"].tolist() == pytest.approx([-3.0, 0.1])


def test_a_stage_that_is_tied_by_skips_becomes_narrower_as_one() -> None:
    def residual(width: int) -> Topology:
        nodes = {
            "input": op("input"), "stem": op("conv", channels=width), "a": op("conv", channels=width),
            "b": op("conv", channels=width, activation="none"), "add": op("add"), "end": op("conv", channels=5),
            "output": op("output"),
        }  # fmt: skip
        edges = [("input", "stem"), ("stem", "a"), ("a", "b"), ("b", "add"), ("stem", "add"), ("add", "end")]
        return Topology(nodes, [*edges, ("end", "output")])

    before, after = residual(8), residual(5)
    parent = trained(before, (3, 8, 8))
    with torch.no_grad():
        for name, tensor in parent.state_dict().items():
            if name.endswith(".conv.weight") and tensor.shape[1] == 8:
                tensor[:, [1, 2, 6]] = 0
    child = child_of(parent, before, after, (3, 8, 8))
    x = torch.randn(8, 3, 8, 8)
    with torch.inference_mode():
        assert child(x).numpy() == pytest.approx(parent(x).numpy(), abs=1e-5)
