"""The networks of the autoencoder: a graph neural network that reads a graph, a transformer that writes one.

The encoder passes messages along and against the edges (as Lukasik et al. 2021, arXiv 2010.04683, read a graph in both
directions) and adds up what the nodes hold, so that the numbering of nodes does not matter. The decoder writes node
after node in the canonical order: an operation given all before, then the edges into it (their equations 8 to 11 with
attention in the place of recurrent cells, so that all steps of training run at once).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from detol.embedding.batch import DEPTHS, Batch
from detol.embedding.graphs import MOST_TIMES
from detol.embedding.operations import COLUMNS

MOST_NODES = 40
"""Nodes of a graph that can be written; one of any size can be read."""


class Encoder(nn.Module):
    """Reads graphs: (mean, logarithm of the variance) of the latent point of each, (B, latent) both.

    Args:
        width: of the nodes' states.
        latent: dimensions of the latent space.
        rounds: of messages: how many edges far a node sees.
    """

    def __init__(self, width: int, latent: int, rounds: int) -> None:
        super().__init__()
        self.operation = _two(COLUMNS, width, width)
        self.depth = nn.Linear(DEPTHS, width)
        self.along = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(rounds))
        self.against = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(rounds))
        self.update = nn.ModuleList(_two(3 * width, width, width) for _ in range(rounds))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(rounds))
        self.gate = nn.Linear(width, 2 * width)
        self.out = nn.Linear(2 * width, 2 * latent)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return mean and logarithm of the variance."""
        state = self.operation(batch.vectors)[batch.nodes] + self.depth(batch.depths)
        times, slots = batch.times, batch.slots.sqrt()
        for along, against, update, norm in zip(self.along, self.against, self.update, self.norm, strict=True):
            sent, placed = along(state).chunk(2, -1)
            back, asked = against(state).chunk(2, -1)
            ahead = times @ sent + slots @ placed
            behind = times.transpose(1, 2) @ back + slots.transpose(1, 2) @ asked
            state = norm(state + update(torch.cat([state, ahead, behind], -1)))
        gate, value = self.gate(state).chunk(2, -1)
        total = (torch.sigmoid(gate) * value * batch.real[..., None]).sum(1)
        largest = value.masked_fill(~batch.real[..., None], -1e9).amax(1)
        mean, spread = self.out(torch.cat([total, largest], -1)).chunk(2, -1)
        return mean, spread.clamp(-8, 4)


class Decoder(nn.Module):
    """Writes graphs from latent points.

    Args:
        width: of the nodes' states; a multiple of 4.
        latent: dimensions of the latent space.
        layers: of attention.
    """

    def __init__(self, width: int, latent: int, layers: int) -> None:
        super().__init__()
        self.operation = _two(COLUMNS, width, width)
        self.place = nn.Parameter(0.1 * torch.randn(MOST_NODES, width))
        self.source = nn.Parameter(0.3 * torch.randn(MOST_NODES, width))
        self.point = nn.Linear(latent, width)
        self.layers = nn.ModuleList(_Attention(width, latent) for _ in range(layers))
        self.next = _two(width, width, width)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.target = _two(2 * width, width, width)
        self.pair = nn.Linear(width, width)
        self.edge = nn.Linear(width, MOST_TIMES + 1)  # the last is the order of the parts of a concat

    def states(self, nodes: Tensor, times: Tensor, embedded: Tensor, points: Tensor) -> Tensor:
        """Return what each node holds once it and its edges are written, (B, N, width).

        Args:
            nodes: places in the vocabulary, (B, N).
            times: multiplicities, (B, N, N).
            embedded: the vocabulary, (V, width).
            points: latent, (B, latent).
        """
        count = nodes.shape[1]
        state: Tensor = embedded[nodes] + self.place[:count] + times @ self.source[:count] + self.point(points)[:, None]
        hidden = torch.ones(count, count, dtype=torch.bool, device=nodes.device).triu(1)
        for layer in self.layers:
            state = layer(state, hidden, points)
        return state

    def operations(self, states: Tensor, embedded: Tensor) -> Tensor:
        """Return logits of the operation that comes after each state, (..., V)."""
        logits: Tensor = self.scale * self.next(states) @ embedded.T / embedded.shape[1] ** 0.5
        return logits

    def edges(self, states: Tensor, after: Tensor, pairs: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return logits of multiplicities (P, ``MOST_TIMES``) and the order of parts (P,) of some possible edges.

        Args:
            states: (B, N, width).
            after: the operation that comes after each, embedded, (B, N, width).
            pairs: (b, i, j), each (P,): the edge of graph b from node j to the one that comes after node i, j <= i.
        """
        graph, node, source = pairs
        target = self.target(torch.cat([states, after], -1))
        # Only those that may be: half of a square, and nothing of what pads a small graph.
        scores = self.edge(F.relu(target[graph, node] + self.pair(states)[graph, source]))
        return scores[:, :-1], scores[:, -1]


class _Attention(nn.Module):
    """A causal layer of a transformer; the latent point sets scale and shift of what it reads."""

    def __init__(self, width: int, latent: int) -> None:
        super().__init__()
        self.heads = 4
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.three, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.tune = nn.Linear(latent, 2 * width)
        self.wide = _two(width, 2 * width, width)

    def forward(self, state: Tensor, hidden: Tensor, points: Tensor) -> Tensor:
        scale, shift = self.tune(points)[:, None].chunk(2, -1)
        read = self.first(state) * (1 + scale) + shift
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.three(read).chunk(3, -1)
        )
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden)
        state = state + self.mix(seen.transpose(1, 2).flatten(2))
        after: Tensor = state + self.wide(self.second(state))
        return after


def _two(inside: int, between: int, outside: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inside, between), nn.SiLU(), nn.Linear(between, outside))
