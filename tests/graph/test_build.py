"""Modules from topologies: shapes as inferred, parameters as costed, equal digests the same network, ONNX."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from detol.errors import TopologyError
from detol.graph.build import build
from detol.graph.cost import cost, node_costs
from detol.graph.digest import digest, matching
from detol.graph.edit import is_dead, plain
from detol.graph.ops import KINDS, Kind, Operation, define, op
from detol.graph.shapes import infer
from detol.graph.topology import Topology, chain

Strategies = Callable[..., st.SearchStrategy[Topology]]
SHAPES = [(3, 9, 8), (2, 13)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


MIXED = Topology(
    {
        "input": op("input"),
        "stem": op("conv", channels=8),
        "cell": chain(op("sepconv", kernel=5, channels=12), op("mbconv", stride=2)),
        "down": op("conv", channels=16, stride=2, order="pre"),
        "pool": op("pool", mode="max", stride=3),
        "join": op("concat"),
        "gate": op("squeeze_excite"),
        "output": op("output"),
    },
    [
        ("input", "stem"),
        ("stem", "cell"),
        ("stem", "down"),
        ("cell", "down"),
        ("stem", "pool"),
        ("down", "join"),
        ("pool", "join"),
        ("join", "gate"),
        ("gate", "output"),
        ("input", "output"),
        ("stem", "output"),
        ("stem", "output"),
    ],
)
VECTORS = Topology(
    {
        "input": op("input"),
        "wide": op("linear", features=32, dropout=0.2),
        "gate": op("squeeze_excite"),
        "narrow": op("linear", features=8, activation="gelu", norm=False),
        "output": op("output"),
    },
    [("input", "wide"), ("wide", "gate"), ("gate", "narrow"), ("narrow", "output"), ("wide", "output")],
)

WAVES = chain(op("conv", channels=6, stride=2), op("pool", stride=2), op("squeeze_excite"))


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_parameters_and_shapes_are_those_of_the_plan(
    topologies: Strategies, strided: tuple[Operation | Topology, ...], data: st.DataObject
) -> None:
    topology = data.draw(topologies(operations=strided))
    shape = data.draw(st.sampled_from(SHAPES))
    if is_dead(topology):
        with pytest.raises(TopologyError, match="dead"):
            build(topology, shape, 5)
        return
    network = build(topology, shape, 5).eval()
    assert count(network) == cost(topology, shape, 5).params
    seen: dict[str, torch.Size] = {}
    for name, module in network.get_submodule("nodes").named_children():
        module.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out.shape}))
    with torch.no_grad():
        assert network(torch.randn(2, *shape)).shape == (2, 5)
    shapes = infer(topology, shape)
    assert all(size == (2, *shapes[name]) for name, size in seen.items())


OPERATIONS = [
    *(op("conv", kernel=k, channels=6, stride=s, order=o, norm=n, activation=a)
      for k in (1, 3) for s in (1, 2) for o in ("pre", "post") for n in (True, False) for a in ("none", "tanh")),
    op("conv", channels=8, groups=2, dilation=2),
    op("sepconv", channels=7, dilation=2),
    op("sepconv", channels=7, norm=False, order="pre"),
    op("mbconv", channels=5),
    op("mbconv", expand=1, activation="silu"),
    op("squeeze_excite"),
    op("squeeze_excite", ratio=100),
    op("pool", mode="max", kernel=5, stride=2),
    op("pool", kernel=5, stride=2),
    op("global_pool", mode="max"),
    op("flatten"),
    op("dropout", rate=0.5),
    op("norm"),
    op("activation", fn="gelu"),
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 7), (4, 5, 6, 5)], ids=["2-D", "1-D", "3-D"])
def test_each_operation(operation: Operation, shape: tuple[int, ...]) -> None:
    topology = chain(operation)
    network = build(topology, shape, 3)
    assert count(network) == cost(topology, shape, 3).params
    module = network.get_submodule("nodes.1")
    x = torch.randn(2, *shape, requires_grad=True)
    assert module(x).shape == (2, *infer(topology, shape)["1"])
    network(x).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_every_kind_that_has_a_shape_can_be_built() -> None:
    from detol.graph import build as building
    from detol.graph import cost as costing
    from detol.graph import shapes

    merges = {"input", "output", "identity", "add", "concat"}
    known = set(KINDS) & set(shapes.RULES)
    assert known - {k for k in known if "of_a_test" in k} == (set(costing.RULES) & known)
    assert set(costing.RULES) - merges == set(building.BUILDERS)


@pytest.mark.parametrize("topology", [VECTORS, chain()], ids=["mixed", "empty"])
def test_vectors(topology: Topology) -> None:
    network = build(topology, (11,), 2)
    assert network(torch.randn(4, 11)).shape == (4, 2)
    assert count(network) == cost(topology, (11,), 2).params


def test_kernels_wider_than_the_input() -> None:
    topology = chain(
        op("conv", kernel=9), op("pool", kernel=7, mode="max"), op("pool", kernel=7), op("mbconv", kernel=5)
    )
    assert build(topology, (2, 2, 3), 2)(torch.randn(3, 2, 2, 3)).isfinite().all()


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_the_same_network_and_seed_give_the_same_outputs(
    topologies: Strategies,
    strided: tuple[Operation | Topology, ...],
    shuffled: Callable[[Topology, int], Topology],
    data: st.DataObject,
) -> None:
    topology = data.draw(topologies(operations=strided))
    if is_dead(topology):
        return
    other = shuffled(topology, data.draw(st.integers(0, 1000)))
    outputs = []
    for one in (topology, other):
        torch.manual_seed(4)
        network = build(one, SHAPES[0], 5).eval()
        outputs.append(network(torch.linspace(-1, 1, 3 * 3 * 9 * 8).reshape(3, 3, 9, 8)))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-3, atol=1e-4)


def renamed(key: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        for before, after in ((f"nodes.{old}.", f"nodes.{new}."), (f"projections.{old}_to_", f"projections.{new}_to_")):
            if key.startswith(before):
                return key.replace(before, after, 1)
    return key


def test_weights_go_over_by_the_names_that_match(shuffled: Callable[[Topology, int], Topology]) -> None:
    other = shuffled(MIXED, 3)
    assert digest(other) == digest(MIXED)
    names = matching(MIXED, other)
    assert names is not None
    one, two = build(MIXED, (3, 9, 8), 5), build(other, (3, 9, 8), 5)
    one(torch.randn(8, 3, 9, 8))  # move the running statistics
    two.load_state_dict({renamed(key, dict(names)): value for key, value in one.state_dict().items()})
    x = torch.randn(4, 3, 9, 8)
    torch.testing.assert_close(one.eval()(x), two.eval()(x), rtol=1e-4, atol=1e-5)


def test_the_state_dict_is_readable_and_depends_on_the_topology_alone() -> None:
    keys = list(build(MIXED, (3, 9, 8), 5).state_dict())
    assert "nodes.stem.conv.weight" in keys
    assert "nodes.cell.nodes.1.depthwise.weight" in keys
    assert "nodes.gate.down.bias" in keys
    assert any(key.startswith("projections.stem_to_") and key.endswith("conv.weight") for key in keys)
    assert keys[-2:] == ["head.linear.weight", "head.linear.bias"]
    assert keys == list(build(Topology(MIXED.nodes, MIXED.edges), (3, 9, 8), 7).state_dict())


def test_seeds() -> None:
    def weights(seed: int) -> bytes:
        torch.manual_seed(seed)
        stream = io.BytesIO()
        torch.save(build(MIXED, (3, 9, 8), 5).state_dict(), stream)
        return stream.getvalue()

    assert weights(1) == weights(1) != weights(2)


def test_weights_start_as_he_et_al() -> None:
    torch.manual_seed(0)
    weight = build(chain(op("conv", channels=64), op("conv", channels=64)), (64, 8, 8), 5).state_dict()[
        "nodes.2.conv.weight"
    ]
    assert weight.var().item() == pytest.approx(2 / (64 * 9), rel=0.03)


@pytest.mark.parametrize("name", ["a.b", "keys", "forward", "training", "", "ünï", "a b", "a_b", "1"])
def test_any_name_of_a_node_will_do(name: str) -> None:
    topology = Topology(
        {"input": op("input"), name: op("conv"), "a_b_": op("conv"), "output": op("output")},
        [("input", name), (name, "a_b_"), ("a_b_", "output"), (name, "output"), ("input", "output")],
    )
    network = build(topology, (2, 5), 3)
    assert count(network) == cost(topology, (2, 5), 3).params
    assert network(torch.randn(2, 2, 5)).shape == (2, 3)


def test_a_repeated_edge_counts_twice() -> None:
    torch.manual_seed(0)
    nodes = {"input": op("input"), "output": op("output")}
    once, twice = (build(Topology(nodes, [("input", "output")] * n), (4,), 3) for n in (1, 2))
    twice.load_state_dict(once.state_dict())
    x = torch.randn(5, 4)
    torch.testing.assert_close(twice(x), once(2 * x))


def test_plain_operations_compute_what_was_written() -> None:
    """``plain`` may only change what makes no difference to the module."""
    for written in (
        op("pool", kernel=1, stride=2, mode="max"),
        op("conv", kernel=1, dilation=2),
        op("conv", activation="none", order="pre"),
        op("sepconv", kernel=1, dilation=3, activation="none", order="pre"),
    ):
        from detol.graph.build import BUILDERS

        shape = (3, 6, 6)
        after = infer(chain(written), shape)["1"]
        one = BUILDERS[written.kind](written, shape, after).eval()
        other = BUILDERS[written.kind](plain(written), shape, after).eval()
        other.load_state_dict(one.state_dict())
        x = torch.randn(2, *shape)
        torch.testing.assert_close(one(x), other(x))


def test_a_kind_without_a_module_is_named() -> None:
    from detol.graph.cost import register as register_cost
    from detol.graph.shapes import register as register_shape

    define(Kind("unbuilt_of_a_test"))
    register_shape("unbuilt_of_a_test", lambda _, shape: shape)
    with pytest.raises(TopologyError, match="no cost rule"):
        cost(chain(op("unbuilt_of_a_test")), (3,), 2)
    with pytest.raises(TopologyError, match="'unbuilt_of_a_test' has no module"):
        build(chain(op("unbuilt_of_a_test")), (3,), 2)
    assert register_cost is not None
    with pytest.raises(TopologyError, match="'symbol'"):
        build(chain(op("symbol", name="a", value=1)), (3,), 2)


@pytest.mark.parametrize(
    ("topology", "shape"), [(MIXED, (3, 9, 8)), (WAVES, (2, 33)), (VECTORS, (11,))], ids=["2-D", "1-D", "vectors"]
)
def test_onnx_with_any_batch_size(topology: Topology, shape: tuple[int, ...], tmp_path: Path) -> None:
    network = build(topology, shape, 5).eval()
    file = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        torch.onnx.export(
            network,
            (torch.randn(2, *shape),),
            file,
            dynamo=True,
            verbose=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for batch in (1, 7):
        x = torch.randn(batch, *shape)
        (y,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(y, network(x).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_node_costs_add_up() -> None:
    total, parts = cost(MIXED, (3, 9, 8), 5), node_costs(MIXED, (3, 9, 8), 5)
    for figure in ("params", "multiply_adds", "activation_bytes"):
        assert sum(getattr(part, figure) for part in parts.values()) == getattr(total, figure)
    network = build(MIXED, (3, 9, 8), 5)
    for name in ("stem", "cell", "down", "gate"):
        assert parts[name].params == count(network.get_submodule(f"nodes.{name}"))
    assert parts["head"].params == count(network.get_submodule("head"))
