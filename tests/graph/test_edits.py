"""Edits of graphs: always a valid, living, other network; names that stay carry the same operation."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import TopologyError
from detol.graph import edits
from detol.graph.digest import digest
from detol.graph.edit import is_dead
from detol.graph.edits import Edit
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain

CHOICES: list[Operation | Topology] = [op("conv"), op("pool"), op("conv", kernel=5), chain(op("conv"), op("pool"))]
EDITS: dict[str, Callable[..., Edit]] = {
    "insert": lambda t, rng, **k: edits.insert(t, rng, CHOICES, **k),
    "remove": edits.remove,
    "rewire": edits.rewire,
    "swap": lambda t, rng, **k: edits.swap(t, rng, CHOICES, **k),
    "connect": edits.connect,
    "disconnect": edits.disconnect,
}


@pytest.mark.parametrize("name", EDITS)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_the_result_is_another_living_network(
    name: str, topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    topology = data.draw(topologies())
    seed = data.draw(st.integers(0, 1 << 30))
    before = (dict(topology.nodes), topology.edges)
    try:
        edit = EDITS[name](topology, np.random.default_rng(seed))
    except TopologyError:
        return  # there is nothing to change; the message has a test of its own
    result = edit.topology
    assert (dict(topology.nodes), topology.edges) == before
    assert edit.name == name
    assert not is_dead(result)
    assert result.live == set(result.nodes)
    assert digest(result) != digest(topology)
    for old, new in edit.kept.items():
        assert result.nodes[new] == topology.nodes[old]
    for new in result.nodes.keys() - edit.touched:
        assert sorted(result.sources[new]) == sorted(topology.sources[new])
    again = EDITS[name](topology, np.random.default_rng(seed))
    assert again.topology == result


class Scripted:
    """A generator that leaves everything in its order, so that the first edit is known."""

    def permutation(self, count: int) -> Iterator[int]:
        return iter(range(count))


def names(topology: Topology) -> Sequence[tuple[str, str]]:
    return sorted(topology.edges)


DIAMOND = Topology(
    {"input": op("input"), "a": op("conv"), "b": op("conv", kernel=5), "c": op("concat"), "output": op("output")},
    [("input", "a"), ("input", "b"), ("a", "c"), ("b", "c"), ("c", "output")],
)
FIRST: Any = Scripted()


def test_insert_on_an_edge_into_a_concat_keeps_the_place() -> None:
    edit = edits.insert(DIAMOND, FIRST, [op("pool")], accept=lambda t: "c" in t.graph.successors("n5"))
    assert edit.topology.sources["c"] == ("n5", "b")
    assert edit.topology.sources["n5"] == ("a",)
    assert edit.touched == {"n5", "c"}
    assert edits.describe(edit) == "insert n5: pool"


def test_insert_beside_an_edge_keeps_the_edge() -> None:
    edit = edits.insert(chain(op("conv")), FIRST, [op("pool")], accept=lambda t: len(t.edges) == 4)
    assert names(edit.topology) == [("1", "output"), ("input", "1"), ("input", "n3"), ("n3", "1")]


def test_remove_joins_what_it_parts() -> None:
    edit = edits.remove(DIAMOND, FIRST)
    assert edit.topology.sources["c"] == ("input", "b")
    assert edit.kept == {"input": "input", "b": "b", "c": "c", "output": "output"}
    skip = Topology(chain(op("conv")).nodes, [*chain(op("conv")).edges, ("input", "output")])
    assert names(edits.remove(skip, FIRST).topology) == [("input", "output")], "no doubled edge"


def test_rewire_keeps_the_place_in_a_concat_and_makes_no_cycle() -> None:
    edit = edits.rewire(DIAMOND, FIRST, accept=lambda t: "b" in t.nodes and t.sources["c"][0] == "input")
    assert edit.topology.sources["c"] == ("input", "b")
    assert "a" not in edit.topology.nodes, "left on no path"


def test_swap_changes_one_operation() -> None:
    edit = edits.swap(DIAMOND, FIRST, [op("conv"), op("pool")])
    assert edit.topology.nodes["a"] == op("pool")
    assert "a" not in edit.kept
    assert edit.touched == {"a"}


def test_nothing_to_change_is_an_error() -> None:
    with pytest.raises(TopologyError, match="remove finds nothing to change"):
        edits.remove(chain(), FIRST)
    with pytest.raises(TopologyError, match="disconnect finds nothing"):
        edits.disconnect(chain(op("conv")), FIRST)
    with pytest.raises(TopologyError, match="swap finds nothing"):
        edits.swap(DIAMOND, FIRST, CHOICES, accept=lambda _: False)


def test_all_of_a_small_neighbourhood_is_reached() -> None:
    """Swapping two nodes among three operations has four results; 60 draws find them all."""
    operations: list[Operation | Topology] = [op("conv"), op("pool"), op("norm")]
    start = chain(op("conv"), op("pool"))
    rng = np.random.default_rng(0)
    assert len({digest(edits.swap(start, rng, operations).topology) for _ in range(60)}) == 4
