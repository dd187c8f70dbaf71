"""Many seeds of several strategies on one table, on all cores."""

import math
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from detol.bench.run import Protocol, Run, identity, run
from detol.bench.statistics import summary
from detol.bench.table import BenchTable
from detol.errors import UsageError
from detol.graph.digest import digest
from detol.search.protocols import SearchSpace, Strategy
from detol.search.warm import WarmSource

Make: TypeAlias = Callable[..., Strategy]
"""``make(name, space, seed=..., identity=..., options=...)``, as :func:`detol.wire.strategy`."""
Warm: TypeAlias = Callable[[int], Sequence[WarmSource]]
"""Returns what a search of a seed knows of other data sets."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many searches are done, and of how many."""


def quiet(done: int, of: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Entry:
    """A strategy in a comparison.

    Args:
        strategy: name.
        options: of its constructor.
        label: what it is called in the answer; by default its name.
        seeds: at most so many searches of it, for strategies that are slow; 0: as many as of the others.
    """

    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    seeds: int = 0

    def searches(self, of: int) -> int:
        """Return how many of so many seeds it is run on."""
        return min(self.seeds, of) if self.seeds else of


@dataclass(frozen=True)
class _Work:
    table: BenchTable
    space: SearchSpace
    protocol: Protocol
    make: Make
    best: str
    warm: Warm | None


_work: _Work | None = None  # what the processes of a pool share; they are forks, so nothing is sent to them


def compare(
    table: BenchTable,
    protocol: Protocol,
    entries: Sequence[Entry],
    make: Make,
    *,
    seeds: int = 100,
    processes: int = 0,
    progress: Progress = quiet,
    warm: Warm | None = None,
) -> list[dict[str, Any]]:
    """Return the figures of each strategy (:func:`detol.bench.statistics.summary`) over seeds 0, 1, ...

    Args:
        table: what answers.
        protocol: bounds and counts.
        entries: what is compared.
        make: how a strategy is made from its name.
        seeds: searches of each strategy, >= 1.
        processes: side by side; 0: as many as there are cores. Each computes on one thread.
        progress: called after each search.
        warm: what each search knows of other data sets; ``None``: nothing.

    Raises:
        UsageError: an unknown strategy or option, no seeds, a table without a row for a candidate, or a strategy of
            which no training ended in any search.
    """
    if seeds < 1:
        raise UsageError(f"--seeds must be >= 1, got {seeds}")
    if processes < 0:
        raise UsageError(f"--processes must be >= 1, or 0 for one a core, got {processes}")
    for entry in entries:  # names and options are checked, and small spaces laid out, before the work starts
        make(entry.strategy, table.space, seed=0, identity=identity(table, protocol), options=entry.options)
    work = _Work(table, table.space, protocol, make, _best_digest(table, protocol), warm)
    found: dict[tuple[int, int], Run] = {}
    searches = sum(entry.searches(seeds) for entry in entries)
    for place, seed, made in _runs(work, entries, seeds, processes or len(os.sched_getaffinity(0))):
        found[place, seed] = made
        progress(len(found), searches)
    longest = max(len(each.rows) for each in found.values())
    for place, entry in enumerate(entries):
        if not any(len(found[place, seed].rows) for seed in range(entry.searches(seeds))):
            raise UsageError(_untrained(entry, table, protocol))
    return [
        summary(
            entry.label or entry.strategy,
            table,
            protocol,
            [found[place, seed] for seed in range(entry.searches(seeds))],
            longest,
        )
        for place, entry in enumerate(entries)
    ]


def _untrained(entry: Entry, table: BenchTable, protocol: Protocol) -> str:
    """Say that a strategy has no figures."""
    called = f"--strategy {entry.label or entry.strategy}"
    if math.isinf(protocol.seconds):
        return f"{called} proposed nothing"
    quickest = f"the quickest of the table takes {table.seconds.min():g}"
    return f"{called}: no training ended within --seconds {protocol.seconds:g} ({quickest}): give more"


def _best_digest(table: BenchTable, protocol: Protocol) -> str:
    if protocol.identity == "row":
        return ""
    for decisions in table.space.enumerate():
        if table.row_of(decisions) == table.best:
            return digest(table.space.decode(decisions))
    return ""


def _runs(work: _Work, entries: Sequence[Entry], seeds: int, processes: int) -> Iterator[tuple[int, int, Run]]:
    global _work
    _work = work
    jobs = [
        (place, entry, seed)
        for seed in range(seeds)
        for place, entry in enumerate(entries)
        if seed < entry.searches(seeds)
    ]
    try:
        if processes == 1 or len(jobs) == 1 or "fork" not in multiprocessing.get_all_start_methods():
            with one_thread():
                for job in jobs:
                    yield _run(*job)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forks with threads: the libraries' are idle here
            context = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context) as pool:
                futures = [pool.submit(_run_alone, *job) for job in jobs]
                try:
                    for future in as_completed(futures):
                        yield future.result()
                finally:
                    pool.shutdown(cancel_futures=True)
    finally:
        _work = None


def _run_alone(place: int, entry: Entry, seed: int) -> tuple[int, int, Run]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of what a strategy loads later (torch)
    with one_thread():
        return _run(place, entry, seed)


def _run(place: int, entry: Entry, seed: int) -> tuple[int, int, Run]:
    assert _work is not None
    work = _work
    known = {} if work.warm is None else {"warm": work.warm(seed)}
    strategy = work.make(
        entry.strategy,
        work.space,
        seed=seed,
        identity=identity(work.table, work.protocol),
        options=entry.options,
        **known,
    )
    return place, seed, run(work.table, strategy, work.protocol, seed=seed, best=work.best)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra use one thread: seeds run side by side."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
