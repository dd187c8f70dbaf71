"""Pretraining of the encoder that comes with detol: on graphs of its own spaces, no scores.

What is held out is decided by each graph itself, so that any later run knows what the weights have not seen.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from detol.embedding.autoencoder import Autoencoder
from detol.embedding.graphs import Graph, take_apart
from detol.embedding.training import Corpus, train
from detol.search.protocols import SearchSpace

SAMPLES: Mapping[str, int] = {
    "nasbench201": 15_625,
    "image_dag": 12_000,
    "image_cell": 4_000,
    "signal": 3_000,
    "tabular": 2_000,
}
"""Topologies of each space; of one that has no more than that, all."""
_FIRST = ("nasbench201", "image_dag", "image_cell", "nasbench201", "image_dag")
_LAST = ("nasbench201", "image_dag")
TURNS: Sequence[str] = (*_FIRST, "signal", *_LAST, *_FIRST, "tabular", *_LAST)
"""Whose turn it is: one batch each."""
SEED, STEPS, BATCH = 0, 20_000, 64


def held_out(graph: Graph) -> bool:
    """Return whether a graph is among the tenth that is never trained on."""
    return hashlib.sha256(str(graph).encode()).digest()[0] % 10 == 0


def graphs_of(space: SearchSpace, count: int, rng: np.random.Generator) -> Sequence[Graph]:
    """Return the different graphs of ``count`` topologies of a space (all of them, if it has no more), sorted.

    Graphs that are the same in all topologies (the network around a cell) are among them.
    """
    if space.size is not None and space.size <= count:
        decided = list(space.enumerate())
    else:
        decided = [space.sample(rng) for _ in range(count)]
    return sorted({graph for decisions in decided for graph in take_apart(space.decode(decisions))}, key=str)


def pretrain(
    spaces: Sequence[SearchSpace],
    *,
    steps: int = STEPS,
    samples: Mapping[str, int] = SAMPLES,
    turns: Sequence[str] = TURNS,
    device: str = "cpu",
    progress: Callable[[int, float], None] | None = None,
) -> Autoencoder:
    """Return an autoencoder trained on what is not held out of some spaces; on a CPU the same arguments give the same.

    Args:
        spaces: by whose graphs it is trained.
        steps: updates.
        samples: topologies of each space, by its name.
        turns: names of spaces, in the order of their batches.
        device: where it is trained.
        progress: as of :func:`detol.embedding.training.train`.
    """
    rng = np.random.default_rng(SEED)
    found: dict[str, Corpus] = {}
    for space in spaces:
        graphs = graphs_of(space, samples[space.name], rng)
        found[space.name] = Corpus.of([graph for graph in graphs if not held_out(graph)])
    model = Autoencoder(seed=SEED)
    corpora = [found[name] for name in turns if name in found]
    train(model, corpora, steps=steps, batch=BATCH, seed=SEED, device=device, progress=progress)
    return model
