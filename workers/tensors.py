"""A data set as tensors: resident on the device of training, as small as it was read; floats are made per batch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detol.errors import DataError
from detol.search.stages import steps_of
from detol.workers.data.feed import Feed, shared
from detol.workers.devices import memory

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset, Split

Array = NDArray[Any]
SHARE = 0.4
"""Of a device's free memory, that samples may take; networks need the rest."""


@dataclass(frozen=True)
class Rows:
    """One split: ``x`` (N, *shape) uint8 or float32, ``y`` (N,) int64 classes or float32 values.

    ``x`` is a :class:`~detol.workers.data.feed.Feed` where samples stay on the host: it is indexed like a tensor.
    """

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.y)


@dataclass(frozen=True)
class Tensors:
    """A data set on a device, shared by all trials of one process. Nothing of it is ever written.

    Args:
        task: ``classification`` or ``regression``.
        kind: ``image``, ``signal`` or ``features``.
        shape: of one sample, channels first.
        outputs: of the network: classes, or 1.
        train: what is learnt from.
        validation: what is measured after each epoch.
        test: the split read once at the end; ``None`` where it was left out.
        shift: mean of the training samples, broadcast over a sample.
        scale: one over their standard deviation.
        target_mean: of the training targets of a regression, otherwise 0.
        target_std: likewise, otherwise 1.
        block: samples that are read together where the data are larger than memory (see
            :func:`~detol.workers.data.order.epoch_order`), otherwise 0.
    """

    task: str
    kind: str
    shape: tuple[int, ...]
    outputs: int
    train: Rows
    validation: Rows
    test: Rows | None
    shift: Tensor
    scale: Tensor
    target_mean: float
    target_std: float
    block: int = 0

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.shift.device

    @property
    def layout(self) -> torch.memory_format:
        """Memory format of batches and weights: images with channels last, which measured 1.1 to 2 times faster."""
        return torch.channels_last if len(self.shape) == 3 else torch.contiguous_format

    def split(self, name: str) -> Rows:
        """Return ``train``, ``validation`` or ``test``.

        Raises:
            DataError: a test split that was left out.
        """
        rows = {"train": self.train, "validation": self.validation, "test": self.test}[name]
        if rows is None:
            raise DataError(f"the data set was loaded without its {name} split: pass the whole data set")
        return rows

    def spread(self, count: int) -> Tensor:
        """Return the places of up to ``count`` samples of the training split, (n,) int64: always the same, rising.

        The first ones may all be of one class: folders of images are read class by class, and tables may be sorted.
        So may every tenth: classes may take turns. One is drawn from each of ``count`` equal parts.
        """
        rows = len(self.train)
        count = min(count, rows)
        ends = np.arange(count + 1) * rows // count
        drawn = ends[:-1] + (np.random.default_rng(0).random(count) * np.diff(ends)).astype(np.int64)
        return torch.from_numpy(drawn).to(self.device)

    def some(self, count: int) -> Rows:
        """Return up to ``count`` training samples that are :meth:`spread` over the split."""
        index = self.spread(count)
        return Rows(self.train.x.index_select(0, index), self.train.y.index_select(0, index))

    def standardised(self, x: Tensor) -> Tensor:
        """Return samples (B, *shape) as float32 with mean 0 and standard deviation 1, in the layout of the network."""
        return (x.float() - self.shift).mul_(self.scale).contiguous(memory_format=self.layout)


def load(data: "Dataset", device: str | torch.device = "cpu", *, resident: bool | None = None) -> Tensors:
    """Return a data set as tensors; on the CPU they share the memory of its arrays, which may be read-only.

    Args:
        data: to be trained on.
        device: of training.
        resident: whether samples lie there, decoded; otherwise they stay where they are and are fed batch by batch.
            ``None``: as many splits as there is room for.

    Raises:
        DataError: fewer than two training samples.
    """
    if len(data.train.y) < 2:
        raise DataError(f"training needs at least 2 samples, the data have {len(data.train.y)}: add rows")
    place = torch.device(device)
    room = Room(data, place, resident)
    return Tensors(
        task=data.task,
        kind=data.kind,
        shape=tuple(data.shape),
        outputs=data.outputs,
        train=_rows(data.train, place, room),
        validation=_rows(data.validation, place, room),
        test=None if data.test is None else _rows(data.test, place, room),
        shift=_tensor(np.asarray(data.mean, dtype=np.float32), place),
        scale=_tensor(1 / np.asarray(data.std, dtype=np.float32), place),
        target_mean=data.target_mean,
        target_std=data.target_std,
        block=data.block,
    )


class Room:
    """The memory that samples may take on a device; each split that is let in takes its part.

    Args:
        data: of the splits.
        device: of training.
        resident: an answer for all; ``None``: as far as the memory goes.
    """

    def __init__(self, data: "Dataset", device: torch.device, resident: bool | None) -> None:
        self._device, self._resident, self._blocks = device, resident, data.block > 0
        if device.type == "cuda":
            self._left = SHARE * torch.cuda.mem_get_info(device)[0]
        else:
            self._left = SHARE * memory(1, "cpu") / 4  # of what is decoded; arrays are used where they are

    def lets_in(self, x: Any) -> bool:
        """Return whether samples (n, ...) can lie on the device, and count them."""
        if self._resident is not None:
            return self._resident
        if self._device.type == "cpu" and isinstance(x, np.ndarray):
            return not self._blocks
        size = x.dtype.itemsize * math.prod(x.shape)
        if size > self._left:
            return False
        self._left -= size
        return True


def _rows(split: "Split", device: torch.device, room: Room) -> Rows:
    y = _tensor(split.y, device)
    if room.lets_in(split.x):
        return Rows(_tensor(split.x, device), y)
    return Rows(cast("Tensor", Feed(split.x, device)), y)


def _tensor(array: Array, device: torch.device) -> Tensor:
    return shared(array).to(device)


def batches(count: int, batch_size: int, width: int, order: Tensor) -> Iterator[Tensor]:
    """Cut one permutation of ``count`` samples into global batches whose sizes differ by at most 1.

    No batch is larger than ``batch_size``, unless that leaves a rank with fewer than the 2 samples that batch norm
    needs. So there is no tiny last batch, nothing is dropped, and data smaller than the batch are one batch.
    """
    yield from order.tensor_split(steps_of(count, batch_size, width))


def use_threads(count: int) -> None:
    """Let torch use ``count`` threads in this process: more workers than cores divided by threads run slower."""
    torch.set_num_threads(count)
