"""The data-parallel group of a trial: one rank alone, or several that train together and agree on everything.

All ranks make the same calls in the same order. Every wait ends after the group's ``patience``.
"""

import contextlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from detol.errors import WorkerLost
from detol.workers.sync_norm import synchronise_norms

if TYPE_CHECKING:
    from detol.workers.communication import Communication

TCPStore: Any = dist.TCPStore  # type: ignore[attr-defined]  # torch's stubs forget it
PATIENCE = 120.0
"""Seconds a rank waits for the others before it gives the trial up as lost."""


# Buffers are averaged once an epoch (settle) instead of sent at every step; torch 2.13 renamed the option.
_QUIET_BUFFERS: dict[str, Any] = (
    {"forward_sync_buffers": False}
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel.__init__).parameters
    else {"broadcast_buffers": False}
)


class Group:
    """A rank on its own: everything is already agreed. The base of :class:`ProcessGroup`."""

    rank = 0
    width = 1

    def wrap(
        self,
        model: nn.Module,
        *,
        sync_norm: bool,  # noqa: ARG002  nobody to synchronise with
        communication: "Communication | None" = None,  # noqa: ARG002  nor to talk to
    ) -> nn.Module:
        """Return the module to call in training: its gradients are averaged over the ranks.

        ``communication``: how; plain all-reduce by default.
        """
        return model

    def agree(self, flags: Sequence[bool]) -> tuple[bool, ...]:
        """Return for each flag whether any rank raised it."""
        return tuple(flags)

    def total(self, values: Tensor) -> Tensor:
        """Return the elementwise sum over the ranks."""
        return values

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, concatenated in the order of the ranks; shards may differ in length by 1."""
        return rows

    def settle(self, model: nn.Module) -> None:
        """Average the running statistics of batch norm over the ranks, so that all evaluate one network."""

    def shard(self, count: int) -> slice:
        """Return this rank's part of ``count`` samples: contiguous, sizes that differ by at most 1."""
        size, more = divmod(count, self.width)
        start = self.rank * size + min(self.rank, more)
        return slice(start, start + size + (self.rank < more))

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn the failure of a collective call (a dead or silent peer) into :class:`WorkerLost`."""
        yield

    def close(self) -> None:
        """Leave the group; idempotent."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of a group meet: the store that rank 0 serves."""

    host: str
    port: int


def serve(host: str = "127.0.0.1", patience: float = PATIENCE) -> tuple[Any, Rendezvous]:
    """Open the store of a new group on a free port; keep it until the group is closed. Called by rank 0."""
    store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=patience))
    return store, Rendezvous(host, store.port)


class ProcessGroup(Group):
    """One rank of several processes.

    Args:
        place: where rank 0 serves the store.
        rank: of this process, from 0.
        width: how many ranks there are, >= 2.
        backend: ``nccl`` when each rank has a CUDA device of its own, otherwise ``gloo``.
        store: rank 0's own store, from :func:`serve`; the others connect.
        patience: seconds before a wait for the others fails.

    Raises:
        WorkerLost: the others did not come in time.
    """

    def __init__(
        self,
        place: Rendezvous,
        rank: int,
        width: int,
        *,
        backend: str = "gloo",
        store: Any = None,
        patience: float = PATIENCE,
    ) -> None:
        self.rank = rank
        self.width = width
        self._open = True
        timeout = timedelta(seconds=patience)
        _use_loopback(place.host)
        with self.guarded():
            if store is None:
                store = TCPStore(place.host, place.port, is_master=False, timeout=timeout)
            dist.init_process_group(backend, store=store, rank=rank, world_size=width, timeout=timeout)
            # Flags, sums and norms travel apart from the gradients, so that neither waits for the other's order.
            self._control = dist.new_group(backend="gloo", timeout=timeout)
            self._norms = dist.new_group(timeout=timeout)
        self._store = store

    def wrap(self, model: nn.Module, *, sync_norm: bool, communication: "Communication | None" = None) -> nn.Module:
        """Return the model under DistributedDataParallel, its weights those of rank 0."""
        if sync_norm:
            model = synchronise_norms(model, self._norms)
        if not any(p.requires_grad for p in model.parameters()):
            return model
        # One input channel makes strides ambiguous, which DDP warns of; the copy it makes is right.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        options = communication.options(dist.get_backend()) if communication else {}
        called = DistributedDataParallel(model, gradient_as_bucket_view=True, **_QUIET_BUFFERS, **options)
        if communication:
            communication.attach(called)
        return called

    def agree(self, flags: Sequence[bool]) -> tuple[bool, ...]:
        """Return for each flag whether any rank raised it; one small message."""
        raised = torch.tensor([float(flag) for flag in flags])
        dist.all_reduce(raised, dist.ReduceOp.MAX, group=self._control)
        return tuple(bool(flag) for flag in raised.tolist())

    def total(self, values: Tensor) -> Tensor:
        """Return the elementwise sum over the ranks, on the host."""
        summed = values.detach().cpu().clone()
        dist.all_reduce(summed, group=self._control)
        return summed

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks in the order of the ranks, on the host."""
        mine = rows.detach().cpu().contiguous()
        sizes = torch.zeros(self.width, dtype=torch.int64)
        sizes[self.rank] = len(mine)
        dist.all_reduce(sizes, group=self._control)
        longest = int(sizes.max())
        padded = mine.new_zeros((longest, *mine.shape[1:]))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in range(self.width)]
        dist.all_gather(parts, padded, group=self._control)
        return torch.cat([part[:size] for part, size in zip(parts, sizes.tolist(), strict=True)])

    def settle(self, model: nn.Module) -> None:
        """Average the floating-point buffers over the ranks."""
        buffers = [b for b in model.buffers() if b.is_floating_point()]
        if buffers:
            mean = self.total(torch.cat([b.flatten() for b in buffers])) / self.width
            for buffer, part in zip(buffers, torch.split(mean, [b.numel() for b in buffers]), strict=True):
                buffer.copy_(part.view_as(buffer))

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn the failure of a collective call into :class:`WorkerLost`."""
        try:
            yield
        except (dist.DistError, RuntimeError) as error:
            if isinstance(error, dist.DistError) or _is_collective(str(error)):
                raise WorkerLost(f"rank {self.rank} lost contact with the others: {error}") from error
            raise

    def close(self) -> None:
        """Leave the group; idempotent, and quiet when the others are gone already."""
        if self._open:
            self._open = False
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()
            del self._store


def _is_collective(message: str) -> bool:
    return any(word in message for word in ("gloo", "NCCL", "Connection closed by peer", "TCPStore", "connectFullMesh"))


def _use_loopback(host: str) -> None:
    """Let gloo use the loopback device when all ranks are on this machine: its host name may not resolve."""
    if host in ("127.0.0.1", "localhost") and sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def plain(model: nn.Module) -> nn.Module:
    """Return the network inside what :meth:`Group.wrap` returned."""
    return model.module if isinstance(model, DistributedDataParallel) else model
