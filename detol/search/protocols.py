"""The seams of detol, as contracts. Each has a suite in ``tests/contracts`` that runs over every implementation.

Threads and ownership: the controller runs in one thread and owns the strategy, the stopper, the store and the executor;
none of them is called from two threads. A tracker may have a thread or process of its own behind its methods. Workers
hold none of them: they get a :class:`~detol.search.records.Job` and answer with events.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from detol.graph.topology import Topology
from detol.search.records import Candidate, Event, Job, Trial, Verdict
from detol.search.widths import Leg, Situation, Width
from detol.spaces.decisions import Choice, Decisions

Telling: TypeAlias = int | tuple[int, int]
"""What a strategy was told of: the number of a trial that had ended, or (number, epoch) of one that rested there."""


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds the lease on a training: a search, and the seed it trains with."""

    search: str
    seed: int


@runtime_checkable
class SearchSpace(Protocol):
    """A set of topologies, described by the decisions that lead to each.

    Pure: the same arguments give the same answer; ``rng`` is the only source of randomness and is used.
    """

    @property
    def name(self) -> str:
        """Unique name."""
        ...

    @property
    def size(self) -> int | None:
        """How many decision sequences there are; ``None`` when the space is not finite or too large to count."""
        ...

    @property
    def references(self) -> Mapping[str, Decisions]:
        """Hand-designed topologies by name, tried first by every search."""
        ...

    def next(self, decided: Decisions) -> Choice | None:
        """Return the choice that is open after ``decided`` (a prefix, in order), or ``None`` when all are taken."""
        ...

    def sample(self, rng: np.random.Generator) -> Decisions:
        """Draw decisions; every sequence has a positive probability."""
        ...

    def mutate(self, decisions: Decisions, rng: np.random.Generator) -> Decisions:
        """Change one decision (and what depends on it); never returns equal decisions unless there is no other."""
        ...

    def cross(self, first: Decisions, second: Decisions, rng: np.random.Generator) -> Decisions:
        """Take each decision from one of two parents, valid as a whole."""
        ...

    def neighbours(self, decisions: Decisions) -> Iterator[Decisions]:
        """Yield all decisions that differ in one choice (dependent choices take their parent's or first option)."""
        ...

    def decode(self, decisions: Decisions) -> Topology:
        """Return the topology of complete decisions.

        Raises:
            SpaceError: decisions that are not complete or take an option that is not open.
        """
        ...

    def enumerate(self) -> Iterator[Decisions]:
        """Yield every decision sequence once, lazily."""
        ...

    def __contains__(self, topology: Topology) -> bool:
        """Return whether some decisions decode into a topology of the same digest."""
        ...


@runtime_checkable
class Strategy(Protocol):
    """Proposes and learns; never runs, waits, logs or saves.

    Order of calls: any mixture of ``ask`` and ``tell``; a trial is told when it is final, whatever its state, and also
    each time it pauses before that (the later telling replaces the earlier one); at any time any number of asked
    candidates may not have been told yet (*pending*). Its state is a function of its arguments and of the sequence of
    calls, so that replaying the sequence rebuilds it. No identity (the digest, unless the strategy was given another)
    is proposed twice, nor one that was told without being asked (references).

    It may have an attribute ``measures``: names of what workers measure of each network that completed its training
    (``detol.workers.measures``); the results are JSON texts in the extra facts of the trials it is told. And one
    ``childless``: true where no candidate names parents, so that there is nothing that ``--inherit`` could take over.
    """

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return at most ``count`` (>= 1) candidates; none means that the space is exhausted, never "wait"."""
        ...

    def tell(self, trials: Sequence[Trial]) -> None:
        """Learn from final and paused trials, also from ones it did not propose."""
        ...


@runtime_checkable
class Stopper(Protocol):
    """Judges a running trial after each report. Pure: no clock, no writes, no randomness.

    It may have a method ``facts(trial)``: what the record of a new trial shall say (``Trial.extra``), which is there
    whenever it is asked about that trial later.
    """

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return what to do with ``trial``, whose last report is new; ``peers`` are all other trials of the search."""
        ...


@runtime_checkable
class Pauser(Stopper, Protocol):
    """A stopper that also pauses: trials rest at milestones, and the best of those that rest go on. Pure as well.

    A trial is submitted up to its milestone, and is PAUSED there, its whole state kept. ``judge`` is asked at each
    report; at the milestone CONTINUE lets it go on at once, PAUSE lets it rest. Whenever a worker is free, ``promote``
    is asked before the strategy is.
    """

    def milestone(self, trial: Trial) -> int:
        """Return the epoch at which ``trial`` (new, or resting) is looked at next, in (trial.epoch, trial.epochs].

        It is also asked about epochs to come, for the last milestone of a trial: the curve is NaN then, and the reports
        are without metrics.
        """
        ...

    def promote(self, paused: Sequence[Trial], peers: Iterable[Trial]) -> int | None:
        """Return the number of the resting trial that goes on now, or ``None``; ``peers`` are all other trials."""
        ...


