"""Cuts of each level on real networks: the child with its parent's weights does what was measured of the cut."""

import json
from typing import Any

import pytest
import torch
from torch import nn

from detol.graph.build import build
from detol.graph.lower import lower
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.records import Transfer
from detol.strategies.pruning import apoptosis, channels, edges
from detol.strategies.pruning.cuts import Cut, Size, allowed, largest
from detol.workers.measures import measured
from detol.workers.measures.probe import Probe
from detol.workers.tensors import Rows, Tensors
from detol.workers.transfer import inherit

PLAIN = chain(op("linear", features=24), op("linear", features=20, norm=False))
RESIDUAL = lower(
    Topology(
        {
            "input": op("input"),
            "a": op("linear", features=16),
            "b": op("linear", features=12),
            "c": op("linear", features=16),
            "output": op("output"),
        },
        [("input", "a"), ("a", "b"), ("b", "c"), ("a", "output"), ("c", "output")],
    ),
    (7,),
)
DENSE = Topology(
    {
        "input": op("input"),
        "a": op("linear", features=12),
        "b": op("linear", features=10),
        "join": op("concat"),
        "c": op("linear", features=8),
        "output": op("output"),
    },
    [("input", "a"), ("a", "b"), ("a", "join"), ("b", "join"), ("join", "c"), ("c", "output")],
)
IMAGES = lower(
    Topology(
        {
            "input": op("input"),
            "stem": op("conv", channels=8),
            "cell": op("mbconv", expand=3),
            "wide": op("conv", channels=16, stride=2),
            "output": op("output"),
        },
        [("input", "stem"), ("stem", "cell"), ("stem", "wide"), ("cell", "wide"), ("wide", "output")],
    ),
    (3, 8, 8),
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


def trained(topology: Topology, shape: tuple[int, ...]) -> tuple[nn.Module, Tensors, Size]:
    """Return a network after a few steps on made-up classes, its data and its size."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, *shape, generator=generator)
    y = (x.flatten(1)[:, 0] > 0).long() + (x.flatten(1)[:, 1] > 0).long()
    rows = Rows(x, y)
    kind = "image" if len(shape) == 3 else "features"
    data = Tensors("classification", kind, shape, 3, rows, rows, None, torch.zeros(shape), torch.ones(shape), 0.0, 1.0)
    torch.manual_seed(0)
    model = build(topology, shape, 3)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model.eval(), data, Size(shape, 3)


def measures(name: str, model: nn.Module, topology: Topology, data: Tensors) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(measured([name], model, topology, data)[name])
    return found


def loss_after(cut: Cut, topology: Topology, model: nn.Module, data: Tensors) -> float:
    """Return the held-out loss of the child with its parent's weights, before any training."""
    child = build(cut.topology, data.shape, data.outputs)
    nodes = {name: name for name in cut.topology.nodes}
    transfer = Transfer(0, nodes, cut.units, cut.folded, cut.merged)
    found = inherit(
        cut.topology, child.state_dict(), topology, model.state_dict(), transfer, shape=data.shape, outputs=data.outputs
    )
    assert found.share == 1.0
    child.load_state_dict(dict(found.state))
    return Probe(child.eval(), cut.topology, data).held_loss()


@pytest.mark.parametrize("topology", [PLAIN, RESIDUAL, DENSE], ids=["plain", "residual", "dense"])
@pytest.mark.parametrize("rung", [2, 5])
def test_apoptosis_costs_what_was_measured(topology: Topology, rung: int) -> None:
    model, data, size = trained(topology, (7,))
    found = measures("neurons", model, topology, data)
    count, loss = found["ladder"][rung]
    found["ladder"] = [[count, 0.0]]  # all up to this rung is harmless, nothing behind it was measured
    cut = apoptosis.cut(topology, found, size, 0.99, 0.0)
    assert cut is not None
    assert sum(map(len, cut.folded.values())) == count
    assert size.cost(cut.topology).params < size.cost(topology).params
    assert loss_after(cut, topology, model, data) == pytest.approx(loss, rel=1e-3)


def test_apoptosis_stops_below_its_allowance_and_its_share() -> None:
    model, data, size = trained(PLAIN, (7,))
    found = measures("neurons", model, PLAIN, data)
    cut = apoptosis.cut(PLAIN, found, size, 0.99, 0.05)
    assert cut is not None
    assert loss_after(cut, PLAIN, model, data) <= allowed(found, 0.05) + 1e-4
    small = apoptosis.cut(PLAIN, found, size, 0.1, 10.0)
    assert small is not None
    assert 0.9 <= size.cost(small.topology).params / size.cost(PLAIN).params < 1
    found["ladder"] = [[count, 99.0] for count, _ in found["ladder"]]
    assert apoptosis.cut(PLAIN, found, size, 0.5, 0.05) is None


@pytest.mark.parametrize("topology", [RESIDUAL, DENSE], ids=["residual", "dense"])
def test_a_cut_edge_costs_what_its_closed_gate_did(topology: Topology) -> None:
    model, data, size = trained(topology, (7,))
    found = measures("edges", model, topology, data)
    for only in found["edges"]:
        cut = edges.cut(topology, {**found, "edges": [only], "nodes": []}, size, 0.5, 100.0)
        assert cut is not None
        assert (only[0], only[1]) not in cut.topology.edges
        assert loss_after(cut, topology, model, data) == pytest.approx(found["loss"] + only[3], rel=1e-3, abs=1e-4)


def test_edges_over_the_allowance_stay() -> None:
    model, data, size = trained(RESIDUAL, (7,))
    found = measures("edges", model, RESIDUAL, data)
    harmful = [[source, target, saliency, 50.0] for source, target, saliency, _ in found["edges"]]
    assert edges.cut(RESIDUAL, {**found, "edges": harmful, "nodes": []}, size, 0.5, 0.1) is None


@pytest.mark.parametrize("criterion", channels.CRITERIA)
def test_channels_save_the_share_of_multiply_adds(criterion: str) -> None:
    model, data, size = trained(IMAGES, (3, 8, 8))
    found = measures("channels", model, IMAGES, data)
    before = size.cost(IMAGES).multiply_adds
    for share in (0.1, 0.3):
        cut = channels.cut(IMAGES, found, size, share, 0.0, criterion=criterion)
        assert cut is not None
        assert 1 - share <= size.cost(cut.topology).multiply_adds / before < 1
        loss_after(cut, IMAGES, model, data)
    # In one step every layer keeps half of its units.
    cut = channels.cut(IMAGES, found, size, 0.99, 0.0, criterion=criterion)
    assert cut is not None
    for name, kept in cut.units.items():
        node = IMAGES.nodes[name]
        width = next(value for key, value in node.parameters if key == "channels")  # type: ignore[union-attr]
        assert isinstance(width, int)
        assert len(kept) >= width / 2


def test_channels_of_least_saliency_go_first() -> None:
    model, data, size = trained(IMAGES, (3, 8, 8))
    found = measures("channels", model, IMAGES, data)
    values = found["saliency"]["cell.expand"]
    values[5] = values[7] = 0.0
    cut = channels.cut(IMAGES, found, size, 0.02, 0.0)
    assert cut is not None
    assert set(range(len(values))) - set(cut.units["cell.expand"]) <= {5, 7}


def test_largest_is_found_by_bisection() -> None:
    for most in range(-1, 9):
        assert largest(1, 8, lambda count, most=most: count <= most) == min(max(most, 0), 8)
    assert largest(1, 0, lambda _: True) == 0
