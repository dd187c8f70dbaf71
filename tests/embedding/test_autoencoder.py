"""The autoencoder: invariances, round trips after training on a handful, versions, weights as bytes."""

import numpy as np
import pytest
import torch

from detol.embedding.autoencoder import Autoencoder, vocabulary
from detol.embedding.batch import batch_of, vectors_of
from detol.embedding.graphs import Graph, graph_of, take_apart, topology_of
from detol.embedding.pretrain import graphs_of, held_out, pretrain
from detol.embedding.training import Corpus, rank_weights, train
from detol.embedding.weights import copy, from_bytes, to_bytes
from detol.errors import UsageError
from detol.graph.digest import digest
from detol.graph.ops import op
from detol.graph.topology import Topology
from detol.search_spaces import nasbench201
from detol.spaces import catalogue

SMALL = {"width": 24, "latent": 16, "rounds": 3, "layers": 1}
CODES = ("303103", "303003", "111111", "012340", "444444", "330101", "000300", "101010", "000000", "000100")
CELLS = [graph_of(nasbench201.cell(nasbench201.decisions(code))) for code in CODES]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def renumbered(graph, rng):
    """The same graph with its nodes in another order, drawn at random; edges still point forwards."""
    order, left = [], set(range(len(graph)))
    while left:
        ready = sorted(node for node in left if all(source in order for source, _ in graph.terms[node]))
        order.append(ready[int(rng.integers(len(ready)))])
        left.discard(order[-1])
    place = {node: number for number, node in enumerate(order)}
    terms = [tuple((place[source], times) for source, times in graph.terms[node]) for node in order]
    return Graph(tuple(graph.nodes[node] for node in order), tuple(terms))


@pytest.mark.parametrize("name", ["image_cell", "nasbench201"])
def test_the_numbering_of_nodes_changes_no_point(name):
    model, rng = Autoencoder(**SMALL), np.random.default_rng(0)
    space = catalogue.load(name)
    graphs = [graph for _ in range(5) for graph in take_apart(space.decode(space.sample(rng)))]
    others = [renumbered(graph, rng) for graph in graphs]
    assert any(one != other for one, other in zip(graphs, others, strict=True))
    assert torch.allclose(model.encode(graphs), model.encode(others), atol=1e-5)


def test_padding_changes_no_point():
    model = Autoencoder(**SMALL)
    together = model.encode(CELLS)
    alone = torch.cat([model.encode([graph]) for graph in CELLS])
    assert torch.allclose(together, alone, atol=1e-5)


def test_different_graphs_have_different_points_before_any_training():
    """The encoder's messages tell apart what a Weisfeiler-Lehman test does, multiplicities included."""
    space = catalogue.load("nasbench201")
    rng = np.random.default_rng(0)
    graphs = list({graph_of(nasbench201.cell(space.sample(rng))) for _ in range(120)})
    points = Autoencoder(**SMALL).encode(graphs)
    apart = torch.cdist(points, points) + 9 * torch.eye(len(graphs))
    assert float(apart.min()) > 1e-4


@pytest.fixture(scope="module")
def trained():
    model = Autoencoder(**SMALL)
    scores = np.linspace(-1, 1, len(CELLS))
    train(model, [Corpus.of(CELLS, scores)], steps=220, rate=1e-2, divergence=0.001)
    return model


def test_writes_what_it_read(trained):
    assert trained.decode(trained.encode(CELLS), vocabulary(CELLS)) == CELLS


def test_learns_the_scores(trained):
    predicted = trained.scores(trained.encode(CELLS)).detach().numpy()
    assert np.corrcoef(predicted, np.linspace(-1, 1, len(CELLS)))[0, 1] > 0.9


def test_the_likeliest_graph_is_the_one_that_was_read(trained):
    point = trained.encode(CELLS[:1])
    likelihoods = trained.likelihood(point.expand(len(CELLS), -1), CELLS)
    assert int(likelihoods.argmax()) == 0
    assert bool((likelihoods <= 0).all())


@pytest.mark.parametrize("parts", [("a", "b"), ("b", "a")])
def test_the_order_of_the_parts_of_a_concat_is_written(parts):
    nodes = {"input": op("input"), "a": op("conv", kernel=3), "b": op("pool", kernel=3), "join": op("concat")}
    edges = [("input", "a"), ("input", "b"), *((part, "join") for part in parts), ("join", "output")]
    graph = graph_of(Topology({**nodes, "output": op("output")}, edges))
    model = Autoencoder(**SMALL)
    train(model, [Corpus.of([graph] * 8)], steps=80, rate=1e-2, divergence=0.001)
    assert model.decode(model.encode([graph]), vocabulary([graph])) == [graph]


