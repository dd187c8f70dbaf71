"""What the pool keeps of its workers and of the jobs that run on them. No Ray here."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from detol.search.records import Job, Report, State
from detol.workers.elastic.roll import Roll
from detol.workers.outcome import decisive


@dataclass(frozen=True)
class Finish:
    """How one rank's part of a job ended.

    Args:
        state: final, or PAUSED.
        reason: one line.
        weights: of rank 0, where there are any; of a PAUSED job its checkpoint.
        extra: facts for the record.
        recycle: whether the process should be replaced.
        kept: whether it keeps its process group for another job of the same ranks.
        died: whether its process is gone.
        spoke: whether it was the rank that hands over the results, as it ended.
    """

    state: State
    reason: str = ""
    weights: bytes | None = None
    extra: dict[str, str | float | int] = field(default_factory=dict)
    recycle: bool = False
    kept: bool = False
    died: bool = False
    spoke: bool = True


@dataclass(frozen=True)
class About:
    """Where a worker is: process id, host name, Ray node, device; and what a person should know of it."""

    pid: int
    host: str
    node: str
    device: str
    warning: str = ""


NOWHERE = About(0, "", "", "")


@dataclass
class Seat:
    """The place of one worker in the pool; the process in it may change. States: starting, idle, busy, broken."""

    number: int
    state: str = "starting"
    actor: Any = None
    about: About = NOWHERE


@dataclass
class Run:
    """A job that runs: who runs it, and when it is overdue (``time.monotonic``).

    Args:
        ticket: its number among all runs of the pool.
        job: what runs.
        seats: of its ranks, as they were numbered when it began.
        deadline: when it is overdue.
        group: name of the process group of its ranks.
        roll: of its ranks.
        cancelled: whether it was asked to stop.
        epoch: the last one that was reported.
        finishes: how its ranks ended, so far.
        released: the ranks whose workers it has given back already.
    """

    ticket: int
    job: Job
    seats: list[Seat]
    deadline: float
    roll: Roll
    group: int = 0
    cancelled: bool = False
    epoch: int = 0
    finishes: dict[int, Finish] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)

    @property
    def ranks(self) -> range:
        """Its ranks, as they were numbered when it began."""
        return range(len(self.seats))

    def hurry(self, seconds: float) -> None:
        """Let it be overdue after so many seconds at the latest."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def new(self, report: Report) -> bool:
        """Return whether a report is not known yet: a rank that becomes the first one says again what it knows."""
        if report.epoch <= self.epoch:
            return False
        self.epoch = report.epoch
        return True

    def overdue(self) -> Finish:
        """Return how a rank ended that had to be killed."""
        if any(not finish.state.scored for finish in self.finishes.values()):
            return Finish(State.LOST, "did not notice that another rank had failed", recycle=True, died=True)
        if self.cancelled:
            reason = "did not stop in time: its process was killed"
            return Finish(State.STOPPED, reason, recycle=True, died=True)
        reason = f"hung past its limit of {self.job.limit:g} s: its process was killed"
        return Finish(State.TIMED_OUT, reason, recycle=True, died=True)

    @property
    def speaker(self) -> int:
        """The rank that speaks for all: of those that handed over results the last one that was the first, by the roll.

        The others may have ended before they knew that they go on without the first: then nobody has, and it is one
        that is lost.
        """
        spoke = [rank for rank, finish in self.finishes.items() if finish.state.scored and finish.spoke]
        left = [rank for rank in spoke if rank not in self.roll.lost]
        scored = any(finish.state.scored for finish in self.finishes.values())
        if self.roll.first in left or not self.roll.lost or not scored:
            return self.roll.first
        return max(left) if left else self.roll.lost[-1]

    def outcome(self) -> tuple[State, str, Finish]:
        """Return the state and the reason of the whole job, and how its first rank ended, which speaks for it.

        Ranks that died decide nothing when the others went on without them.
        """
        first = self.speaker
        ends: Mapping[int, Finish] = {r: f for r, f in self.finishes.items() if r not in self.roll.lost}
        if not any(finish.state.scored for finish in ends.values()):
            ends = self.finishes
        state = decisive(finish.state for finish in ends.values())
        if state.scored and first in self.roll.lost:
            return State.LOST, f"rank {first} died before it had handed over its results", self.finishes[first]
        # Of ranks that ended alike, the one whose process is gone tells why.
        alike = sorted(rank for rank, finish in ends.items() if finish.state is state)
        rank = min(alike, key=lambda rank: not ends[rank].recycle)
        finish = ends[rank]
        told = finish.reason if rank == first or self.job.width == 1 else f"rank {rank}: {finish.reason}"
        return state, told if finish.reason else "", ends.get(first, finish)


def end_process(pid: int) -> None:
    """Kill a process of this machine, also one that is stopped; not there any more is as good."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def spawn(target: Any, name: str, *arguments: Any) -> threading.Thread:
    """Start a daemon thread."""
    thread = threading.Thread(target=target, args=arguments, name=f"detol-{name}", daemon=True)
    thread.start()
    return thread


def node_shared(seats: list[Seat]) -> bool:
    """Return whether all of some workers are on one node."""
    return len({seat.about.node for seat in seats}) == 1
