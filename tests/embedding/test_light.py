"""The light form against the normal form of ``detol.graph.edit``, which is another program."""

from collections import Counter

import numpy as np
import pytest

from detol.embedding.graph_features import graph_features, patterns
from detol.embedding.light import Light, light, name_of
from detol.embedding.size import size
from detol.graph.cost import cost
from detol.graph.edit import normal
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.spaces import catalogue


def described(topology):
    """Multiset of (label, labels and multiplicities of what enters) of the normal form; cells by their own."""
    form = normal(topology)
    if form.dead:
        return None

    def label(node):
        return name_of(node) if isinstance(node, Operation) else str(described(node))

    return sorted(
        (label(node), sorted((label(form.nodes[source]), times) for source, times in form.terms[name]))
        for name, node in form.nodes.items()
    )


def described_light(graph):
    if graph is None:
        return None

    def label(node):
        return str(described_light(node)) if isinstance(node, Light) else name_of(node)

    return sorted(
        (label(node), sorted((label(graph.nodes[source]), times) for source, times in terms))
        for node, terms in zip(graph.nodes, graph.terms, strict=True)
    )


@pytest.mark.parametrize("name", ["nasbench201", "image_cell", "image_dag", "signal", "tabular", "tiny"])
def test_light_form_is_the_normal_form(name):
    space, rng = catalogue.load(name), np.random.default_rng(0)
    for _ in range(60):
        topology = space.decode(space.sample(rng))
        assert described_light(light(topology)) == described(topology)


def test_concatenation_keeps_its_sums_and_a_dead_topology_has_none():
    names = {
        "input": op("input"),
        "a": op("conv"),
        "b": op("conv", kernel=5),
        "cat": op("concat"),
        "output": op("output"),
    }
    edges = [("input", "a"), ("input", "b"), ("a", "s"), ("b", "s"), ("s", "cat"), ("a", "cat"), ("cat", "output")]
    topology = Topology({**names, "s": op("add")}, edges)
    assert described_light(light(topology)) == described(topology)
    assert light(chain(op("zero"))) is None
    assert graph_features(chain(op("zero"))).figures == {"dead": 1.0}


def test_patterns_by_hand():
    # input -> a -> b -> output, and a skip around b: two paths, "a b" and "a".
    labels, terms = ("input", "a", "b", "output"), ((), ((0, 1),), ((1, 1),), ((1, 1), (2, 1)))
    counts = patterns(labels, terms)
    assert {name: n for name, n in counts.items() if not name.startswith("tree")} == {
        "op:a": 1,
        "op:b": 1,
        "pair:input>a": 1,
        "pair:a>b": 1,
        "pair:a>output": 1,
        "pair:b>output": 1,
        "path:>a": 1,
        "path:>a>b": 1,
    }
    assert Counter(name.split(":")[0] for name in counts.elements()) == {
        "op": 2,
        "pair": 4,
        "path": 2,
        "tree1": 3,
        "tree2": 3,
    }


def test_equal_networks_have_equal_features():
    plain = chain(op("conv"), op("conv", kernel=1))
    long_way = chain(op("identity"), op("conv"), op("identity"), op("conv", kernel=1))
    other = chain(op("conv", kernel=1), op("conv"))
    assert np.array_equal(graph_features(plain).patterns, graph_features(long_way).patterns)
    assert graph_features(plain).figures == graph_features(long_way).figures
    assert not np.array_equal(graph_features(plain).patterns, graph_features(other).patterns)


def test_many_paths_are_no_features():
    layer = [op("conv", kernel=k) for k in (1, 3, 5)]
    nodes, edges = {"input": op("input"), "output": op("output")}, []
    before = ["input"]
    for depth in range(6):  # 3^6 = 729 different paths
        here = [f"{depth}_{k}" for k in range(3)]
        nodes.update(dict(zip(here, layer, strict=True)))
        edges += [(source, target) for source in before for target in here]
        before = here
    edges += [(source, "output") for source in before]
    graph = light(Topology(nodes, edges))
    assert graph is not None
    assert not any(name.startswith("path:") for name in patterns(graph.labels, graph.terms))
    assert graph_features(Topology(nodes, edges)).figures["log_paths"] == pytest.approx(6 * np.log(3))


@pytest.mark.parametrize("name", ["nasbench201", "image_cell", "image_dag"])
def test_sizes_rank_as_exact_costs_do(name):
    space, rng, pairs = catalogue.load(name), np.random.default_rng(1), []
    while len(pairs) < 40:
        topology = space.decode(space.sample(rng))
        if light(topology) is not None:
            exact, found = cost(topology, (3, 32, 32), 10), size(topology, (3, 32, 32))
            assert found is not None
            pairs.append((exact.params, found[0], exact.multiply_adds, found[1]))
    ranks = np.argsort(np.argsort(np.asarray(pairs), axis=0), axis=0)
    assert np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1] > 0.9
    assert np.corrcoef(ranks[:, 2], ranks[:, 3])[0, 1] > 0.9


def test_symbols_have_no_size():
    assert size(chain(op("symbol", name="layer", value="conv")), (3, 32, 32)) is None
    assert "log_params" not in graph_features(chain(op("symbol", name="layer", value="conv"))).figures