def test_training_is_repeatable_and_leaves_global_randomness_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    versions = set()
    for _ in range(2):
        model = Autoencoder(**SMALL, seed=3)
        train(model, [Corpus.of(CELLS)], steps=3, seed=1)
        versions.add(model.version)
        torch.rand(3)
        torch.set_rng_state(state)
    assert len(versions) == 1
    assert torch.equal(torch.get_rng_state(), state)


def test_a_version_names_the_weights_that_make_vectors(trained):
    other = copy(trained)
    assert other.version == trained.version
    with torch.no_grad():
        other.head[0].bias += 1  # scores are no part of a vector
    assert other.version == trained.version
    with torch.no_grad():
        other.encoder.out.bias += 1e-3
    assert other.version != trained.version


def test_bytes_keep_the_model(trained):
    again = from_bytes(to_bytes(trained))
    assert again.sizes == trained.sizes
    assert torch.allclose(again.encode(CELLS), trained.encode(CELLS), atol=0.02)  # half precision
    assert from_bytes(to_bytes(again)).version == again.version


def test_other_bytes_are_one_line(trained):
    with pytest.raises(UsageError, match="safetensors"):
        from_bytes(b"no weights at all")
    with pytest.raises(UsageError, match="safetensors"):
        from_bytes(to_bytes(trained)[:-100])
    with pytest.raises(UsageError, match="format g1"):
        from_bytes(to_bytes(trained).replace(b'"g1"', b'"g0"'))


def test_embedding_of_a_topology_is_that_of_its_graph_and_cells(trained):
    space = catalogue.load("nasbench201")
    topology = space.decode(nasbench201.decisions("303103"))
    row = trained.embed([topology])[0]
    apart = take_apart(topology)
    points = trained.encode(apart).numpy()
    assert row[:16] == pytest.approx(points[0], abs=1e-5)
    assert row[16:] == pytest.approx((15 * points[1] + points[2] + points[3]) / 17, abs=1e-4)
    assert not trained.embed([catalogue.load("tiny").decode(catalogue.load("tiny").references["plain"])])[0, 16:].any()


def test_operations_that_it_never_saw_can_be_written():
    """A vocabulary is what it is given at decoding: trained on 3x3 and 5x5, asked with 3x3 and 7x7."""
    model = Autoencoder(**SMALL)
    words = [op("input"), op("output"), op("conv", kernel=7)]
    graphs = model.decode(torch.zeros(2, 16), words)
    assert len(graphs) == 2
    assert vectors_of(words).shape[0] == 3
    assert all(graph is None or set(graph.nodes) <= set(words) for graph in graphs)


def test_weights_by_rank():
    """1 / (k N + rank): by hand for N = 4 and k = 0.5."""
    weights = rank_weights([0.1, 0.4, 0.3, 0.2], 0.5)
    expected = np.array([1 / 5, 1 / 2, 1 / 3, 1 / 4])
    assert weights == pytest.approx(expected / expected.mean())
    assert rank_weights([1.0, 1.0, 0.0], 0.5)[0] == rank_weights([1.0, 1.0, 0.0], 0.5)[1]


def test_weights_matter():
    """A graph of weight zero is not learnt."""
    model = Autoencoder(**SMALL)
    train(model, [Corpus.of(CELLS[:4], weights=[1, 1, 1, 0])], steps=60, rate=1e-2)
    batch = batch_of(CELLS[:4], vocabulary(CELLS[:4]))
    written = model.losses(batch, torch.zeros(4, 16))[0]
    assert float(written[3].detach()) > 2 * float(written[:3].mean().detach())


def test_too_large_graphs_are_read_but_not_trained_on():
    deep = graph_of(catalogue.load("tiny").decode(catalogue.load("tiny").references["plain"]))
    long = Graph((op("input"), *[op("conv")] * 60, op("output")), ((), *(((number, 1),) for number in range(61))))
    assert Autoencoder(**SMALL).encode([long, deep]).shape == (2, 16)
    assert len(Corpus.of([long, deep]).batch) == 1


def test_pretraining_holds_a_tenth_out():
    space = catalogue.load("tiny")
    graphs = graphs_of(space, 1000, np.random.default_rng(0))
    assert len(graphs) == len({digest(topology_of(graph)) for graph in graphs})
    shares = [held_out(graph) for graph in CELLS * 1]
    assert shares == [held_out(graph) for graph in CELLS]
    model = pretrain([space], steps=2, samples={"tiny": 1000}, turns=["tiny"])
    assert model.version != Autoencoder(seed=0).version