@runtime_checkable
class Widths(Protocol):
    """Chooses how many ranks train a trial. Pure: no clock, no writes, no randomness.

    It is asked whenever a trial starts or goes on, and again at each turn for one that it lets wait. So that a search
    always goes on, an answer is at most ``situation.workers``, and at most ``situation.free`` while nothing runs.
    """

    def choose(self, leg: Leg, situation: Situation) -> Width:
        """Return the ranks of the trial on this leg, >= 1, and why; more than are free: it waits for them."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Runs jobs somewhere and says how they go.

    Every submitted job ends with exactly one ``Ended``, whatever happens to it; nothing of it follows after that. The
    reports of one job arrive in the order of their epochs. No method blocks longer than ``timeout``.
    """

    def free(self) -> int:
        """Return how many ranks could start now."""
        ...

    def submit(self, job: Job) -> None:
        """Start a job of ``job.width`` <= ``free()`` ranks."""
        ...

    def cancel(self, number: int) -> None:
        """Ask a trial to stop; idempotent, unknown numbers are ignored. ``Ended`` follows (STOPPED, or what it was)."""
        ...

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return what happened, waiting up to ``timeout`` seconds for a first event; empty when nothing did."""
        ...

    def close(self) -> None:
        """Stop everything and give all back; idempotent. No events after it."""
        ...


@runtime_checkable
class Store(Protocol):
    """The record of one search in the results database. One writer: the controller. Workers never open it.

    Changes become durable together at ``commit``; a crash before it leaves the state of the last ``commit``.
    """

    def add(self, trial: Trial) -> None:
        """Record a new trial; its number must be new in the search."""
        ...

    def record(self, trial: Trial, event: Event | None = None) -> None:
        """Record the new state of a known trial and, where one led to it, the event (a report is added once)."""
        ...

    def step(self, asked: int, told: Sequence[Telling]) -> None:
        """Log that the strategy was told these trials and then asked for ``asked`` candidates (0: not asked)."""
        ...

    def steps(self) -> Sequence[tuple[int, Sequence[Telling]]]:
        """Return what ``step`` logged, in order: pairs (asked, told)."""
        ...

    def spend(self, seconds: float) -> None:
        """Add to the consumed time of the search."""
        ...

    def commit(self) -> None:
        """Make everything so far durable, all or nothing."""
        ...

    def trials(self) -> Sequence[Trial]:
        """Return the trials of this search by number."""
        ...

    @property
    def name(self) -> str:
        """Name of the search."""
        ...

    def known(
        self,
        digest: str,
        recipe: str,
        data: str,
        epochs: int,
        topology: Topology | None = None,
        *,
        unfinished: bool = False,
        any_length: bool = False,
    ) -> Sequence[Trial]:
        """Return finished scored trials of any search with this topology, recipe, data and schedule length.

        A hit on the digest is confirmed by an exact isomorphism check against ``topology`` where it is given.
        ``unfinished``: those that rest as well. ``any_length``: whatever the length of their schedule.

        Their ``reused`` says where each one stands (``SEARCH/NUMBER``). Completed ones come first, then by epochs.
        """
        ...

    def lease(self, trial: Trial) -> "Held | None":
        """Take the lease on the training of a trial (topology, recipe, data, schedule length), durable at once.

        A lease ends when it is released, when its search ends or its controller dies, or when no commit of its search
        has renewed it for some minutes. Taking one's own again is no error.

        Returns:
            Who holds it; ``None``: this search does from now on.
        """
        ...

    def release(self, trial: Trial) -> None:
        """Give back the lease on the training of a trial at the next ``commit``, with its result; idempotent."""
        ...


@runtime_checkable
class Tracker(Protocol):
    """A mirror of the search for people. It may lag or fail: it warns once, and the search goes on."""

    def record(self, trial: Trial, event: Event | None) -> None:
        """Show the trial's new state (``event`` is what led to it; ``None`` when it was added or answered)."""
        ...

    def finish(
        self, best: Trial | None, summary: Mapping[str, Any], export: Path | None = None, report: Path | None = None
    ) -> None:
        """Show the end of the search: its winner, its figures, and the files that were exported of the winner.

        ``export`` is a directory and ``report`` a file; they must stay until ``close`` returns.
        """
        ...

    def close(self) -> None:
        """Write what is left, then stop; idempotent."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """Keeps the weights of the trials worth keeping and the checkpoints of those that rest, and nothing else."""

    def keep(self, trial: Trial, weights: bytes) -> str:
        """Store a finished trial's weights (safetensors) whole or not at all.

        Returns:
            Where they are, relative to the directory of the runs; empty when they are not worth keeping.
        """
        ...

    def rest(self, trial: Trial, checkpoint: bytes) -> str:
        """Store the checkpoint of a trial that pauses, whole or not at all; an earlier one of it stays.

        Returns:
            Where it is, for ``load`` and ``drop``; empty when it could not be stored.
        """
        ...

    def stay(self, trial: Trial, place: str) -> str:
        """Keep the checkpoint of a trial that was stopped, for later searches that come to the same training.

        Also for children that take over its weights when this search goes on for longer.

        Returns:
            ``place``; empty when it is not worth keeping (it is dropped later), or not a checkpoint of this keeper.
        """
        ...

    def load(self, place: str) -> bytes | None:
        """Return a stored checkpoint, or weights, or ``None`` when they are no longer there as they were stored.

        Also those that another search left.
        """
        ...

    def drop(self, place: str) -> None:
        """Remove a stored checkpoint; idempotent. What another search left stays."""
        ...


class Clock(Protocol):
    """Time as an object, so that a simulated search of hours runs in seconds on the same code."""

    def now(self) -> float:
        """Return seconds since some fixed moment; never falls."""
        ...

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass: there is nothing to do but to wait for another search."""
        ...
