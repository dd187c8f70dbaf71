"""How one tensor of a child comes from one of its parent: rows and columns chosen, kernels cut or padded."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from detol.graph.unit_map import FRESH, Places


@dataclass(frozen=True)
class Move:
    """From a tensor of the parent to one of the child.

    Args:
        source: key of the parent's tensor.
        shape: of the child's.
        there: shape of the parent's.
        rows: for each position of the child's first axis, the parent's, or -1; ``None``: all in order.
        columns: likewise of the second axis.
        reads: whether the columns are summed over, so that what is repeated has to be divided.
    """

    source: str
    shape: tuple[int, ...]
    there: tuple[int, ...]
    rows: Places | None = None
    columns: Places | None = None
    reads: bool = False

    @property
    def whole(self) -> bool:
        """Whether the child's tensor is the parent's."""
        places = (places for places in (self.rows, self.columns) if places is not None)
        return self.shape == self.there and all(np.array_equal(p, np.arange(len(p))) for p in places)

    @property
    def taken(self) -> int:
        """How many elements of the child's tensor come from the parent."""
        count = 1
        for axis, (size, old) in enumerate(zip(self.shape, self.there, strict=True)):
            places = (self.rows, self.columns)[axis] if axis < 2 else None
            count *= min(size, old) if places is None else int((places != FRESH).sum())
        return count

    def weights(self, tensor: Tensor, fresh: Tensor, spread: float, generator: torch.Generator) -> Tensor:
        """Return the child's weights; rows without a source keep their fresh ones, columns without one are zero.

        Args:
            tensor: the parent's.
            fresh: the child's fresh ones.
            spread: how unevenly repeated columns are divided: 0 evenly.
            generator: of the spread.
        """
        if self.whole:
            return tensor.clone()
        columns = self._columns(self._kernels(tensor))
        if self.reads and self.columns is not None:
            columns = columns * self._shares(columns, spread, generator)
        return self._rows(columns, fresh)

    def state(self, tensor: Tensor) -> Tensor:
        """Return an optimiser's state of the child's parameter (as large as it): zero where it has no source.

        What reads a repeated unit has the gradient of what read the one unit: its moments are copied undivided.
        """
        if self.whole:
            return tensor.clone()
        return self._rows(self._columns(self._kernels(tensor)), tensor.new_zeros(self.shape))

    def _kernels(self, tensor: Tensor) -> Tensor:
        """Cut the axes behind the second, or pad them with zeros, about their middle."""
        for axis in range(2, len(self.shape)):
            more = self.shape[axis] - self.there[axis]
            if more < 0:
                tensor = tensor.narrow(axis, -more // 2, self.shape[axis])
            elif more > 0:
                sides = [
                    tensor.new_zeros((*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])) for size in _halves(more)
                ]
                tensor = torch.cat([sides[0], tensor, sides[1]], dim=axis)
        return tensor

    def _columns(self, tensor: Tensor) -> Tensor:
        return tensor if self.columns is None else _chosen(tensor, self.columns, 1)

    def _shares(self, columns: Tensor, spread: float, generator: torch.Generator) -> Tensor:
        """Return the share of each element of the parent's column that its copies get: they sum to 1."""
        assert self.columns is not None
        _, group, counts = np.unique(self.columns, return_inverse=True, return_counts=True)
        copies = torch.from_numpy(counts[group])
        shares = (1 / copies.to(columns.dtype)).reshape(1, -1, *[1] * (columns.ndim - 2))
        if spread == 0 or (counts[group] == 1).all():
            return shares
        noise = torch.rand((columns.shape[0], len(copies)), generator=generator, dtype=columns.dtype) * 2 - 1
        index = torch.from_numpy(group).expand(columns.shape[0], -1)
        means = noise.new_zeros((columns.shape[0], len(counts))).scatter_add(1, index, noise) / torch.from_numpy(counts)
        noise = (noise - means.gather(1, index)).reshape(*noise.shape, *[1] * (columns.ndim - 2))
        return shares * (1 + spread * noise)

    def _rows(self, tensor: Tensor, into: Tensor) -> Tensor:
        if self.rows is None:
            return tensor
        known = torch.from_numpy(self.rows != FRESH).reshape(-1, *[1] * (tensor.ndim - 1))
        return torch.where(known, _chosen(tensor, self.rows, 0), into)


def _halves(more: int) -> tuple[int, int]:
    return more // 2, more - more // 2


def _chosen(tensor: Tensor, places: Places, axis: int) -> Tensor:
    """Return the slices of an axis at some places, zeros for -1."""
    found = tensor.index_select(axis, torch.from_numpy(np.maximum(places, 0)))
    known = torch.from_numpy(places != FRESH).reshape(*[1] * axis, -1, *[1] * (tensor.ndim - axis - 1))
    return torch.where(known, found, torch.zeros_like(found))
