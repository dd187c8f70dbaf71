"""The digest against brute force, networkx, and pairs that weaker identities confuse."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.digest import canonical_order, digest, matching, same
from detol.graph.edit import normalise
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain

CELL_OPERATIONS = {
    "none": op("zero"),
    "skip": op("identity"),
    "c1": op("conv", kernel=1),
    "c3": op("conv"),
    "pool": op("pool"),
}
Strategies = Callable[..., st.SearchStrategy[Topology]]


def brute_force(names: Sequence[str]) -> Any:
    """Return the least form of a NAS-Bench-201 cell over all orders of its operations; shares no code with detol."""
    sums: dict[int, Counter[str]] = {0: Counter({"in": 1})}
    nodes: dict[str, tuple[str, Counter[str]]] = {}
    places = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    for v in (1, 2, 3):
        sums[v] = Counter()
        for (a, b), name in zip(places, names, strict=True):
            if b != v or name == "none" or not sums[a]:
                continue
            if name == "skip":
                sums[v].update(sums[a])
            else:
                nodes[f"{a}{b}"] = (name, sums[a])
                sums[v][f"{a}{b}"] += 1
    live: set[str] = set()
    waiting = list(sums[3])
    while waiting:
        n = waiting.pop()
        if n != "in" and n not in live:
            live.add(n)
            waiting += nodes[n][1]
    groups: dict[str, list[str]] = defaultdict(list)
    for n in sorted(live):
        groups[nodes[n][0]].append(n)
    forms = []
    for permutation in itertools.product(*(itertools.permutations(groups[name]) for name in sorted(groups))):
        order = [n for group in permutation for n in group]
        place = {n: number for number, n in enumerate(order)} | {"in": -1}
        entering = [nodes[n][1] for n in order] + [sums[3]]
        forms.append(
            (
                tuple(nodes[n][0] for n in order),
                tuple(tuple(sorted((place[m], c) for m, c in e.items())) for e in entering),
            )
        )
    return min(forms)


def test_nasbench201_has_5425_classes(nasbench201: Callable[..., Topology]) -> None:
    """Each class of the digest is a class of brute force and vice versa; 341 of the 15,625 cells are dead."""
    found: Counter[str] = Counter()
    pairs = set()
    for names in itertools.product(CELL_OPERATIONS, repeat=6):
        identity = digest(nasbench201(*(CELL_OPERATIONS[name] for name in names)))
        found[identity] += 1
        pairs.add((identity, brute_force(names)))
    assert sum(found.values()) == 15_625
    assert len(found) == len(pairs) == len({form for _, form in pairs}) == 5_425
    assert found[digest(nasbench201(*[op("zero")] * 6))] == 341


def bipartite(*cycles: int) -> Topology:
    """Two layers of convolutions; a_i feeds b_i and the next b on its cycle: undirected, cycles of these lengths."""
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    start = 0
    for length in cycles:
        for i in range(length):
            a, b, c = f"a{start + i}", f"b{start + i}", f"b{start + (i + 1) % length}"
            nodes |= {a: op("conv"), b: op("conv")}
            edges += [("input", a), (a, b), (a, c), (b, "output")]
        start += length
    return Topology(nodes | {"output": op("output")}, edges)


def parallel(branches: int, length: int) -> Topology:
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    for branch in range(branches):
        names = [f"{branch}.{number}" for number in range(length)]
        nodes |= dict.fromkeys(names, op("conv"))
        edges += itertools.pairwise(["input", *names, "output"])
    return Topology(nodes | {"output": op("output")}, edges)


def dense(width: int, layers: int) -> Topology:
    """Each node of a layer feeds all of the next."""
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    last = ["input"]
    for layer in range(layers):
        names = [f"{layer}.{number}" for number in range(width)]
        nodes |= dict.fromkeys(names, op("conv"))
        edges += itertools.product(last, names)
        last = names
    return Topology(nodes | {"output": op("output")}, [*edges, *((name, "output") for name in last)])


def concat(*parts: str) -> Topology:
    nodes = {
        "input": op("input"),
        "a": op("conv"),
        "b": op("conv", kernel=5),
        "c": op("concat"),
        "output": op("output"),
    }
    return Topology(nodes, [("input", "a"), ("input", "b"), *((p, "c") for p in parts), ("c", "output")])


def plain_sum(times: int) -> Topology:
    return Topology({"input": op("input"), "output": op("output")}, [("input", "output")] * times)


C1, C3, C5 = op("conv", kernel=1), op("conv"), op("conv", kernel=5)
TWO_PATHS = Topology(  # input -> a -> c -> output, input -> b -> d -> output, and a -> d: same degrees as with b -> c
    {"input": op("input"), "a": C1, "b": C3, "c": C5, "d": C5, "output": op("output")},
    [("input", "a"), ("input", "b"), ("a", "c"), ("b", "d"), ("a", "d"), ("c", "output"), ("d", "output")],
)
TWO_PATHS_CROSSED = Topology(TWO_PATHS.nodes, [edge if edge != ("a", "d") else ("b", "c") for edge in TWO_PATHS.edges])
APART = {
    "chain and star": (chain(C3, C3, C3), parallel(3, 1)),
    "two 6-cycles and a 12-cycle": (bipartite(3, 3), bipartite(6)),
    "two 12-cycles and a 24-cycle": (bipartite(6, 6), bipartite(12)),
    "another split of cycles": (bipartite(3, 5), bipartite(4, 4)),
    "operations in another order": (chain(C1, C3, C5), chain(C5, C3, C1)),
    "x + x and x": (plain_sum(2), plain_sum(1)),
    "x + x + x and x + x": (plain_sum(3), plain_sum(2)),
    "two convolutions and one twice": (parallel(2, 1), Topology(chain(C3).nodes, [*chain(C3).edges, ("1", "output")])),
    "two pools and one twice": (
        Topology(
            {"input": op("input"), "1": op("pool"), "2": op("pool"), "output": op("output")},
            [("input", "1"), ("input", "2"), ("1", "output"), ("2", "output")],
        ),
        Topology(chain(op("pool")).nodes, [*chain(op("pool")).edges, ("1", "output")]),
    ),
    "concat in another order": (concat("a", "b"), concat("b", "a")),
    "concat of a, b, a and a, a, b": (concat("a", "b", "a"), concat("a", "a", "b")),
    "concat and sum": (concat("a", "b"), Topology({**concat("a", "b").nodes, "c": op("add")}, concat("a", "b").edges)),
    "one edge crossed": (TWO_PATHS, TWO_PATHS_CROSSED),
    "a cell and the same inlined": (chain(chain(C3, C3)), chain(C3, C3)),
    "cells that differ inside": (chain(chain(C3, C1)), chain(chain(C1, C3))),
    "cells in another order": (chain(chain(C3, C1), chain(C1, C3)), chain(chain(C1, C3), chain(C3, C1))),
    "stride": (chain(op("conv", stride=2)), chain(op("conv"))),
    "true and 1": (chain(op("symbol", name="a", value=True)), chain(op("symbol", name="a", value=1))),
    "1 and '1'": (chain(op("symbol", name="a", value=1)), chain(op("symbol", name="a", value="1"))),
    "dead and empty": (chain(op("zero")), plain_sum(1)),
}


@pytest.mark.parametrize(("one", "other"), APART.values(), ids=APART)
def test_different_networks_stay_apart(one: Topology, other: Topology) -> None:
    assert digest(one) != digest(other)
    assert not same(one, other)


def split_add(topology: Topology) -> Topology:
    """Put an identity on every edge and a dead branch behind the input."""
    nodes = dict(topology.nodes) | {"dead": op("conv"), "zero": op("zero"), "loose": op("conv")}
    edges = [("input", "zero"), ("zero", "dead"), ("dead", "output"), ("input", "loose")]
    for number, (source, target) in enumerate(topology.edges):
        nodes[f"id{number}"] = op("identity")
        edges += [(source, f"id{number}"), (f"id{number}", target)]
    return Topology(nodes, edges)


@given(data=st.data())
@settings(deadline=None)
def test_names_and_orders_do_not_count(
    topologies: Strategies, shuffled: Callable[[Topology, int], Topology], data: st.DataObject
) -> None:
    topology = data.draw(topologies())
    other = shuffled(topology, data.draw(st.integers(0, 1 << 30)))
    assert digest(other) == digest(topology)
    assert same(other, topology)


@given(data=st.data())
@settings(deadline=None)
def test_rewriting_does_not_count(topologies: Strategies, data: st.DataObject) -> None:
    topology = data.draw(topologies())
    rewritten = split_add(topology)
    assert digest(rewritten) == digest(topology) == digest(normalise(topology))
    assert same(rewritten, topology)


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_digest_and_networkx_agree(topologies: Strategies, data: st.DataObject) -> None:
    few = (op("conv"), op("conv"), op("concat"), op("identity"))
    one, other = data.draw(topologies(4, few)), data.draw(topologies(4, few))
    assert (digest(one) == digest(other)) == same(one, other)


@given(data=st.data())
@settings(deadline=None)
def test_canonical_orders_are_isomorphisms(
    topologies: Strategies, shuffled: Callable[[Topology, int], Topology], data: st.DataObject
) -> None:
    topology = normalise(data.draw(topologies()))
    other = shuffled(topology, 1)
    there = dict(zip(canonical_order(topology), canonical_order(other), strict=True))
    assert all(topology.nodes[name] == other.nodes[image] for name, image in there.items())
    assert Counter((there[a], there[b]) for a, b in topology.edges) == Counter(other.edges)
    place = {name: number for number, name in enumerate(canonical_order(topology))}
    assert all(place[a] < place[b] for a, b in topology.edges)


def test_matching_maps_one_network_to_the_other(shuffled: Callable[[Topology, int], Topology]) -> None:
    other = shuffled(TWO_PATHS, 5)
    there = matching(TWO_PATHS, other)
    assert there is not None
    assert {(there[a], there[b]) for a, b in TWO_PATHS.edges} == set(other.edges)
    assert matching(TWO_PATHS, TWO_PATHS_CROSSED) is None


@pytest.mark.parametrize(
    "topology",
    [
        parallel(12, 1),
        parallel(12, 3),
        parallel(60, 2),
        dense(10, 4),
        bipartite(20),
        bipartite(*[3] * 8),
        chain(*[parallel(6, 2)] * 20),
    ],
    ids=["twins", "branches", "many branches", "dense layers", "a ring", "many rings", "cells"],
)
def test_symmetric_networks_do_not_explode(topology: Topology, shuffled: Callable[[Topology, int], Topology]) -> None:
    assert digest(shuffled(topology, 3)) == digest(topology)


def test_incidence_of_a_projective_plane() -> None:
    """Points and lines of the plane of order 3: 13 + 13 nodes with 5,616 automorphisms; refinement sees nothing."""
    lines = [sorted((start + offset) % 13 for offset in (0, 1, 3, 9)) for start in range(13)]

    def plane(relabel: Callable[[int], int]) -> Topology:
        nodes: dict[str, Operation | Topology] = {"input": op("input")}
        edges = []
        for number in range(13):
            nodes |= {f"p{number}": op("conv"), f"l{number}": op("conv")}
            edges += [("input", f"p{number}"), (f"l{number}", "output")]
        for number, line in enumerate(lines):
            edges += [(f"p{relabel(point)}", f"l{(number * 5 + 2) % 13}") for point in line]
        return Topology(nodes | {"output": op("output")}, edges)

    assert digest(plane(lambda point: point)) == digest(plane(lambda point: (point * 4 + 7) % 13))


@pytest.mark.parametrize(
    ("topology", "pinned"),
    [
        (chain(), "d1:a7cacb012ab4baafdcafbe5d1fd4c13f8c5366c8"),
        (chain(op("zero")), "d1:eb557ac7e458758ca0f0dfa4c15e91535350a2a8"),
        (chain(op("conv"), op("pool")), "d1:f502e5c1d1a66cc5ea630dff10fcceea4fbb7b11"),
        (bipartite(3, 3), "d1:c4254c37e052da2b296fa622976d7a858af2ff15"),
        (chain(chain(op("conv")), op("linear")), "d1:1fc671041ac0e003f17de388098a2b1a21d46c4a"),
    ],
)
def test_digests_of_version_1_never_change(topology: Topology, pinned: str) -> None:
    """They are keys of databases. If this fails, old results are lost: raise ``digest.VERSION`` instead."""
    assert digest(topology) == pinned
