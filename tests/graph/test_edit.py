"""Normalisation against an interpreter that evaluates the topology as it is written."""

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import TopologyError
from detol.graph.edit import MOST_EDGES, is_dead, normal, normalise, plain
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain

IN, OUT = {"input": op("input")}, {"output": op("output")}


def value(topology: Topology, x: float) -> float | None:
    """Evaluate on a number: each operation some function that its text names, None for what is dead."""
    values: dict[str, float | None] = {topology.input: x}
    for name in topology.order:
        if name == topology.input:
            continue
        parts = [v for v in (values[source] for source in topology.sources[name]) if v is not None]
        values[name] = node_value(topology.nodes[name], parts) if parts else None
    return values[topology.output]


def node_value(node: Operation | Topology, parts: list[float]) -> float | None:
    total = sum(parts)
    if isinstance(node, Topology):
        return value(node, total)
    if node.kind in ("identity", "add", "output"):
        return total
    if node.kind == "zero":
        return None
    if node.kind == "concat":
        return math.sin(sum(part * (1.7 + slot) for slot, part in enumerate(parts))) if len(parts) > 1 else total
    seed = sum(ord(letter) * (3 + number) for number, letter in enumerate(str(node)))
    return math.sin(seed % 7 + total * (1 + seed % 5))


@given(data=st.data())
@settings(deadline=None)
def test_normal_form_computes_the_same(
    topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    topology = data.draw(topologies())
    before, after = value(topology, 0.3), value(normalise(topology), 0.3)
    if before is None:
        assert is_dead(topology)
        assert after is None
        assert set(normalise(topology).nodes) == {"input", "output"}
    else:
        assert not is_dead(topology)
        assert after == pytest.approx(before, abs=1e-9)


@given(data=st.data())
@settings(deadline=None)
def test_normalise_is_idempotent_and_leaves_nothing_to_drop(
    topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    once = normalise(data.draw(topologies()))
    fresh = Topology(once.nodes, once.edges)  # without the caches
    assert normalise(fresh) == once
    assert list(normalise(fresh).nodes) == list(once.nodes)
    if not is_dead(once):
        assert once.live == set(once.nodes)
    kinds = {node.kind for node in once.nodes.values() if isinstance(node, Operation)}
    assert not kinds & {"zero", "identity"}
    for name, node in once.nodes.items():
        if isinstance(node, Operation) and node.kind == "add":
            assert all(once.nodes[user] == op("concat") for user in once.graph.successors(name))


def edges(topology: Topology) -> list[tuple[str, str]]:
    return sorted(normalise(topology).edges)


def test_sums_are_flattened_and_multiplicities_multiply() -> None:
    topology = Topology(
        IN | {"a": op("add"), "b": op("identity"), "conv": op("conv")} | OUT,
        [("input", "a"), ("input", "a"), ("a", "b"), ("a", "b"), ("b", "conv"), ("conv", "output"), ("b", "output")],
    )
    assert edges(topology) == sorted([("input", "conv")] * 4 + [("conv", "output")] + [("input", "output")] * 4)


def test_an_identity_into_a_concat_goes_and_a_sum_stays_once() -> None:
    ends = [("one", "c"), ("t", "c"), ("c", "output"), ("s", "output")]
    topology = Topology(
        IN | {"one": op("identity"), "x": op("conv"), "s": op("identity"), "t": op("add"), "c": op("concat")} | OUT,
        [("input", "one"), ("input", "x"), ("input", "s"), ("x", "s"), ("x", "t"), ("input", "t"), ("s", "c"), *ends],
    )
    found = normalise(topology)
    assert set(found.nodes) == {"input", "x", "s", "c", "output"}
    assert found.nodes["s"] == op("add")
    assert found.sources["c"] == ("s", "input", "s")
    assert sorted(found.sources["output"]) == ["c", "input", "x"]


def test_a_concat_loses_dead_parts_and_of_one_part_is_no_concat() -> None:
    topology = Topology(
        IN | {"z": op("zero"), "x": op("conv"), "c": op("concat")} | OUT,
        [("input", "z"), ("input", "x"), ("z", "c"), ("x", "c"), ("c", "output")],
    )
    assert edges(topology) == [("input", "x"), ("x", "output")]


def test_trivial_cells() -> None:
    dead, single, twice = chain(op("zero")), chain(op("identity")), chain(Topology(IN | OUT, [("input", "output")] * 2))
    assert is_dead(chain(dead, op("conv")))
    assert edges(chain(single, op("conv"))) == [("2", "output"), ("input", "2")]
    assert "1" in normalise(twice).nodes, "a cell that doubles is none"
    nested = normalise(chain(chain(op("conv"), op("identity"))))
    assert nested.nodes["1"] == normalise(chain(op("conv")))


def test_what_was_contracted_is_known() -> None:
    topology = Topology(
        IN | {"a": op("add"), "x": op("conv")} | OUT, [("input", "a"), ("input", "a"), ("a", "x"), ("x", "output")]
    )
    assert normal(topology).contracted == {"a": {"input": 2}}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (op("pool", kernel=1), op("identity")),
        (op("pool", kernel=1, stride=2, mode="max"), op("pool", kernel=1, stride=2)),
        (op("dropout"), op("identity")),
        (op("dropout", rate=0), op("identity")),
        (op("activation", fn="none"), op("identity")),
        (op("conv", kernel=1, dilation=2), op("conv", kernel=1)),
        (op("conv", activation="none", order="pre"), op("conv", activation="none")),
        (op("sepconv", kernel=1, dilation=3), op("sepconv", kernel=1)),
        (op("conv", order="pre"), op("conv", order="pre")),
        (op("conv", kernel=1, stride=2), op("conv", kernel=1, stride=2)),
        (op("pool"), op("pool")),
        (op("dropout", rate=0.1), op("dropout", rate=0.1)),
        (op("activation"), op("activation")),
    ],
    ids=str,
)
def test_operations_that_compute_the_same_are_written_the_same(written: Operation, meant: Operation) -> None:
    assert plain(written) == meant


def test_explosion_of_multiplicities_is_refused() -> None:
    nodes: dict[str, Operation | Topology] = {**IN}
    links: list[tuple[str, str]] = []
    last = "input"
    for number in range(40):
        nodes[f"a{number}"] = op("add")
        links += [(last, f"a{number}")] * 2
        last = f"a{number}"
    with pytest.raises(TopologyError, match=f"{MOST_EDGES:,}"):
        normalise(Topology(nodes | OUT, [*links, (last, "output")]))


def test_deep_chains_need_no_recursion() -> None:
    assert len(normalise(chain(*[op("conv")] * 3000)).nodes) == 3002


def test_names_of_nodes_that_stay_are_kept() -> None:
    nodes: Mapping[str, Operation | Topology] = IN | {"stem": op("conv"), "skip": op("identity")} | OUT
    topology = Topology(nodes, [("input", "stem"), ("stem", "skip"), ("skip", "output"), ("stem", "output")])
    assert list(normalise(topology).nodes) == ["input", "stem", "output"]
    assert edges(topology) == [("input", "stem"), ("stem", "output"), ("stem", "output")]
