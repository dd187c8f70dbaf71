"""Embedders: what turns topologies into vectors that are stored, compared and learnt from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from detol.embedding import features
from detol.embedding.graph_features import Floats
from detol.errors import unknown
from detol.graph.topology import Topology


class Embedder(Protocol):
    """Turns topologies into vectors; equal digests give equal vectors (to the last digits of a float32).

    ``version`` changes whenever a vector would; vectors of different versions are not compared.
    """

    @property
    def name(self) -> str:
        """What it is filed under."""
        ...

    @property
    def version(self) -> str:
        """What made its vectors."""
        ...

    def embed(self, topologies: Sequence[Topology]) -> Floats:
        """Return a vector for each topology, float32 (n, columns)."""
        ...


class Analytical:
    """Features that are read from the graph (:mod:`detol.embedding.features`)."""

    name = features.NAME
    version = features.VERSION

    def embed(self, topologies: Sequence[Topology]) -> Floats:
        """Return float32 (n, ``features.LENGTH``)."""
        rows = [features.vector(topology) for topology in topologies]
        return np.stack(rows) if rows else np.zeros((0, features.LENGTH), np.float32)


class Learned:
    """The graph autoencoder that comes with detol (:mod:`detol.embedding.autoencoder`)."""

    name = "svge"

    def __init__(self) -> None:
        from detol.embedding.weights import pretrained  # torch takes seconds, so not with this module

        self._model = pretrained()
        self.version = self._model.version

    def embed(self, topologies: Sequence[Topology]) -> Floats:
        """Return float32 (n, 2 latent): the outer graph, and the mean over its cells."""
        return self._model.embed(topologies)


NAMES = (Analytical.name, Learned.name)


def embedder(name: str) -> Embedder:
    """Return the embedder of that name.

    Raises:
        UsageError: there is none of that name.
    """
    if name == Analytical.name:
        return Analytical()
    if name == Learned.name:
        return Learned()
    raise unknown("embedder", name, NAMES)
