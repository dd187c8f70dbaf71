"""The Ray executor: a pool of warm workers, each trial leasing as many of them as it is wide.

Threads: the controller calls :class:`RayExecutor` from one thread. Behind it a daemon thread follows each running job
and each worker that starts, and puts events into a queue; one more owns Ray itself.
"""

import atexit
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from detol.errors import UsageError, WorkerLost
from detol.search.records import Ended, Event, Job, Report, Reported, State
from detol.workers.actor import TRAINING, About, Finish, Worker
from detol.workers.data.packed.nodes import shipped, spread
from detol.workers.entry import Entry
from detol.workers.local_ray import LocalRay
from detol.workers.outcome import decisive, one_line

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

GRACE = 30.0
"""Seconds past its limit, or after a stop, in which a job may still end by itself."""
PEER_GRACE = 10.0
"""Seconds in which the other ranks notice that one failed."""
START_LIMIT = 180.0
"""Seconds a worker may take to start."""
NOWHERE = About(0, "", "", "")


class RayExecutor:
    """Trains on Ray; implements :class:`~detol.search.protocols.Executor`.

    Returns at once: Ray and the workers start behind it, and ``free()`` grows as they come up.

    Args:
        data: what the jobs are trained on; put once per node in shared memory, without its test split. ``None`` for
            entries that need none.
        workers: how many processes, >= 1.
        ranks: the widest trial, <= ``workers``.
        device: ``cpu``, ``cuda``, or ``auto`` for the GPUs that Ray sees.
        address: of a running Ray; a local one is started (and stopped at the end) by default.
        threads: of torch in each worker, when it trains on a CPU.
        entry: what runs a job: ``module:function`` or a callable (see :mod:`detol.workers.entry`).
        weights: whether trained weights are sent back (checkpoints always are).
        grace: seconds past its limit, or after a stop, in which a job may still end by itself; then its processes are
            killed.
        runtime_env: of the workers, as Ray takes it (``py_modules`` to ship detol to other nodes).

    Raises:
        UsageError: fewer than 1 worker or rank, or more ranks than workers.
    """

    def __init__(
        self,
        data: "Dataset | None",
        *,
        workers: int,
        ranks: int = 1,
        device: str = "auto",
        address: str | None = None,
        threads: int = 1,
        entry: str | Entry = TRAINING,
        weights: bool = True,
        grace: float = GRACE,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        if workers < 1 or not 1 <= ranks <= workers:
            raise UsageError(f"workers >= ranks >= 1 is needed, got {workers} workers and {ranks} ranks: add workers")
        self._data = None if data is None else data.without_test()
        self._device, self._address, self._grace = device, address, grace
        self._options: dict[str, Any] = {"entry": entry, "threads": threads, "weights": weights}
        self._runtime_env = dict(runtime_env or {})
        self._seats = [Seat(number) for number in range(workers)]
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._runs: dict[int, Run] = {}
        self._tickets = itertools.count(1)
        self._closed = False
        self._broken: Exception | None = None
        self._make: Any = None
        atexit.register(self.close)
        self._ray = LocalRay.acquire(workers, address, _size(self._data))
        self._openers: list[threading.Thread] = []
        self._starter = _spawn(self._start, "start")

    def free(self) -> int:
        """Return how many workers wait for a job.

        Raises:
            WorkerLost: no worker is left and none can be started.
        """
        with self._lock:
            if self._broken and not self._closed:
                raise WorkerLost(one_line(f"Ray cannot start workers: {self._broken}"))
            return 0 if self._closed else sum(seat.state == "idle" for seat in self._seats)

    def submit(self, job: Job) -> None:
        """Start a job on ``job.width`` idle workers, all at once."""
        with self._lock:
            idle = [seat for seat in self._seats if seat.state == "idle"]
            if len(idle) < job.width or self._closed:
                raise UsageError(f"a job of width {job.width} needs as many free workers, there are {len(idle)}: wait")
            seats = idle[: job.width]
            for seat in seats:
                seat.state = "busy"
            run = Run(next(self._tickets), job, seats, time.monotonic() + job.limit + self._grace)
            self._runs[job.number] = run
        _spawn(self._conduct, f"job-{job.number}", run)

    def cancel(self, number: int) -> None:
        """Ask all ranks of a trial to stop at their next step boundary."""
        with self._lock:
            run = self._runs.get(number)
            if run is None or run.cancelled or self._closed:
                return
            run.cancelled = True
            run.deadline = min(run.deadline, time.monotonic() + self._grace)
            for seat in run.seats:
                seat.actor.stop.remote(run.ticket)

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return all events that are there, waiting up to ``timeout`` seconds for the first."""
        events: list[Event] = []
        with contextlib.suppress(queue.Empty):
            events.append(self._events.get(timeout=max(0.0, timeout)))
            while True:
                events.append(self._events.get_nowait())
        return [] if self._closed else events

    def close(self) -> None:
        """Kill the workers, and Ray if it was started here; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        # A call of Ray that is under way while Ray is shut down ends this whole process: let the start end first.
        self._starter.join(timeout=START_LIMIT)
        for actor in [seat.actor for seat in self._seats if seat.actor is not None]:
            _kill(actor)
        for opener in self._openers:
            opener.join(timeout=self._grace)
        self._ray.release()

    # Behind the controller's back: everything below runs in daemon threads.

    def _start(self) -> None:
        try:
            self._ray.wait()
            if self._closed:
                return
            gpus = int(ray.cluster_resources().get("GPU", 0))
            device = ("cuda" if gpus else "cpu") if self._device == "auto" else self._device
            if device == "cuda" and not gpus:
                raise UsageError("device cuda needs a GPU and Ray sees none: use --device cpu")
            # So many share a GPU that all workers fit: shares may not straddle two GPUs.
            sharing = -(-len(self._seats) // gpus) if device == "cuda" else 1
            options: dict[str, Any] = {
                "num_cpus": 0 if self._address is None else self._options["threads"],
                "num_gpus": 1 / sharing if device == "cuda" else 0,
                "max_restarts": 0,
                "max_task_retries": 0,
                "scheduling_strategy": "SPREAD" if self._address else "DEFAULT",
            }
            if self._runtime_env:
                options["runtime_env"] = self._runtime_env
            if self._data is not None and self._address is not None:
                spread(self._data, _nodes(), partial(_on_node, self._runtime_env))
            data = None if self._data is None else ray.put(self._data)
            remote = ray.remote(concurrency_groups={"control": 1})(Worker).options(**options)
            settings = {**self._options, "device": device, "own_device": sharing == 1}
            self._make = lambda: remote.remote(data, **settings)
        except Exception as error:  # nobody waits for this thread: free() raises it
            with self._lock:
                self._broken = error
            return
        for seat in self._seats:
            self._openers.append(_spawn(self._open, f"worker-{seat.number}", seat))

    def _open(self, seat: "Seat") -> None:
        """Start the process of a seat; in a thread of its own, so that nobody waits for it."""
        try:
            with self._lock:
                if self._closed:
                    return
                seat.actor = self._make()
            about = ray.get(seat.actor.about.remote(), timeout=START_LIMIT)
            with self._lock:
                seat.about, seat.state = about, "idle"
        except Exception as error:  # nobody waits for this thread: free() raises it
            with self._lock:
                seat.state = "broken"
                if all(other.state == "broken" for other in self._seats):
                    self._broken = error

    def _conduct(self, run: "Run") -> None:
        """Follow a job to its end, then give its workers back and say so."""
        try:
            finishes = self._follow(run)
        except Exception as error:  # Ray itself failed: the machine's fault
            finishes = {rank: Finish(State.LOST, one_line(f"Ray failed: {error}"), recycle=True) for rank in run.ranks}
        state = decisive(finish.state for finish in finishes.values())
        # Of ranks that ended alike, the one whose process is gone tells why.
        causes = [rank for rank in run.ranks if rank in finishes and finishes[rank].state is state]
        rank = min(causes, key=lambda rank: not finishes[rank].recycle)
        finish = finishes[rank]
        reason = f"rank {rank}: {finish.reason}" if run.job.width > 1 and finish.reason and rank else finish.reason
        extra = {**finish.extra, "worker": run.seats[0].number, "host": run.seats[0].about.host}
        with self._lock:
            if self._closed:
                return
            self._runs.pop(run.job.number, None)
            spoilt = [run.seats[rank] for rank, finish in finishes.items() if finish.recycle]
            for seat in run.seats:
                seat.state = "starting" if seat in spoilt else "idle"
        for seat in spoilt:
            _kill(seat.actor)
        weights = finishes[0].weights if state.scored and 0 in finishes else None
        self._events.put(Ended(run.job.number, state, reason, weights, extra))
        for seat in spoilt:
            self._openers.append(_spawn(self._open, f"worker-{seat.number}", seat))

    def _follow(self, run: "Run") -> dict[int, Finish]:
        """Pass the reports of a job on until each of its ranks has finished, died or been killed."""
        place = None
        if run.job.width > 1:
            here = len({seat.about.node for seat in run.seats}) == 1
            place = run.seats[0].actor.serve.remote(run.ticket, here)
        streams = {
            seat.actor.run.options(num_returns="streaming").remote(run.ticket, run.job, rank, place): rank
            for rank, seat in enumerate(run.seats)
        }
        finishes: dict[int, Finish] = {}
        while streams and not self._closed:
            left = run.deadline - time.monotonic()
            if left <= 0:
                finishes.update({rank: run.overdue(finishes) for rank in streams.values()})
                break
            # In slices, because a stop brings the deadline forward.
            for stream in ray.wait(list(streams), num_returns=1, timeout=min(left, 1.0))[0]:
                rank = streams[stream]
                item = _next(stream, run.seats[rank])
                if isinstance(item, Report):
                    self._events.put(Reported(run.job.number, item))
                    continue
                finishes[rank] = item
                del streams[stream]
                if not item.state.scored:
                    run.deadline = min(run.deadline, time.monotonic() + PEER_GRACE)
        return finishes or {0: Finish(State.LOST, "the executor was closed")}


@dataclass
class Seat:
    """The place of one worker in the pool; the process in it may change. States: starting, idle, busy, broken."""

    number: int
    state: str = "starting"
    actor: Any = None
    about: About = NOWHERE


@dataclass
class Run:
    """A job that runs: who runs it, and when it is overdue (``time.monotonic``)."""

    ticket: int
    job: Job
    seats: list[Seat]
    deadline: float
    cancelled: bool = False
    ranks: range = field(init=False)

    def __post_init__(self) -> None:
        self.ranks = range(len(self.seats))

    def overdue(self, finishes: Mapping[int, Finish]) -> Finish:
        """Return how a rank ended that had to be killed."""
        if any(not finish.state.scored for finish in finishes.values()):
            return Finish(State.LOST, "did not notice that another rank had failed", recycle=True)
        if self.cancelled:
            return Finish(State.STOPPED, "did not stop in time: its process was killed", recycle=True)
        return Finish(
            State.TIMED_OUT, f"hung past its limit of {self.job.limit:g} s: its process was killed", recycle=True
        )


def _next(stream: Any, seat: Seat) -> Report | Finish:
    """Return the next item of a worker's stream; a dead worker is a finish too."""
    try:
        item: Report | Finish = ray.get(next(stream))
        return item
    except OutOfMemoryError:
        return Finish(State.OUT_OF_MEMORY, "Ray killed the worker: the host's memory was full", recycle=True)
    except RayActorError:
        return Finish(State.LOST, f"worker process {seat.about.pid} on {seat.about.host} died", recycle=True)
    except (RayTaskError, RayError, StopIteration) as error:
        return Finish(State.FAILED, one_line(f"worker {seat.number}: {str(error).splitlines()[-1:]}"), recycle=True)


def _nodes() -> list[str]:
    """Return the identities of the nodes of the cluster."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def _on_node(runtime_env: Mapping[str, Any], node: str, function: Any, *arguments: Any) -> Any:
    """Run a function on a node, and return what it returns."""
    place = NodeAffinitySchedulingStrategy(node, soft=False)
    task = ray.remote(function).options(num_cpus=0, scheduling_strategy=place, runtime_env=dict(runtime_env))
    return ray.get(task.remote(*arguments))


def _kill(actor: Any) -> None:
    with contextlib.suppress(Exception):  # it may be dead already, or Ray gone
        ray.kill(actor, no_restart=True)


def _spawn(target: Any, name: str, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, name=f"detol-{name}", daemon=True)
    thread.start()
    return thread


def _size(data: "Dataset | None") -> int:
    return 0 if data is None else shipped(data)
