"""The weights that come with detol."""

import numpy as np
import torch

from detol.embedding.embedders import NAMES, embedder
from detol.embedding.weights import copy, pretrained, to_bytes
from detol.spaces import catalogue


def test_they_are_read_once_and_a_copy_may_be_changed():
    model = pretrained()
    assert pretrained() is model
    other = copy(model)
    with torch.no_grad():
        other.encoder.out.bias += 1
    assert other.version != model.version
    assert len(to_bytes(model)) < 1_000_000


def test_embedders_have_versions_and_vectors_of_one_length():
    space, rng = catalogue.load("image_cell"), np.random.default_rng(0)
    topologies = [space.decode(space.sample(rng)) for _ in range(3)]
    for name in NAMES:
        made = embedder(name)
        rows = made.embed(topologies)
        assert made.name == name
        assert made.version
        assert rows.shape[0] == 3
        assert rows.dtype == np.float32
        assert np.isfinite(rows).all()
        assert made.embed([]).shape == (0, rows.shape[1])


def test_near_networks_are_nearer_than_any_two():
    """One choice apart against two samples, for the learned encoder: what a search space calls neighbours."""
    space, rng = catalogue.load("nasbench201"), np.random.default_rng(2)
    learned = embedder("svge")
    some = [space.sample(rng) for _ in range(40)]
    here = learned.embed([space.decode(decisions) for decisions in some])
    there = learned.embed([space.decode(space.mutate(decisions, rng)) for decisions in some])
    beside = np.linalg.norm(here - there, axis=1).mean()
    anywhere = np.linalg.norm(here[:, None] - here[None], axis=-1)[np.triu_indices(40, 1)].mean()
    assert beside < 0.9 * anywhere
