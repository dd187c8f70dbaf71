"""The order of an epoch's samples: any permutation, or one that reads a file block by block."""

import torch
from torch import Generator, Tensor

WINDOW = 16
"""Blocks whose samples are mixed with each other: so much of the file is wanted at a time."""


def epoch_order(count: int, generator: Generator, *, block: int = 0, window: int = WINDOW) -> Tensor:
    """Return a permutation (count,) int64 of the samples, drawn by a generator, on its device.

    With a ``block``, samples are not drawn from everywhere at once: blocks of so many neighbours are put in any order,
    and the samples of each ``window`` of blocks that follow each other are shuffled. A file larger than memory is so
    read in long stretches, once. Blocks begin elsewhere in every epoch, so that neighbours part.

    Args:
        count: of the samples.
        generator: whose state, and nothing else, decides.
        block: samples of a block; 0: any permutation is as likely.
        window: blocks that are mixed, >= 1.
    """
    device = generator.device
    if not block or block >= count:
        return torch.randperm(count, generator=generator, device=device)
    shift = int(torch.randint(block, (), generator=generator, device=device))
    edges = [0, *range(shift or block, count, block), count]
    blocks = torch.randperm(len(edges) - 1, generator=generator, device=device).tolist()
    parts = []
    for first in range(0, len(blocks), window):
        rows = torch.cat([torch.arange(edges[number], edges[number + 1]) for number in blocks[first : first + window]])
        rows = rows.to(device)
        parts.append(rows[torch.randperm(len(rows), generator=generator, device=device)])
    return torch.cat(parts)
