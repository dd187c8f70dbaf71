"""The far side of the pool: a warm process that runs one job after the other. Started by :mod:`detol.workers.pool`."""

import gc
import importlib
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import ray

from detol.errors import WorkerLost
from detol.search.records import Job, Report, State
from detol.workers.elastic.plan import Orders, Plan, Pulse, Rendezvous
from detol.workers.entry import Entry, Progress
from detol.workers.outcome import outcome
from detol.workers.seats import About, Finish

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset
    from detol.workers.group import Group
    from detol.workers.process_group import ProcessGroup

TRAINING = "detol.workers.training_job:run"
_TOGETHER = (State.DIVERGED, State.TIMED_OUT)
"""Ends on which all ranks agree at a step boundary, beside those that carry a score."""
LEAK = 16 * 2**20
"""Bytes of device memory above the baseline after which a worker is replaced."""


class Worker:
    """A process that holds the data set and trains.

    ``run`` has a thread of its own; what is in the concurrency group ``control`` is answered while it works.

    Args:
        data: without its test split; its arrays lie in shared memory and are read-only. ``None`` for entries that need
            none.
        entry: what runs a job: a callable, or ``module:function``.
        device: ``cpu`` or ``cuda``.
        own_device: whether no other worker uses the same device.
        threads: of torch.
        weights: whether trained weights are sent back (checkpoints always are).
        patience: seconds before a wait for other ranks fails.
        wide: whether it may train with others: what that needs is loaded at the start.
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
        patience: float = 120.0,
        wide: bool = False,
    ) -> None:
        from detol.workers.elastic.connection import backend
        from detol.workers.tensors import load, use_threads

        use_threads(threads)
        self._entry = _resolve(entry)
        self._device, self._threads, self._weights = device, threads, weights
        self._backend, self._warning = backend(device, own_device=own_device)
        self._patience = patience
        self._data = None if data is None else load(data, device)
        self._stopped: set[int] = set()
        self._stores: dict[int, list[Any]] = {}
        self._orders: dict[int, Orders] = {}
        self._groups: dict[int, Group] = {}
        self._kept: tuple[int, ProcessGroup] | None = None
        if wide:
            # DistributedDataParallel loads it when it is made for the first time.
            importlib.import_module("torch._dynamo")
        self._baseline = self._allocated()
        # What exists now stays: later collections look at the objects of the last job alone.
        gc.collect()
        gc.freeze()

    def about(self) -> About:
        """Return where this worker is; answers when it is ready."""
        node = ray.get_runtime_context().get_node_id()
        return About(os.getpid(), socket.gethostname(), node, self._device, self._warning)

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator,unused-ignore]
    def serve(self, ticket: int, here: bool) -> "Rendezvous":
        """Open a meeting point for a job's ranks; ``here`` tells whether all of them are on this node."""
        from detol.workers.process_group import serve

        host = "127.0.0.1" if here else ray.util.get_node_ip_address()
        store, place = serve(host)
        self._stores.setdefault(ticket, []).append(store)
        return place

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator,unused-ignore]
    def stop(self, ticket: int) -> None:
        """Let the job end at its next step boundary, also one that has not begun yet."""
        self._stopped.add(ticket)

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator,unused-ignore]
    def pulse(self, ticket: int) -> "Pulse":
        """Return a sign of life, with how far the job has come."""
        group = self._groups.get(ticket)
        return group.pulse() if group else Pulse()

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator,unused-ignore]
    def regroup(self, ticket: int, plan: "Plan", place: "Rendezvous | None") -> None:
        """Let the survivors of a job's ranks meet at a place, or give the job up when there is none."""
        plan = replace(plan, place=place)
        group = self._groups.get(ticket)
        if group:
            group.interrupt(plan)
        else:
            self._orders.setdefault(ticket, Orders()).give(plan)

    def run(self, ticket: int, job: Job, rank: int, name: int, place: "Rendezvous | None") -> Iterator[Report | Finish]:
        """Run one rank of a job; yield the reports (rank 0 alone) and at last a :class:`Finish`, whatever happens.

        Args:
            ticket: of the job.
            job: what runs.
            rank: of this worker.
            name: of the process group.
            place: where its ranks meet; ``None``: they have met for an earlier job, or there is one alone.
        """
        from detol.workers.group import Group
        from detol.workers.tensors import use_threads

        use_threads(self._threads)
        group, progress = Group(), Progress(job)
        untold: list[Report] = []
        try:
            group = self._groups[ticket] = self._group(ticket, job, rank, name, place)
            with group.guarded():
                for item in self._entry(job, self._data, group=group, stop=lambda: ticket in self._stopped):
                    report = progress.take(item)
                    untold += [report] if report else []
                    # A rank may have become the first: what the one before it may have said is said again.
                    while untold and group.rank == 0:
                        yield untold.pop(0)
            state, reason = progress.state(ticket in self._stopped)
        except Exception as error:  # a trial's failure is a result
            state, reason = outcome(error)
        facts, spoke = group.facts(), group.rank == 0
        group.rest()
        recycle = self._spoilt(state)
        kept = self._leave(group, name, clean=not (recycle or facts) and (state.scored or state in _TOGETHER))
        self._groups.pop(ticket, None)
        # Copied first: the control thread may add to them meanwhile.
        self._orders = {later: orders for later, orders in list(self._orders.items()) if later > ticket}
        self._stores = {one: stores for one, stores in list(self._stores.items()) if one > ticket or self._holds(one)}
        self._stopped = {later for later in list(self._stopped) if later > ticket}
        weights = progress.weights if state.scored and (self._weights or progress.paused) else None
        extra = {"device": self._device, **progress.facts, **facts}
        yield Finish(state, reason, weights, extra, recycle=recycle, kept=kept, spoke=spoke)

    def _group(self, ticket: int, job: Job, rank: int, name: int, place: "Rendezvous | None") -> "Group":
        from detol.workers.group import Group
        from detol.workers.process_group import ProcessGroup

        if job.width == 1:
            return Group()
        orders = self._orders.setdefault(ticket, Orders())
        if place is None and self._kept and self._holds(name):
            self._kept[1].begin(orders)
            return self._kept[1]
        self._part()
        if place is None:
            raise WorkerLost("the process group of an earlier trial is gone")
        return ProcessGroup(place, rank, job.width, backend=self._backend, patience=self._patience, orders=orders)

    def _leave(self, group: "Group", name: int, *, clean: bool) -> bool:
        """Keep the group of a job that is over, if all of its ranks came to this end together; otherwise close it."""
        from detol.workers.process_group import ProcessGroup

        if not isinstance(group, ProcessGroup):
            return False
        if clean:
            self._kept = name, group
            return True
        group.close()
        self._part()
        self._stores.pop(name, None)
        return False

    def _holds(self, name: int) -> bool:
        return self._kept is not None and self._kept[0] == name

    def _part(self) -> None:
        """Close the group that was kept."""
        if self._kept:
            name, group = self._kept
            self._kept = None
            group.close()
            self._stores.pop(name, None)

    def _spoilt(self, state: State) -> bool:
        gc.collect()
        return state is State.OUT_OF_MEMORY or self._allocated() > self._baseline + LEAK

    def _allocated(self) -> int:
        if self._device != "cuda":
            return 0
        import torch

        # The workspaces of cuBLAS (32 MiB on a Hopper, for each stream and thread) belong to no trial.
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()
        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated()


def _resolve(entry: "str | Entry") -> "Entry":
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return cast("Entry", getattr(importlib.import_module(module), name))
