"""The far side of the pool: a warm process that runs one job after the other. Started by :mod:`detol.workers.pool`."""

import gc
import importlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import ray

from detol.search.records import Job, Report, State
from detol.workers.entry import Entry, Progress
from detol.workers.outcome import outcome

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset
    from detol.workers.group import Group, Rendezvous

TRAINING = "detol.workers.train:run"
LEAK = 16 * 2**20
"""Bytes of device memory above the baseline after which a worker is replaced."""


@dataclass(frozen=True)
class Finish:
    """How one rank's part of a job ended.

    Args:
        state: final, or PAUSED.
        reason: one line.
        weights: of rank 0, where there are any; of a PAUSED job its checkpoint.
        extra: facts for the record.
        recycle: whether the process should be replaced.
    """

    state: State
    reason: str = ""
    weights: bytes | None = None
    extra: dict[str, str | float | int] = field(default_factory=dict)
    recycle: bool = False


@dataclass(frozen=True)
class About:
    """Where a worker is: process id, host name, Ray node, device."""

    pid: int
    host: str
    node: str
    device: str


class Worker:
    """A process that holds the data set and trains.

    ``run`` has a thread of its own; ``stop`` and ``serve`` (concurrency group ``control``) are answered while it works.

    Args:
        data: without its test split; its arrays lie in shared memory and are read-only. ``None`` for entries that need
            none.
        entry: what runs a job: a callable, or ``module:function``.
        device: ``cpu`` or ``cuda``.
        own_device: whether no other worker uses the same device.
        threads: of torch.
        weights: whether trained weights are sent back (checkpoints always are).
    """

    def __init__(
        self,
        data: "Dataset | None",
        *,
        entry: "str | Entry" = TRAINING,
        device: str = "cpu",
        own_device: bool = False,
        threads: int = 1,
        weights: bool = True,
    ) -> None:
        from detol.workers.tensors import load, use_threads

        use_threads(threads)
        self._entry = _resolve(entry)
        self._device, self._threads, self._weights = device, threads, weights
        self._backend = "nccl" if device == "cuda" and own_device else "gloo"
        self._data = None if data is None else load(data, device)
        self._stopped: set[int] = set()
        self._stores: dict[int, Any] = {}
        self._baseline = self._allocated()
        # What exists now stays: later collections look at the objects of the last job alone.
        gc.collect()
        gc.freeze()

    def about(self) -> About:
        """Return where this worker is; answers when it is ready."""
        return About(os.getpid(), socket.gethostname(), ray.get_runtime_context().get_node_id(), self._device)

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator,unused-ignore]
    def serve(self, ticket: int, here: bool) -> "Rendezvous":
        """Open the meeting point of a job's ranks; ``here`` tells whether all of them are on this node."""
        from detol.workers.group import serve

        host = "127.0.0.1" if here else ray.util.get_node_ip_address()
        self._stores[ticket], place = serve(host)
        return place

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator,unused-ignore]
    def stop(self, ticket: int) -> None:
        """Let the job end at its next step boundary, also one that has not begun yet."""
        self._stopped.add(ticket)

    def run(self, ticket: int, job: Job, rank: int, place: "Rendezvous | None") -> Iterator[Report | Finish]:
        """Run one rank of a job; yield the reports (rank 0 alone) and at last a :class:`Finish`, whatever happens."""
        from detol.workers.group import Group
        from detol.workers.tensors import use_threads

        use_threads(self._threads)
        group, progress = Group(), Progress(job)
        try:
            group = self._group(ticket, job, rank, place)
            for item in self._entry(job, self._data, group=group, stop=lambda: ticket in self._stopped):
                report = progress.take(item)
                if report and rank == 0:
                    yield report
            state, reason = progress.state(ticket in self._stopped)
        except Exception as error:  # a trial's failure is a result
            state, reason = outcome(error)
        group.close()
        self._stopped = {later for later in self._stopped if later > ticket}
        self._stores.pop(ticket, None)
        weights = progress.weights if state.scored and (self._weights or progress.paused) else None
        extra = {"device": self._device, **progress.facts}
        yield Finish(state, reason, weights, extra, recycle=self._spoilt(state))

    def _group(self, ticket: int, job: Job, rank: int, place: "Rendezvous | None") -> "Group":
        from detol.workers.group import Group, ProcessGroup

        if place is None:
            return Group()
        return ProcessGroup(place, rank, job.width, backend=self._backend, store=self._stores.get(ticket))

    def _spoilt(self, state: State) -> bool:
        gc.collect()
        return state is State.OUT_OF_MEMORY or self._allocated() > self._baseline + LEAK

    def _allocated(self) -> int:
        if self._device != "cuda":
            return 0
        import torch

        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated()


def _resolve(entry: "str | Entry") -> "Entry":
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return cast("Entry", getattr(importlib.import_module(module), name))
