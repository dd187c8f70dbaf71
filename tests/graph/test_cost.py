"""Costs by closed forms, by torch's own counter, and by the tensors that autograd really keeps."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from detol.graph.build import build
from detol.graph.cost import FLOAT, Cost, cost, memory
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain

BODY = Topology(
    {
        "input": op("input"),
        "a": op("conv", channels=16, stride=2),
        "b": op("sepconv", channels=24, kernel=5),
        "c": op("mbconv", channels=16, activation="silu"),
        "se": op("squeeze_excite"),
        "d": op("conv", channels=12, groups=4, dilation=2, order="pre"),
        "output": op("output"),
    },
    [("input", "a"), ("a", "b"), ("b", "c"), ("a", "c"), ("c", "se"), ("se", "d"), ("d", "output"), ("a", "output")],
)


@pytest.mark.parametrize(
    ("operation", "shape", "params", "multiply_adds"),
    [
        (op("conv", channels=16), (3, 8, 8), 3 * 16 * 9 + 32, 3 * 16 * 9 * 64),
        (op("conv", channels=16, norm=False), (3, 8, 8), 3 * 16 * 9 + 16, 3 * 16 * 9 * 64),
        (op("conv", channels=16, stride=2, kernel=5), (4, 9), 4 * 16 * 5 + 32, 4 * 16 * 5 * 5),
        (op("conv", channels=16, groups=4), (8, 8, 8), 2 * 16 * 9 + 32, 2 * 16 * 9 * 64),
        (op("sepconv", channels=16), (4, 8, 8), 4 * 9 + 4 * 16 + 32, (4 * 9 + 4 * 16) * 64),
        (
            op("mbconv", channels=6, stride=2),
            (4, 8, 8),
            (4 * 16 + 32) + (16 * 9 + 32) + (16 * 6 + 12),
            4 * 16 * 64 + 16 * 9 * 16 + 16 * 6 * 16,
        ),
        (op("squeeze_excite"), (8, 5), (8 * 2 + 2) + (2 * 8 + 8), 32),
        (op("linear", features=7), (5,), 5 * 7 + 14, 35),
        (op("norm"), (5, 4), 10, 0),
        (op("pool"), (5, 4), 0, 0),
    ],
    ids=str,
)
def test_closed_forms(operation: Operation, shape: tuple[int, ...], params: int, multiply_adds: int) -> None:
    found = cost(chain(operation), shape, 10)
    channels = operation["channels"] if "channels" in dict(operation.parameters) else None
    features = operation["features"] if "features" in dict(operation.parameters) else None
    width = int(channels or features or shape[0])
    assert found.params == params + width * 10 + 10
    assert found.multiply_adds == multiply_adds + width * 10
    assert found.depth == 1


def test_an_empty_network_is_its_head() -> None:
    assert cost(chain(), (5,), 3) == Cost(params=18, multiply_adds=15, activation_bytes=FLOAT * (5 + 3), depth=0)


def test_projections_count() -> None:
    nodes: dict[str, Operation | Topology] = {
        "input": op("input"),
        "a": op("conv", channels=8, stride=2),
        "output": op("output"),
    }
    shortcut = Topology(nodes, [("input", "a"), ("a", "output"), ("input", "output")])
    straight = Topology(nodes, [("input", "a"), ("a", "output")])
    one, other = cost(shortcut, (3, 8, 8), 10), cost(straight, (3, 8, 8), 10)
    assert one.params - other.params == 3 * 8 + 16
    assert one.multiply_adds - other.multiply_adds == 3 * 8 * 16


def test_depth_is_the_longest_path_with_cells_counted_inside() -> None:
    cell = chain(op("conv"), op("conv"), op("pool"))
    topology = Topology(
        {"input": op("input"), "a": cell, "b": op("conv"), "c": cell, "output": op("output")},
        [("input", "a"), ("a", "c"), ("input", "b"), ("b", "c"), ("c", "output"), ("b", "output")],
    )
    assert cost(topology, (3, 8, 8), 2).depth == 6


@pytest.mark.parametrize("shape", [(3, 16, 16), (3, 40)], ids=["2-D", "1-D"])
def test_multiply_adds_are_torch_s(shape: tuple[int, ...]) -> None:
    network = build(BODY, shape, 10).eval()
    counter: Any = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network(torch.randn(1, *shape))
    assert counter.get_total_flops() == 2 * cost(BODY, shape, 10).multiply_adds


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 400)], ids=["2-D", "1-D"])
def test_activation_bytes_bound_what_autograd_keeps(shape: tuple[int, ...]) -> None:
    network = build(BODY, shape, 10)
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, int] = {}
    alive = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # or its address would be used again
        return tensor

    batch = 4
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network(torch.randn(batch, *shape)).sum()
    estimate = batch * cost(BODY, shape, 10).activation_bytes
    assert 0.4 * estimate < sum(kept.values()) <= estimate


def test_memory_grows_with_batch_and_optimiser() -> None:
    found = cost(BODY, (3, 16, 16), 10)
    one, two = (memory(BODY, (3, 16, 16), 10, batch) for batch in (8, 16))
    assert two - one > 8 * found.activation_bytes
    assert one > 4 * FLOAT * found.params + 8 * found.activation_bytes
    assert one - memory(BODY, (3, 16, 16), 10, 8, slots=1) == FLOAT * found.params
