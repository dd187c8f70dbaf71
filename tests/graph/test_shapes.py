"""Shape rules by closed forms, and messages that name node, shape, rule and remedy."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.errors import ShapeError, TopologyError
from detol.graph.ops import Kind, Operation, define, op
from detol.graph.shapes import infer, register
from detol.graph.topology import Topology, chain


def out(operation: Operation, shape: tuple[int, ...]) -> tuple[int, ...]:
    return infer(chain(operation), shape)["output"]


@given(
    size=st.integers(1, 40), kernel=st.sampled_from([1, 3, 5, 7]), stride=st.integers(1, 5), dilation=st.integers(1, 3)
)
def test_same_padding_gives_the_size_over_the_stride_rounded_up(
    size: int, kernel: int, stride: int, dilation: int
) -> None:
    pad = dilation * (kernel - 1) // 2
    formula = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1  # as torch computes it
    assert out(op("conv", kernel=kernel, stride=stride, dilation=dilation), (3, size)) == (3, formula)
    assert formula == -(-size // stride)


@pytest.mark.parametrize(
    ("operation", "shape", "expected"),
    [
        (op("conv", channels=8, stride=2), (3, 7, 8), (8, 4, 4)),
        (op("sepconv", channels=8), (3, 7), (8, 7)),
        (op("mbconv", stride=3), (6, 9, 9), (6, 3, 3)),
        (op("pool", stride=2), (5, 9, 3), (5, 5, 2)),
        (op("global_pool"), (5, 9, 3), (5,)),
        (op("flatten"), (5, 9, 3), (135,)),
        (op("flatten"), (5,), (5,)),
        (op("linear", features=7), (5,), (7,)),
        (op("linear"), (5,), (5,)),
        (op("squeeze_excite"), (5,), (5,)),
        (op("norm"), (5, 4), (5, 4)),
        (op("dropout", rate=0.5), (5, 4), (5, 4)),
        (op("activation"), (5, 4), (5, 4)),
        (op("conv", kernel=31), (1, 2, 2), (1, 2, 2)),
    ],
    ids=str,
)
def test_shape_that_leaves(operation: Operation, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert out(operation, shape) == expected


def meeting(kind: str, *operations: Operation) -> Topology:
    nodes: dict[str, Operation | Topology] = {"input": op("input"), "m": op(kind), "output": op("output")}
    edges = [("m", "output")]
    for number, operation in enumerate(operations):
        nodes[f"p{number}"] = operation
        edges += [("input", f"p{number}"), (f"p{number}", "m")]
    return Topology(nodes, edges)


PARTS = (op("conv", channels=4, stride=2), op("conv", channels=9), op("pool", stride=3))


def test_a_sum_has_most_channels_and_smallest_size() -> None:
    found = infer(meeting("add", *PARTS), (3, 12, 11))
    assert found["p0"] == (4, 6, 6)
    assert found["output"] == (9, 4, 4)
    assert found["m"] == (9, 4, 4), "contracted, but its shape is known"


def test_a_concat_adds_channels_and_has_the_smallest_size() -> None:
    assert infer(meeting("concat", *PARTS), (3, 12, 11))["output"] == (16, 4, 4)


def test_where_a_vector_enters_all_become_vectors() -> None:
    assert infer(meeting("add", op("global_pool"), op("conv", channels=8)), (3, 12, 11))["output"] == (8,)
    assert infer(meeting("concat", op("global_pool"), op("conv", channels=8)), (3, 12))["output"] == (11,)


def test_cells_take_the_shape_that_enters() -> None:
    cell = chain(op("conv", stride=2))
    assert infer(chain(cell, cell), (3, 10, 10))["2"] == (3, 3, 3)


@pytest.mark.parametrize(
    ("operation", "shape", "message"),
    [
        (
            op("linear", features=9),
            (3, 8, 8),
            "node '1' got (3, 8, 8): linear(features=9) needs a feature vector (F,): put flatten or global_pool before",
        ),
        (op("conv"), (3,), "node '1' got (3,): conv needs an input with axes, (C, H, W) or (C, L): use linear"),
        (op("conv", groups=2), (3, 8), "groups that divide the channels in (3) and out (3)"),
        (op("conv", groups=3, channels=4), (3, 8), "in (3) and out (4): change groups or channels"),
        (op("pool"), (3, 2, 4, 4), "a volume at least as wide as its kernel"),
        (op("pool"), (3,), "pool needs an input with axes"),
        (op("global_pool"), (3,), "a vector has nothing to pool"),
    ],
    ids=str,
)
def test_what_does_not_fit_gets_one_clear_line(operation: Operation, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        infer(chain(operation), shape)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_node_inside_a_cell_is_named_with_its_cell() -> None:
    with pytest.raises(ShapeError, match=r"node '2' got \(3,\): node '1' got \(3,\): conv needs"):
        infer(chain(op("global_pool"), chain(op("conv"))), (3, 8, 8))


@pytest.mark.parametrize("shape", [(), (0, 3), (3, -1), (1, 1, 1, 1, 1), (2.5, 3)])
def test_shapes_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="a sample has shape"):
        infer(chain(), shape)


def test_dead_topologies_and_symbols_have_no_shapes() -> None:
    with pytest.raises(TopologyError, match="no path leads from the input"):
        infer(chain(op("zero")), (3, 8))
    with pytest.raises(TopologyError, match="'symbol' has no shape rule"):
        infer(chain(op("symbol", name="a", value=1)), (3, 8))


def test_a_kind_of_the_user() -> None:
    define(Kind("halve_channels_of_a_test"))
    halve: Callable[[Operation, tuple[int, ...]], tuple[int, ...]] = lambda _, shape: (shape[0] // 2, *shape[1:])  # noqa: E731
    register("halve_channels_of_a_test", halve)
    assert out(op("halve_channels_of_a_test"), (8, 3)) == (4, 3)
