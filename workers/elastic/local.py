"""The ranks of one trial as processes of this machine, watched over as the pool does it on Ray: its double without Ray.

The calling thread watches. In each process one thread runs the trial and another answers for it.
"""

import contextlib
import importlib
import importlib.util
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, cast

from detol.errors import WorkerLost
from detol.workers.elastic.plan import Orders, Plan, Pulse, Rendezvous
from detol.workers.elastic.roll import Kill, Roll
from detol.workers.outcome import one_line

TICK = 0.25
"""Seconds between two looks at the roll."""


@dataclass(frozen=True)
class Said:
    """What a rank said: an item of its entry, or its end (``done``), with a failure or without."""

    rank: int
    item: Any = None
    done: bool = False
    failure: str = ""


class LocalRanks:
    """Processes that run ``entry(group, *arguments)`` together; iterate over it for what they say.

    The entry is a generator function, given as ``module:function`` or ``FILE.py:function``; its items travel here.
    Processes are forked from one that has loaded torch already, so they start in milliseconds.

    Args:
        width: how many ranks, >= 1.
        entry: what each of them runs.
        arguments: of the entry.
        stall: seconds without a sign of life after which a rank is killed.
        limit: seconds without progress.
        backend: ``gloo``, or ``nccl``: each rank has the CUDA device of its number then.

    Attributes:
        roll: who is present and who was lost.
        pids: of the processes, by rank.
        plans: for a new group, that were made so far.
        kills: that were decided so far.
    """

    def __init__(
        self,
        width: int,
        entry: str,
        *arguments: Any,
        stall: float | None = None,
        limit: float | None = None,
        backend: str = "gloo",
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        # The second is what DistributedDataParallel loads when it is made for the first time.
        context.set_forkserver_preload(["detol.workers.train", "detol.workers.process_group", "torch._dynamo"])
        self.roll = Roll(width, stall=stall, **({} if limit is None else {"limit": limit}))
        self.plans: list[Plan] = []
        self.kills: list[Kill] = []
        self._pipes: dict[int, Pipe] = {}
        self._processes = {}
        for rank in range(width):
            mine, theirs = context.Pipe()
            process = context.Process(target=_child, args=(theirs, rank, width, backend, entry, arguments), daemon=True)
            process.start()
            theirs.close()
            self._pipes[rank], self._processes[rank] = mine, process
        self.pids = {rank: cast("int", process.pid) for rank, process in self._processes.items()}

    def __iter__(self) -> Iterator[Said]:
        """Yield what the ranks say, in the order of arrival, until each has ended, died or been killed."""
        if len(self._pipes) > 1:
            self._send(0, ("serve", Plan(0, tuple(self._pipes))))
        looked = time.monotonic()
        while self._pipes:
            for pipe in wait(list(self._pipes.values()), TICK):
                rank = next(rank for rank, mine in self._pipes.items() if mine is pipe)
                yield from self._receive(rank)
            if time.monotonic() - looked >= TICK:
                looked = time.monotonic()
                self._look(looked)
        for process in self._processes.values():
            process.join()

    def _receive(self, rank: int) -> Iterator[Said]:
        try:
            kind, value = self._pipes[rank].recv()
        except (EOFError, OSError):
            del self._pipes[rank]
            self.roll.died(rank)
            return
        if kind == "pulse":
            self.roll.heard(rank, value)
        elif kind == "place":
            for member in value.members:
                self._send(member, ("plan", value))
        elif kind == "item":
            yield Said(rank, value)
        else:
            del self._pipes[rank]
            self.roll.ended(rank, value)
            yield Said(rank, done=True, failure=value)

    def _look(self, now: float) -> None:
        for act in self.roll.look(now):
            if isinstance(act, Kill):
                self.kills.append(act)
                for rank in act.ranks:
                    os.kill(self.pids[rank], signal.SIGKILL)
                    self._pipes.pop(rank, None)
                continue
            self.plans.append(act)
            if act.members:
                self._send(act.members[0], ("serve", act))
            else:
                for rank in self.roll.present:
                    self._send(rank, ("plan", act))
        for rank in self.roll.present:
            self._send(rank, ("pulse", None))

    def _send(self, rank: int, message: tuple[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it has just died, which is noticed when its pipe is read
            self._pipes[rank].send(message)

    def close(self) -> None:
        """Kill the processes that are left; idempotent."""
        self._pipes.clear()
        for process in self._processes.values():
            process.kill()
            process.join()


class _Rank:
    """The far side: a thread that answers, and the group that it answers for."""

    def __init__(self, pipe: Pipe) -> None:
        self.orders = Orders()
        self.first: Rendezvous | None = None
        self.group: Any = None
        self._pipe, self._guard, self._stores = pipe, threading.Lock(), []  # type: ignore[var-annotated]
        self._met = threading.Event()
        threading.Thread(target=self._answer, name="detol-answers", daemon=True).start()

    def say(self, kind: str, value: Any) -> None:
        with self._guard:
            self._pipe.send((kind, value))

    def meet(self) -> Rendezvous:
        self._met.wait()
        if self.first is None:
            raise WorkerLost("the one who watched over the ranks is gone")
        return self.first

    def _answer(self) -> None:
        from detol.workers.process_group import serve

        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, plan = self._pipe.recv()
                if kind == "pulse":
                    self.say("pulse", self.group.pulse() if self.group else Pulse())
                elif kind == "serve":
                    store, place = serve()
                    self._stores.append(store)
                    self.say("place", Plan(plan.generation, plan.members, place, plan.reason))
                elif plan.generation == 0:
                    self.first = plan.place
                    self._met.set()
                elif self.group:
                    self.group.interrupt(plan)
                else:
                    self.orders.give(plan)
        self._met.set()


def _child(pipe: Pipe, rank: int, width: int, backend: str, entry: str, arguments: tuple[Any, ...]) -> None:
    import torch

    from detol.workers.group import Group
    from detol.workers.process_group import ProcessGroup

    torch.set_num_threads(1)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    own = _Rank(pipe)
    group = Group()
    failure = ""
    try:
        if width > 1:
            group = ProcessGroup(own.meet(), rank, width, backend=backend, orders=own.orders)
        own.group = group
        for item in _resolve(entry)(group, *arguments):
            own.say("item", item)
    except Exception as error:  # a trial's failure is a result
        failure = one_line(f"{type(error).__name__}: {error}")
    # The others learn of the end before they see the connection close.
    own.say("end", failure)
    group.close()


def _resolve(entry: str) -> Any:
    place, _, name = entry.rpartition(":")
    if not place.endswith(".py"):
        return getattr(importlib.import_module(place), name)
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
