"""The smooth variational graph autoencoder: graphs to points of a latent space and back, and scores from points.

svGe of Lukasik et al. 2021 (arXiv 2010.04683): reconstruction, divergence from a standard normal distribution, and a
regression of the scores (their section 3.4), so that near points are near networks with near scores. Importing this
file loads torch.
"""

import hashlib
import json
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from detol.embedding.batch import Batch, batch_of, vectors_of, vocabulary_of
from detol.embedding.graph_features import Floats
from detol.embedding.graphs import CELL, Graph, take_apart
from detol.embedding.networks import MOST_NODES, Decoder, Encoder
from detol.graph.edit import concatenates
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology

NAME = "svge"
"""What stored vectors are filed under."""
FORMAT = "g1"
"""Changes whenever the same weights would give another vector."""
CHUNK = 512
"""Graphs that are read or written at once."""


class Autoencoder(nn.Module):
    """Encoder, decoder and scores.

    Args:
        width: of the nodes' states, a multiple of 4.
        latent: dimensions of the latent space.
        rounds: of messages of the encoder.
        layers: of the decoder.
        seed: of the initial weights; torch's global random numbers are neither used nor changed.
    """

    def __init__(self, *, width: int = 64, latent: int = 64, rounds: int = 5, layers: int = 3, seed: int = 0) -> None:
        super().__init__()
        self.sizes = {"width": width, "latent": latent, "rounds": rounds, "layers": layers}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = Encoder(width, latent, rounds)
            self.decoder = Decoder(width, latent, layers)
            self.head = nn.Sequential(nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, 1))

    @property
    def latent(self) -> int:
        """Dimensions of the latent space."""
        return self.sizes["latent"]

    @property
    def version(self) -> str:
        """What its vectors are stored under: the format, and a digest of all weights that make them."""
        found = hashlib.sha256(json.dumps(self.sizes, sort_keys=True).encode())
        for name, weight in sorted(self.encoder.state_dict().items()):
            found.update(name.encode() + weight.detach().numpy().tobytes())
        return f"{FORMAT}-{found.hexdigest()[:12]}"

    # -- reading

    def encode(self, graphs: Sequence[Graph]) -> Tensor:
        """Return the mean latent point of each graph, float32 (n, latent)."""
        chunks = [graphs[start : start + CHUNK] for start in range(0, len(graphs), CHUNK)]
        with torch.no_grad():
            found = [self.encoder(batch_of(chunk))[0] for chunk in chunks]
        return torch.cat(found) if found else torch.zeros(0, self.latent)

    def embed(self, topologies: Sequence[Topology]) -> Floats:
        """Return topologies as vectors, float32 (n, 2 latent): the outer graph, and the mean over its cells.

        A topology without cells has zeros in the second half.
        """
        apart = [take_apart(topology) for topology in topologies]
        different = list(dict.fromkeys(graph for graphs in apart for graph in graphs))
        place = {graph: number for number, graph in enumerate(different)}
        points = self.encode(different).numpy()
        rows = np.zeros((len(topologies), 2 * self.latent), np.float32)
        for row, graphs in enumerate(apart):
            rows[row, : self.latent] = points[place[graphs[0]]]
            if len(graphs) > 1:
                uses = [_uses(graphs[0], number) for number in range(len(graphs) - 1)]
                cells = np.stack([points[place[graph]] for graph in graphs[1:]])
                rows[row, self.latent :] = np.average(cells, axis=0, weights=uses)
        return rows

    # -- writing

    def decode(
        self,
        points: Tensor,
        vocabulary: Sequence[Operation],
        *,
        temperature: float = 0.0,
        draws: torch.Generator | None = None,
    ) -> list[Graph | None]:
        """Return a graph for each latent point (n, latent), node by node; ``None`` where it does not end.

        Args:
            points: float32 (n, latent).
            vocabulary: operations that may stand in a graph; the input and the output among them.
            temperature: 0: the likeliest operation and edges at each step; 1: drawn from their probabilities.
            draws: for these draws.
        """

        def chosen(logits: Tensor) -> Tensor:
            if temperature > 0:  # Gumbel's maximum: a draw from the softmax of logits / temperature
                uniform = torch.rand(logits.shape, generator=draws).clamp(1e-9, 1 - 1e-7)
                logits = logits - temperature * torch.log(-torch.log(uniform))
            return logits.argmax(-1)

        found: list[Graph | None] = []
        with torch.no_grad():
            for start in range(0, len(points), CHUNK):
                found += self._decode(points[start : start + CHUNK], vocabulary, chosen)
        return found

    def _decode(
        self, points: Tensor, vocabulary: Sequence[Operation], chosen: Callable[[Tensor], Tensor]
    ) -> list[Graph | None]:
        decoder, count = self.decoder, len(points)
        embedded = decoder.operation(vectors_of(vocabulary))
        first, last = (vocabulary.index(op(kind)) for kind in ("input", "output"))
        joins = torch.tensor([concatenates(operation) for operation in vocabulary])
        nodes = torch.full((count, 1), first)
        times = torch.zeros(count, 1, 1)
        order = torch.zeros(count, 1, 1)
        ended = torch.zeros(count, dtype=torch.int64)
        rows = torch.arange(count)
        for step in range(1, MOST_NODES):
            states = decoder.states(nodes, times, embedded, points)
            logits = decoder.operations(states[:, -1], embedded)
            logits[:, first] = -torch.inf
            new = chosen(logits)
            pairs = (
                rows.repeat_interleave(step),
                torch.full((count * step,), step - 1),
                torch.arange(step).repeat(count),
            )
            edges, parts = decoder.edges(states, embedded[new][:, None].expand_as(states), pairs)
            many = chosen(edges).float().view(count, step)
            # A join of parts takes each once: its order says the rest.
            many = torch.where(joins[new][:, None], many.clamp(max=1), many)
            nodes = torch.cat([nodes, new[:, None]], 1)
            times, order = _grown(times, many), _grown(order, parts.view(count, step))
            ended = torch.where((ended == 0) & (new == last), step + 1, ended)
            if bool((ended > 0).all()):
                break
        sizes = ended.tolist()
        return [
            _written(nodes[row], times[row], order[row], sizes[row], vocabulary) if sizes[row] else None
            for row in range(count)
        ]

    # -- learning

    def losses(
        self, batch: Batch, noise: Tensor, scores: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return what training makes small, for each graph (B,): reconstruction, divergence, error of the score.

        Args:
            batch: of graphs.
            noise: standard normal, (B, latent); zeros: the mean point is what is written from.
            scores: (B,), of mean 0 and variance 1; NaN where a graph has none.

        Returns:
            Negative log-likelihood in nats, divergence in nats, the mean points (B, latent), and squared errors
            (``None`` without scores).
        """
        mean, spread = self.encoder(batch)
        points = mean + noise * torch.exp(spread / 2)
        divergence = 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(1)
        error = None
        if scores is not None:
            known = torch.isfinite(scores)
            error = torch.where(known, (self.head(points)[:, 0] - scores.nan_to_num()) ** 2, 0.0)
        return self._written_off(batch, points), divergence, mean, error

    def _written_off(self, batch: Batch, points: Tensor) -> Tensor:
        """Return the negative log-likelihood of each graph, given its point."""
        decoder = self.decoder
        embedded = decoder.operation(batch.vectors)
        states = decoder.states(batch.nodes, batch.times, embedded, points)[:, :-1]
        after, there = batch.nodes[:, 1:], batch.real[:, 1:]
        logits = decoder.operations(states, embedded)
        loss = (F.cross_entropy(logits.transpose(1, 2), after, reduction="none") * there).sum(1)
        count = states.shape[1]
        meant = there[:, :, None] & torch.ones(count, count, dtype=torch.bool, device=there.device).tril()
        graph, node, source = meant.nonzero(as_tuple=True)
        pairs = (graph, node, source)
        edges, parts = decoder.edges(states, embedded[after], pairs)
        wanted = batch.times[:, 1:, :-1][pairs].long()
        loss = loss.index_add(0, graph, F.cross_entropy(edges, wanted, reduction="none"))
        slots = batch.slots[:, 1:, :-1]
        if bool(slots.any()):
            # Earlier parts score higher: pairwise logistic loss (Burges et al. 2005, RankNet).
            order = torch.zeros_like(slots).index_put(pairs, parts)
            first = (slots[..., None] < slots[:, :, None]) & (slots[..., None] > 0)
            wrong = F.softplus(order[:, :, None] - order[..., None]) * first
            loss = loss + wrong.sum((1, 2, 3))
        return loss

    def likelihood(self, points: Tensor, graphs: Sequence[Graph]) -> Tensor:
        """Return the log-likelihood of each graph, given its latent point, (n,)."""
        with torch.no_grad():
            return -self._written_off(batch_of(graphs), points)

    def scores(self, points: Tensor) -> Tensor:
        """Return the score that the head predicts of latent points (n, latent): (n,), mean 0 and variance 1."""
        predicted: Tensor = self.head(points)[:, 0]
        return predicted


def vocabulary(graphs: Sequence[Graph]) -> Sequence[Operation]:
    """Return the operations that decoded graphs may hold: those of ``graphs``, the input and the output."""
    return sorted({*vocabulary_of(graphs), op("input"), op("output")}, key=str)


def _uses(outer: Graph, number: int) -> float:
    """Return how often a cell stands in the outer graph, as a weight > 0: one that is not live counts a little."""
    symbol = op("symbol", name=CELL, value=number)
    return sum(node == symbol for node in outer.nodes) or 1e-3


def _grown(square: Tensor, row: Tensor) -> Tensor:
    """Return (B, n + 1, n + 1) of (B, n, n): a row (B, n) more, and a column of zeros."""
    return F.pad(torch.cat([square, row[:, None]], 1), (0, 1))


def _written(nodes: Tensor, times: Tensor, order: Tensor, size: int, known: Sequence[Operation]) -> Graph:
    operations = tuple(known[place] for place in nodes[:size].tolist())
    many, placed = times[:size, :size].tolist(), order[:size, :size].tolist()
    terms = []
    for node in range(size):
        entering = [(source, int(many[node][source])) for source in range(node) if many[node][source] > 0]
        if concatenates(operations[node]):
            entering.sort(key=lambda term: -placed[node][term[0]])
        terms.append(tuple(entering))
    return Graph(operations, tuple(terms))
