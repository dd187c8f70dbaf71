"""One search on a table: the controller of real searches, over the simulated executor and clock."""

import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.bench.table import BenchTable
from detol.errors import UsageError
from detol.execution.simulated import Charged, SimulatedClock, SimulatedExecutor
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.protocols import Strategy, Telling
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Event, State, Trial, Verdict
from detol.search.task import Task
from detol.tracking.null import NullTracker

IDENTITIES = ("row", "network")


@dataclass(frozen=True, slots=True)
class Protocol:
    """How searches on a table are run and counted.

    Args:
        trials: trainings of each search; infinite where ``seconds`` bound it.
        seconds: simulated seconds of each search; a training that is not over by then does not count.
        workers: simulated workers.
        identity: ``row``: each row of the table is a training of its own, as in the literature; ``network``: rows of
            equal networks are one, never proposed twice.
        charge: whether the strategy's own time passes on the simulated clock.
        until_best: whether a search ends when it has found the table's best; needs ``trials`` alone as the bound. What
            is said of incumbents stays the same, since no later training can replace them; only the duplicates and
            seconds of what would follow are not seen.

    Raises:
        UsageError: a value against its rule, or no bound.
    """

    trials: float = math.inf
    seconds: float = math.inf
    workers: int = 1
    identity: str = "row"
    charge: bool = False
    until_best: bool = False

    def __post_init__(self) -> None:
        if math.isinf(self.trials) and math.isinf(self.seconds):
            raise UsageError("a bench needs a bound: --trials N or --seconds S")
        if self.trials < 1 or not self.seconds > 0:
            raise UsageError(f"a bench runs for --trials >= 1 and --seconds > 0, got {self.trials:g}, {self.seconds:g}")
        if self.until_best and math.isfinite(self.seconds):
            raise UsageError(
                "--until-best goes with --trials alone: with --seconds a search that misses the best counts as the"
                " longest one, which it would cut short"
            )
        if self.identity not in IDENTITIES:
            raise UsageError(f"--identity is one of {', '.join(IDENTITIES)}, got {self.identity!r}")
        if self.workers < 1:
            raise UsageError(f"--workers must be >= 1, got {self.workers}")

    @property
    def name(self) -> str:
        """``async`` with several workers, otherwise ``queries`` or ``seconds`` by what bounds it."""
        return "async" if self.workers > 1 else "queries" if math.isinf(self.seconds) else "seconds"


@dataclass(frozen=True)
class Run:
    """What one search did, in the order in which its trainings ended.

    Args:
        rows: of the table, int64 (n,).
        ends: simulated seconds at which each ended, float64 (n,).
        duplicates: trainings of a network that equals an earlier one.
        utilisation: share of the workers' time in use until the last training started, in [0, 1].
        ask_seconds: real seconds spent in the strategy.
        twins: rows that are the best row's network, as far as they were tried.
        seconds: real seconds of the whole search.
    """

    rows: NDArray[np.int64]
    ends: NDArray[np.float64]
    duplicates: int
    utilisation: float
    ask_seconds: float
    twins: frozenset[int]
    seconds: float = 0.0


def run(table: BenchTable, strategy: Strategy, protocol: Protocol, *, seed: int = 0, best: str = "") -> Run:
    """Run one search.

    Args:
        table: what answers.
        strategy: made for the table's space, with :func:`identity` where rows count.
        protocol: bounds and counts.
        seed: of the search's record; the strategy has its own.
        best: digest of the best row's network.

    Raises:
        UsageError: a candidate has no row.
    """
    start = time.perf_counter()
    clock = SimulatedClock()
    executor = SimulatedExecutor(table, clock, protocol.workers)
    charged = Charged(strategy, clock if protocol.charge else SimulatedClock())
    log = _Log(table, protocol)
    task = Task(
        space=table.space,
        recipe=Recipe(),
        data="table",
        epochs=1,
        objectives=[table.objective],
        seed=seed,
        limits=Limits(trials=protocol.trials, seconds=protocol.seconds),
        references=False,
    )
    Controller(
        task,
        strategy=charged,
        stopper=_Never(),
        executor=executor,
        store=log,
        tracker=NullTracker(),
        keeper=log,
        clock=clock,
        watch=lambda controller: controller.interrupt() if protocol.until_best and log.found(best) else None,
    ).run()
    return Run(
        rows=np.asarray(log.rows, np.int64),
        ends=np.asarray(log.ends, np.float64),
        duplicates=len(log.digests) - len(set(log.digests)),
        utilisation=executor.utilisation,
        ask_seconds=charged.seconds,
        twins=frozenset(r for r, d in zip(log.rows, log.digests, strict=True) if d == best),
        seconds=time.perf_counter() - start,
    )


def identity(table: BenchTable, protocol: Protocol) -> "Any":
    """Return what the strategies of a bench count as the same candidate; ``None`` for the network itself."""

    def row(candidate: Candidate) -> Hashable:
        return table.row(candidate)

    return row if protocol.identity == "row" else None


class _Never:
    """No stopping: a table has final results alone."""

    def judge(self, trial: Trial, peers: Any) -> Verdict:  # noqa: ARG002
        return Verdict.CONTINUE


@dataclass
class _Log:
    """The store and keeper of a bench: of each training it keeps its row and its end, and nothing else."""

    table: BenchTable
    protocol: Protocol
    rows: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    top: float = -math.inf
    name: str = "bench"

    def found(self, best: str) -> bool:
        """Return whether the best row, or one that scores as much or is its network, was trained."""
        return self.top == self.table.scores[self.table.best] or (bool(best) and best in self.digests)

    def add(self, trial: Trial) -> None:
        pass

    def record(self, trial: Trial, event: Event | None = None) -> None:  # noqa: ARG002
        end = trial.extra.get("simulated_end")
        if trial.state is State.COMPLETED and isinstance(end, float) and end <= self.protocol.seconds:
            self.rows.append(self.table.row(trial.candidate))
            self.top = max(self.top, float(self.table.scores[self.rows[-1]]))
            self.ends.append(end)
            self.digests.append(trial.digest)

    def step(self, asked: int, told: Sequence[Telling]) -> None:
        pass

    def spend(self, seconds: float) -> None:
        pass

    def commit(self) -> None:
        pass

    def trials(self) -> Sequence[Trial]:
        return ()

    def steps(self) -> Sequence[tuple[int, Sequence[Telling]]]:
        return ()

    def known(self, *_: object, **__: object) -> Sequence[Trial]:
        return ()

    def lease(self, trial: Trial) -> None:
        pass

    def release(self, trial: Trial) -> None:
        pass

    def keep(self, trial: Trial, weights: bytes) -> str:  # noqa: ARG002
        return ""

    def rest(self, trial: Trial, checkpoint: bytes) -> str:  # noqa: ARG002  simulated trainings leave off anywhere
        return checkpoint.decode()

    def stay(self, trial: Trial, place: str) -> str:  # noqa: ARG002
        return ""

    def load(self, place: str) -> bytes | None:
        return place.encode()

    def drop(self, place: str) -> None:
        pass
