"""The connection of one process to its group in torch: formed, torn down, and broken off when a peer is gone."""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _abort_process_group, _set_pg_timeout

from detol.errors import WorkerLost
from detol.workers.elastic.plan import Rendezvous
from detol.workers.elastic.sockets import Address, cut, interface, listening

TCPStore: Any = dist.TCPStore  # type: ignore[attr-defined]  # torch's stubs forget it
PrefixStore: Any = dist.PrefixStore  # type: ignore[attr-defined]  # likewise
FORMING = 20.0
"""Seconds that forming a group takes at most once all of its ranks are there."""
_NCCL = {
    # Who aborts, and when, is decided here: torch's own threads would end the whole process.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}
INTERFACE = "GLOO_SOCKET_IFNAME"
"""Environment variable with the network interface that gloo uses."""
SLICE = 2.0
"""Seconds between two looks whether the store of a group is still the one to join."""
_chosen = ""
_COLLECTIVE_WORDS = ("gloo", "NCCL", "Connection closed by peer", "TCPStore", "connectFullMesh", "Connection reset")


def serve(host: str, patience: float) -> tuple[Any, Rendezvous]:
    """Open the store of a group on a free port; it lives as long as the object does."""
    store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=patience))
    return store, Rendezvous(host, store.port)


def backend(device: str, *, own_device: bool) -> tuple[str, str]:
    """Return the backend for the gradients of ranks on a device, and a warning where it is not the quickest.

    Args:
        device: ``cpu`` or ``cuda``.
        own_device: whether each rank has a device of its own, as NCCL demands.
    """
    if device != "cuda":
        return "gloo", ""
    if not own_device:
        return "gloo", "several ranks share a GPU, which NCCL does not do: gradients travel by gloo, through the host"
    if not dist.is_nccl_available():
        return "gloo", "this torch has no NCCL: gradients travel by gloo, through the host, which is slower"
    return "nccl", ""


def is_collective(error: BaseException) -> bool:
    """Return whether an error is the failure of a call that several ranks make together."""
    if isinstance(error, dist.DistError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _COLLECTIVE_WORDS)


class Connection:
    """One formed group.

    Args:
        store: where the ranks find each other; of this group alone.
        rank: of this process, from 0.
        width: how many ranks there are, >= 1.
        backend: ``nccl`` or ``gloo``, of the gradients.
        patience: seconds before a wait for the others fails.
        forming: seconds that forming the group may take; all ranks are there.

    Attributes:
        control: a gloo group for flags, sums and state, apart from the gradients, so that neither waits for the other.
        norms: one for the statistics of batch norm.
    """

    def __init__(
        self, store: Any, rank: int, width: int, *, backend: str, patience: float, forming: float = FORMING
    ) -> None:
        self._guard, self._open, self._aborted, self._backend = threading.Lock(), True, False, backend
        timeout = timedelta(seconds=min(forming, patience))
        if backend == "nccl":
            for name, value in _NCCL.items():
                os.environ.setdefault(name, value)
        before = listening()
        self._mine: set[Address] = set()
        self._theirs: set[Address] = set()
        dist.init_process_group(backend, store=store, rank=rank, world_size=width, timeout=timeout)
        try:
            self.control = dist.new_group(backend="gloo", timeout=timeout)
            self.norms = dist.new_group(timeout=timeout)
            self._learn_addresses(store, rank, width, listening() - before)
            for group in (None, self.control, self.norms):
                _set_pg_timeout(timedelta(seconds=patience), group)
        except BaseException:
            self.close()
            raise

    def _learn_addresses(self, store: Any, rank: int, width: int, mine: set[Address]) -> None:
        """Learn which of this process's connections are those of the group."""
        store.set(f"listens-{rank}", json.dumps(sorted(mine)))
        self._mine = mine
        for other in range(width):
            if other != rank:
                self._theirs |= {(host, port) for host, port in json.loads(store.get(f"listens-{other}"))}

    def abort(self, before: Callable[[], None] | None = None) -> None:
        """Let calls that wait for a peer fail, here and at the peer; from any thread, idempotent.

        NCCL's kernels wait on the device for ever, so its communicators are aborted. gloo's connections are cut.

        Args:
            before: called first, unless the group is torn down already.
        """
        with self._guard:
            if not self._open:
                return
            try:
                if before is not None:
                    before()
            finally:  # whatever became of that, others wait
                self._aborted = True
                cut(self._mine, self._theirs)
                if self._backend == "nccl":
                    with contextlib.suppress(Exception):  # half formed, or aborted already
                        self._abort_nccl()

    def _abort_nccl(self) -> None:
        cuda = torch.device("cuda")
        backends: list[Any] = [
            group._get_backend(cuda) for group in (dist.group.WORLD, self.norms) if group is not None
        ]
        # All at once: the abort of one communicator may wait for that of another (pytorch/pytorch#119797).
        backends[0]._group_start()
        for each in backends:
            each.abort()
        backends[0]._group_end()

    def close(self) -> None:
        """Tear the group down; idempotent, and quiet when the others are gone already."""
        with self._guard:
            if not self._open:
                return
            self._open = False
            # What was aborted has nothing to wait for: that would be what an orderly end of NCCL does.
            leave = _abort_process_group if self._aborted and self._backend == "nccl" else dist.destroy_process_group
            with contextlib.suppress(RuntimeError, ValueError, AssertionError):
                leave()


def meet(place: Rendezvous, patience: float, superseded: Callable[[], bool]) -> Any:
    """Return the store of a group that another process serves, once it answers.

    Torch's own wait for one that does not cannot be interrupted, so it is tried in slices.

    Args:
        place: where it is served.
        patience: seconds before that is given up; of all calls of the store too.
        superseded: whether another group is to be formed by now.

    Raises:
        WorkerLost: it did not answer in time, or another group is to be formed.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            store = TCPStore(place.host, place.port, is_master=False, timeout=timedelta(seconds=min(SLICE, patience)))
        except (RuntimeError, ValueError) as error:
            if superseded():
                raise WorkerLost("another group is to be formed") from error
            if time.monotonic() > deadline:
                raise WorkerLost(f"nobody answered at {place.host}:{place.port} within {patience:g} s") from error
        else:
            store.set_timeout(timedelta(seconds=patience))
            return store


def choose_interface(host: str) -> None:
    """Let gloo use the interface by which a host is reached; one that the user names in the environment stays.

    By default it takes the one that this machine's name resolves to: loopback, often, or none at all.
    """
    global _chosen  # of this process, as the environment is
    name = os.environ.get(INTERFACE, "")
    if sys.platform != "linux" or name != _chosen:
        return
    _chosen = interface(host)
    if _chosen:
        os.environ[INTERFACE] = _chosen
    else:
        os.environ.pop(INTERFACE, None)
