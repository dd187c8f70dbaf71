"""Path statistics against paths that networkx lists, and by hand."""

import networkx as nx
import numpy as np
import pytest

from detol.embedding.features import LENGTH, features, table, vector
from detol.embedding.light import light
from detol.embedding.paths import POOLED, path_statistics
from detol.graph.digest import digest
from detol.graph.edit import normalise
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.spaces import catalogue

POOL, CONV1, CONV3 = op("pool", kernel=3), op("conv", kernel=1), op("conv", kernel=3)


def listed(topology, belongs):
    """Counts of nodes that belong, on each path that networkx lists in the normal form (multi-edges listed apart)."""
    form = normalise(topology)
    paths = nx.all_simple_edge_paths(form.graph, form.input, form.output)
    return np.array([sum(belongs(form.nodes[node]) for _, node, _ in path) for path in paths])


def kind(*kinds):
    return lambda node: isinstance(node, Operation) and node.kind in kinds


@pytest.mark.parametrize("seed", range(12))
def test_counts_agree_with_listed_paths(seed):
    space = catalogue.load("image_dag")
    topology = space.decode(space.sample(np.random.default_rng(seed)))
    found = path_statistics(light(topology))
    weighted = kind("conv", "sepconv", "mbconv")
    for group, belongs in (("conv", kind("conv")), ("weighted", weighted), ("pool", kind("pool"))):
        counts = listed(topology, belongs)
        if f"path_least:{group}" not in found:
            assert not counts.any()
            continue
        assert found[f"path_least:{group}"] == counts.min()
        assert found[f"path_most:{group}"] == counts.max()
        assert found[f"path_mean:{group}"] == pytest.approx(counts.mean())
        assert found[f"path_none:{group}"] == pytest.approx((counts == 0).mean())
        reaching = listed(topology, weighted)[counts == 0]
        assert found[f"path_reach:{group}"] == (reaching.max() if len(reaching) else -1)


def test_shares_of_variance_by_hand():
    """Input + pool(input): variances 1 and ``POOLED`` meet, so that a share POOLED / (1 + POOLED) passed the pool."""
    topology = Topology(
        {"input": op("input"), "pool": POOL, "output": op("output")},
        [("input", "pool"), ("input", "output"), ("pool", "output")],
    )
    found = path_statistics(light(topology))
    share = POOLED / (1 + POOLED)
    assert found["flow_mean:pool"] == pytest.approx(share)
    assert found["flow_none:pool"] == pytest.approx(1 - share)
    assert found["flow_spread:pool"] == pytest.approx((share * (1 - share)) ** 0.5)
    assert found["flow_gain"] == pytest.approx(np.log(1 + POOLED))


def test_an_operation_with_weights_normalises():
    found = path_statistics(light(chain(POOL, POOL, CONV3, POOL)))
    assert found["flow_gain"] == pytest.approx(np.log(POOLED))
    assert found["path_reach:pool"] == -1
    assert found["path_reach:all"] == -1
    assert found["width"] == 1


def test_endless_paths_stay_finite():
    """60 doublings are 2^60 paths: ratios stay exact."""
    nodes = {"input": op("input"), "output": op("output")}
    edges, last = [], "input"
    for number in range(60):
        name = f"n{number}"
        nodes[name] = CONV1 if number % 2 else POOL
        edges += [(last, name), (last, name)]
        last = name
    found = path_statistics(light(Topology(nodes, [*edges, (last, "output")])))
    assert found["path_mean:conv"] == pytest.approx(30)
    assert found["path_none:conv"] == 0
    assert all(np.isfinite(value) for value in found.values())


def renamed(topology, rng):
    """The same network: other names, another order of nodes and edges (those into a concat keep theirs)."""
    names = list(topology.nodes)
    order = [names[place] for place in rng.permutation(len(names))]
    new = {name: f"x{number}" for number, name in enumerate(order)}
    merging = [node for node in names if getattr(topology.nodes[node], "kind", "") == "concat"]
    free = [edge for edge in topology.edges if edge[1] not in merging]
    fixed = [edge for edge in topology.edges if edge[1] in merging]
    edges = [*fixed, *(free[place] for place in rng.permutation(len(free)))]
    return Topology({new[name]: topology.nodes[name] for name in order}, [(new[a], new[b]) for a, b in edges])


@pytest.mark.parametrize("name", ["image_dag", "nasbench201", "image_cell", "signal", "tabular"])
def test_numbering_changes_nothing(name):
    space, rng = catalogue.load(name), np.random.default_rng(3)
    for _ in range(4):
        topology = space.decode(space.sample(rng))
        other = renamed(topology, rng)
        assert digest(other) == digest(topology)
        assert vector(other) == pytest.approx(vector(topology), abs=1e-5)


def test_vectors_have_one_length_and_tell_networks_apart():
    space, rng = catalogue.load("nasbench201"), np.random.default_rng(0)
    topologies = {digest(t): t for t in (space.decode(space.sample(rng)) for _ in range(60))}
    rows = np.stack([vector(topology) for topology in topologies.values()])
    assert rows.shape == (len(topologies), LENGTH)
    assert len(np.unique(rows.round(5), axis=0)) == len(topologies)


def test_dead_is_a_feature():
    dead = Topology({"input": op("input"), "output": op("output")}, [])
    assert features(dead).figures == {"dead": 1.0}
    assert not features(chain()).figures.get("dead")


def test_table_fills_what_lacks_with_zero():
    values, names = table([{"b": 2.0}, {"a": 1.0, "b": 3.0}])
    assert list(names) == ["a", "b"]
    assert values.tolist() == [[0, 2], [1, 3]]
