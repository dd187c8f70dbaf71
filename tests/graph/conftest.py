"""Random topologies for the tests of the graph, and rewritings of them that leave the network the same."""

import random
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain

CELL = Topology(
    {"input": op("input"), "a": op("conv"), "b": op("sepconv"), "output": op("output")},
    [("input", "a"), ("a", "b"), ("b", "output"), ("input", "output")],
)
OPERATIONS: tuple[Operation | Topology, ...] = (
    op("conv"),
    op("conv", kernel=1),
    op("pool"),
    op("zero"),
    op("identity"),
    op("add"),
    op("concat"),
    CELL,
    chain(op("identity")),
    chain(op("zero")),
)
STRIDED = (op("conv", channels=4, stride=2), op("pool", mode="max", stride=2), op("squeeze_excite"), op("mbconv"))


@st.composite
def _topologies(draw: st.DrawFn, most: int = 7, operations: tuple[Operation | Topology, ...] = OPERATIONS) -> Topology:
    names = ["input"]
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    for number in range(draw(st.integers(0, most))):
        name = f"n{number}"
        nodes[name] = draw(st.sampled_from(operations))
        edges += [(source, name) for source in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))]
        names.append(name)
    nodes["output"] = op("output")
    edges += [(source, "output") for source in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))]
    return Topology(nodes, edges)


def _shuffled(topology: Topology, seed: int) -> Topology:
    """Rename and reorder all nodes and reorder all edges, but the order of those into one concat."""
    rng = random.Random(seed)
    names = list(topology.nodes)
    renamed = dict(zip(names, rng.sample([f"m{number}" for number in range(len(names))], len(names)), strict=True))
    edges = list(topology.edges)
    rng.shuffle(edges)
    for name, node in topology.nodes.items():
        if isinstance(node, Operation) and node.kind == "concat":
            places = [number for number, edge in enumerate(edges) if edge[1] == name]
            for place, source in zip(places, topology.sources[name], strict=True):
                edges[place] = (source, name)
    return Topology(
        {renamed[name]: topology.nodes[name] for name in rng.sample(names, len(names))},
        [(renamed[source], renamed[target]) for source, target in edges],
    )


@pytest.fixture(scope="session")
def topologies() -> Callable[..., st.SearchStrategy[Topology]]:
    """A maker of strategies for topologies: dead, with cells, repeated edges, zeros; ``most`` inner nodes."""
    return _topologies


@pytest.fixture(scope="session")
def strided() -> tuple[Operation | Topology, ...]:
    """Operations that bring tensors of different shapes together."""
    return (*OPERATIONS, *STRIDED)


@pytest.fixture(scope="session")
def shuffled() -> Callable[[Topology, int], Topology]:
    """A function that writes the same network in another way: other names, other orders."""
    return _shuffled


@pytest.fixture(scope="session")
def nasbench201() -> Callable[..., Topology]:
    """A function from six operations to a cell of NAS-Bench-201 (edges 0-1, 0-2, 1-2, 0-3, 1-3, 2-3)."""
    places = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    tensors = ("input", "add1", "add2", "output")

    def make(*operations: Operation) -> Topology:
        nodes: dict[str, Operation | Topology] = {"input": op("input"), "add1": op("add"), "add2": op("add")}
        edges = []
        for (a, b), operation in zip(places, operations, strict=True):
            nodes[f"{a}-{b}"] = operation
            edges += [(tensors[a], f"{a}-{b}"), (f"{a}-{b}", tensors[b])]
        return Topology(nodes | {"output": op("output")}, edges)

    return make
