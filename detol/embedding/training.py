"""Training of the autoencoder: on graphs alone, or on graphs with scores, each graph with its weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from detol.embedding.autoencoder import Autoencoder, vocabulary
from detol.embedding.batch import Batch, batch_of
from detol.embedding.graphs import Graph
from detol.embedding.networks import MOST_NODES

DIVERGENCE = 0.005
"""Weight of the divergence against the reconstruction (Zhang et al. 2019, D-VAE, arXiv 1904.11088, section 4)."""
SCORE = 1.0
"""Weight of the squared error of a standardised score."""
RANK = 1e-3
"""k of the weights by rank."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Graphs that share a vocabulary, as tensors.

    Args:
        batch: of all of them.
        weights: of each in the loss, (n,), 1 on average.
        scores: of each, standardised; NaN: unknown. ``None``: of none.
    """

    batch: Batch
    weights: torch.Tensor
    scores: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        graphs: Sequence[Graph],
        scores: Sequence[float] | Doubles | None = None,
        weights: Sequence[float] | Doubles | None = None,
    ) -> "Corpus":
        """Return a corpus of graphs, each with its score and weight where given. Too large ones are left out."""
        kept = [number for number, graph in enumerate(graphs) if len(graph) <= MOST_NODES]
        some = [graphs[number] for number in kept]
        share = np.ones(len(some)) if weights is None else np.asarray(weights, np.float64)[kept]
        known = None if scores is None else torch.tensor(np.asarray(scores, np.float64)[kept], dtype=torch.float32)
        batch = batch_of(some, vocabulary(some))
        return cls(batch, torch.tensor(share / share.mean(), dtype=torch.float32), known)

    def to(self, device: str) -> "Corpus":
        """Return the corpus with all tensors on a device."""
        scores = None if self.scores is None else self.scores.to(device)
        return Corpus(self.batch.to(device), self.weights.to(device), scores)


def rank_weights(scores: Sequence[float] | Doubles, k: float = RANK) -> Doubles:
    """Return weights proportional to 1 / (k N + rank), ranks from 0 at the best, 1 on average.

    Weighted retraining of Tripp et al. 2020 (arXiv 2006.09191, equation 2), which AG-Net takes over (Lukasik et al.
    2022, arXiv 2203.08734, section 3.3). Equal scores share the mean of their weights.
    """
    values = np.asarray(scores, np.float64)
    order = np.argsort(-values, kind="stable")
    weights = np.empty(len(values))
    weights[order] = 1 / (k * len(values) + np.arange(len(values))) if k > 0 else 1.0
    _, places = np.unique(values, return_inverse=True)
    weights = (np.bincount(places, weights) / np.bincount(places))[places]
    return np.asarray(weights / weights.mean())


def train(
    model: Autoencoder,
    corpora: Sequence[Corpus],
    *,
    steps: int,
    batch: int = 128,
    rate: float = 2e-3,
    seed: int = 0,
    divergence: float = DIVERGENCE,
    device: str = "cpu",
    progress: Callable[[int, float], None] | None = None,
) -> None:
    """Train a model on batches of one corpus after another, by AdamW with a rate that falls to zero as a cosine does.

    Deterministic: torch's global random numbers are neither used nor changed.

    Args:
        model: changed in place.
        corpora: at least one.
        steps: updates, >= 0.
        batch: graphs in each.
        rate: the highest learning rate, > 0.
        seed: of the order and the noise.
        divergence: weight of the divergence, >= 0.
        device: where it is trained; the model is on the CPU again afterwards.
        progress: called with the number of the step and its loss for each graph.
    """
    draws = torch.Generator().manual_seed(seed)
    model.to(device)
    corpora = [corpus.to(device) for corpus in corpora]
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    warm = max(1, min(200, steps // 10))
    waiting: list[list[torch.Tensor]] = [[] for _ in corpora]
    model.train()
    for step in range(steps):
        number = step % len(corpora)
        corpus = corpora[number]
        if not waiting[number]:
            waiting[number] = _batches(corpus.batch, batch, draws)
        where = waiting[number].pop().to(device)
        share = min((step + 1) / warm, 0.5 * (1 + np.cos(np.pi * step / steps)))
        for group in optimiser.param_groups:
            group["lr"] = rate * share
        noise = torch.randn(len(where), model.latent, generator=draws).to(device)
        known = None if corpus.scores is None else corpus.scores[where]
        written, apart, _, error = model.losses(corpus.batch[where], noise, known)
        total = written + divergence * apart + (0.0 if error is None else SCORE * error)
        loss = (total * corpus.weights[where]).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if progress is not None:
            progress(step, float(loss.detach()))
    model.to("cpu").eval()


def _batches(graphs: Batch, size: int, draws: torch.Generator) -> list[torch.Tensor]:
    """Return places in a random order, in batches of graphs of about one size: padding costs as much as nodes."""
    nodes = graphs.real.sum(1).cpu()
    found: list[torch.Tensor] = []
    for part in torch.split(torch.randperm(len(graphs), generator=draws), 8 * size):
        found += torch.split(part[nodes[part].argsort(stable=True)], size)
    return [found[place] for place in torch.randperm(len(found), generator=draws).tolist()]
