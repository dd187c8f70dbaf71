"""Samples that stay on the host while a network trains on them: read ahead by threads, and sent when wanted."""

import warnings
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from detol.workers.data.packed.reference import Mapped
from detol.workers.data.raw import Array

AHEAD, THREADS = 4, 2
Sent = tuple[Tensor, "torch.cuda.Event | None"]


def shared(array: Array) -> Tensor:
    """Return a tensor over the memory of an array, which may be read-only: nobody writes to samples."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


class Feed:
    """Takes the place of a resident tensor of samples (n, ...) where they do not fit, or are still encoded.

    What is taken by numbers arrives on the device of training. An epoch that was announced is read ahead: the batches
    to come are gathered (and decoded) by threads, into pinned memory when the device is not the host, and copied on a
    stream of their own. All else is read when it is asked for. The values are those of the resident tensor. For use by
    one thread.

    Args:
        x: samples (n, ...): an array, a map of a packed file, or encoded images.
        device: of training.
        ahead: batches that are read before they are wanted.
        threads: that read them.
    """

    def __init__(self, x: Any, device: torch.device, *, ahead: int = AHEAD, threads: int = THREADS) -> None:
        self._x, self._device, self._ahead, self._threads = x, device, ahead, threads
        # A tensor over the same memory: torch gathers without the interpreter's lock, numpy does not always.
        self._held = shared(x) if isinstance(x, np.ndarray) else None
        self._pool: ThreadPoolExecutor | None = None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._order = torch.empty(0, dtype=torch.int64)
        self._announced = self._order
        self._units: Sequence[slice] = ()
        self._starts: Sequence[int] = ()
        self._next = 0
        self._coming: deque[tuple[slice, Future[Sent]]] = deque()
        self._now: tuple[slice, Tensor] | None = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return int(self._x.shape[0])

    @property
    def shape(self) -> torch.Size:
        """(n, ...)."""
        return torch.Size(self._x.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Of a value."""
        return torch.uint8 if self._x.dtype == np.uint8 else torch.float32

    @property
    def device(self) -> torch.device:
        """Where the samples stay: the host."""
        return torch.device("cpu")

    def begin(self, order: Tensor, units: Sequence[slice]) -> None:
        """Announce an epoch.

        Args:
            order: (n,) int64, in which samples will be wanted.
            units: ascending parts of it that will be asked for, whole or in pieces, as slices (views) of ``order``.
        """
        self._forget()
        self._order, self._units = order.cpu(), [unit for unit in units if unit.stop > unit.start]
        self._announced = order
        self._starts = [unit.start for unit in self._units]

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Return the samples with these numbers, on the device of training.

        Args:
            dim: 0.
            index: (B,) int64; a slice of the announced order is there already, or on its way.
        """
        assert dim == 0, "samples are counted by the first axis"
        known = self._announced
        if len(index) and index.untyped_storage().data_ptr() == known.untyped_storage().data_ptr():
            start = int(index.storage_offset() - known.storage_offset())  # told without a look at the device
            unit = self._arrived(start, start + len(index))
            if unit is not None:
                place, x = unit
                return x[start - place.start : start - place.start + len(index)]
        return self._received(self._send(index.cpu()))

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the samples: by a slice, itself not read yet; by numbers, as :meth:`index_select` does."""
        if isinstance(key, slice):
            cut = self._x[key] if isinstance(self._x, np.ndarray) else Part(self._x, range(len(self))[key])
            return Feed(cut, self._device, ahead=self._ahead, threads=self._threads)
        return self.index_select(0, key if isinstance(key, Tensor) else torch.as_tensor(key))

    def split(self, size: int, dim: int = 0) -> Iterator[Tensor]:
        """Yield all samples in order, so many at a time, read ahead; what ``torch.split`` calls."""
        order = torch.arange(len(self))
        self.begin(order, [slice(start, min(start + size, len(self))) for start in range(0, len(self), size)])
        for unit in self._units:
            yield self.index_select(dim, order[unit])
        self._forget()

    def float(self) -> Tensor:
        """Return all of it as float32 on the device of training: of a short slice."""
        return self.index_select(0, torch.arange(len(self))).float()

    def new_zeros(self, *size: Any, **options: Any) -> Tensor:
        """Return zeros on the device of training."""
        return torch.zeros(*size, device=self._device, **options)

    def _arrived(self, start: int, stop: int) -> tuple[slice, Tensor] | None:
        """Return the announced unit that holds a part of the order, and its samples; ``None`` where none does."""
        if self._now is not None and self._now[0].start <= start and stop <= self._now[0].stop:
            return self._now
        place = bisect_right(self._starts, start) - 1
        if place < 0 or stop > self._units[place].stop:
            return None
        unit = self._units[place]
        while self._coming and self._coming[0][0] != unit:
            self._coming.popleft()[1].cancel()
        if not self._coming:  # the first of an epoch, or of what is left of one
            self._next = place
        self._order_more()
        self._now = unit, self._received(self._coming.popleft()[1].result())
        self._order_more()
        return self._now

    def _order_more(self) -> None:
        """Let threads read until so many units are on their way."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="detol-feed")
        while len(self._coming) <= self._ahead and self._next < len(self._units):
            unit = self._units[self._next]
            self._coming.append((unit, self._pool.submit(self._send, self._order[unit])))
            self._next += 1

    def _forget(self) -> None:
        for _, coming in self._coming:
            coming.cancel()
        self._coming.clear()
        self._now, self._next = None, 0

    def _send(self, rows: Tensor) -> Sent:
        """Gather samples, and set them on their way to the device; in any thread."""
        host = torch.empty((len(rows), *self.shape[1:]), dtype=self.dtype, pin_memory=self._stream is not None)
        if self._held is not None:
            if isinstance(self._x, Mapped):
                self._x.will_need(np.sort(rows.numpy()))
            torch.index_select(self._held, 0, rows, out=host)
        else:
            host.copy_(torch.from_numpy(self._x[rows.numpy()]))
        if self._stream is None:
            return host, None
        with torch.cuda.stream(self._stream):
            # torch keeps pinned memory from being used again before a copy out of it is over.
            sent = host.to(self._device, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._stream)
        return sent, event

    def _received(self, sent: Sent) -> Tensor:
        """Let what follows on the device wait for samples that are on their way."""
        x, event = sent
        if event is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            x.record_stream(stream)
        return x


class Part:
    """Neighbouring encoded images in the place of an array.

    Args:
        x: of which it is a part.
        rows: their numbers.
    """

    def __init__(self, x: Any, rows: range) -> None:
        self._x, self._rows = x, rows
        self.shape, self.dtype = (len(rows), *x.shape[1:]), x.dtype

    def __getitem__(self, key: Any) -> Any:
        """Decode images by number."""
        return self._x[np.asarray(self._rows)[key]]
