"""The Ray executor: a pool of warm workers, each trial leasing as many of them as it is wide.

Threads: the controller calls :class:`RayExecutor` from one thread. Behind it a daemon thread follows each running job
and each worker that starts, and puts events into a queue; one more owns Ray itself.
"""

import atexit
import contextlib
import itertools
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from detol.errors import UsageError, WorkerLost
from detol.search.records import Ended, Event, Job, Report, Reported, State
from detol.workers.actor import TRAINING, Worker
from detol.workers.data.packed.nodes import shipped, spread
from detol.workers.elastic import roll
from detol.workers.elastic.gangs import Gangs
from detol.workers.elastic.plan import Plan
from detol.workers.elastic.roll import Kill, Roll
from detol.workers.entry import Entry
from detol.workers.local_ray import LocalRay
from detol.workers.outcome import cause, one_line
from detol.workers.seats import Finish, Run, Seat, end_process, node_shared, spawn

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

GRACE = 30.0
"""Seconds past its limit, or after a stop, in which a job may still end by itself."""
PEER_GRACE = 10.0
"""Seconds in which the other ranks notice that one failed."""
PATIENCE = 60.0
"""Seconds that ranks wait for the others beyond twice the limit of a step."""
START_LIMIT = 180.0
"""Seconds a worker may take to start."""
PULSE, LONE_PULSE = 1.0, 10.0
"""Seconds between two signs of life of each rank of several, and of one on its own."""


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
        step_limit: seconds in which at least one rank of a job has to come to the next point of its training; then
            the ranks whose step does not return are killed: the others go on without them, and where nobody does the
            job is TIMED_OUT. Entries that never call their group are not watched. By default ``DETOL_STEP_LIMIT`` of
            the environment, or 900.
        stall: seconds without a sign of life after which a process is killed; by default 8, and 60 where no other rank
            waits for it.

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
        step_limit: float | None = None,
        stall: float | None = None,
    ) -> None:
        if workers < 1 or not 1 <= ranks <= workers:
            raise UsageError(f"workers >= ranks >= 1 is needed, got {workers} workers and {ranks} ranks: add workers")
        self._data = None if data is None else data.without_test()
        self._device, self._address, self._grace = device, address, grace
        self._ranks, self._stall = ranks, stall
        self._step_limit = roll.step_limit() if step_limit is None else step_limit
        self._options: dict[str, Any] = {"entry": entry, "threads": threads, "weights": weights}
        self._options |= {"patience": patience(self._step_limit), "wide": ranks > 1}
        self._gangs, self._warned = Gangs(), False
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
        self._starter = spawn(self._start, "start")

    def free(self) -> int:
        """Return how many workers wait for a job.

        Raises:
            WorkerLost: no worker is left and none can be started.
            UsageError: they cannot be started as asked.
        """
        with self._lock:
            if isinstance(self._broken, UsageError) and not self._closed:
                raise self._broken
            if self._broken and not self._closed:
                raise WorkerLost(one_line(f"Ray cannot start workers: {cause(self._broken)}"))
            return 0 if self._closed else sum(seat.state == "idle" for seat in self._seats)

    def submit(self, job: Job) -> None:
        """Start a job on ``job.width`` idle workers, all at once."""
        with self._lock:
            idle = [seat.number for seat in self._seats if seat.state == "idle"]
            if len(idle) < job.width or self._closed:
                raise UsageError(f"a job of width {job.width} needs as many free workers, there are {len(idle)}: wait")
            seats = [self._seats[number] for number in self._gangs.choose(idle, job.width)]
            for seat in seats:
                seat.state = "busy"
            deadline = time.monotonic() + job.limit + self._grace
            watched = Roll(job.width, stall=self._stall, limit=self._step_limit)
            run = Run(next(self._tickets), job, seats, deadline, watched)
            self._runs[job.number] = run
        if job.width > 1:
            self._warn(seats[0].about.warning)
        spawn(self._conduct, f"job-{job.number}", run)

    def cancel(self, number: int) -> None:
        """Ask all ranks of a trial to stop at their next step boundary."""
        with self._lock:
            run = self._runs.get(number)
            if run is None or run.cancelled or self._closed:
                return
            run.cancelled = True
            run.hurry(self._grace)
            for rank in run.roll.present:
                run.seats[rank].actor.stop.remote(run.ticket)

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
            if device == "cuda" and self._ranks > gpus:
                raise UsageError(f"each rank needs a GPU of its own, got {self._ranks} ranks and {gpus} GPUs: --ranks")
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
            self._openers.append(spawn(self._open, f"worker-{seat.number}", seat))

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

    def _conduct(self, run: Run) -> None:
        """Follow a job to its end, then give its workers back and say so."""
        try:
            self._follow(run)
        except Exception as error:  # Ray itself failed: the machine's fault
            reason = one_line(f"Ray failed: {error}")
            run.finishes = {rank: Finish(State.LOST, reason, recycle=True) for rank in run.ranks}
        if not run.finishes:
            return  # the executor was closed
        state, reason, first = run.outcome()
        speaker = run.seats[run.speaker]
        extra = {**first.extra, "worker": speaker.number, "host": speaker.about.host}
        with self._lock:
            if self._closed:
                return
            self._runs.pop(run.job.number, None)
            if run.job.width > 1 and all(finish.kept for finish in run.finishes.values()):
                self._gangs.keep([seat.number for seat in run.seats], run.group)
        for rank, finish in run.finishes.items():
            self._release(run, rank, spoilt=finish.recycle)
        self._events.put(Ended(run.job.number, state, reason, first.weights if state.scored else None, extra))

    def _release(self, run: Run, rank: int, *, spoilt: bool) -> None:
        """Give the worker of a rank back to the pool, with a new process where its own is spoilt."""
        with self._lock:
            if rank in run.released or self._closed:
                return
            run.released.add(rank)
            seat = run.seats[rank]
            seat.state = "starting" if spoilt else "idle"
            if spoilt:
                self._gangs.forget(seat.number)
        if spoilt:
            _kill(seat.actor)
            self._openers.append(spawn(self._open, f"worker-{seat.number}", seat))

    def _follow(self, run: Run) -> None:
        """Pass the reports of a job on until each of its ranks has finished, died or been killed."""
        place = self._meeting(run)
        streams = {
            seat.actor.run.options(num_returns="streaming").remote(run.ticket, run.job, rank, run.group, place): rank
            for rank, seat in enumerate(run.seats)
        }
        pulses: dict[Any, int] = {}
        pause = PULSE if run.job.width > 1 else LONE_PULSE
        due = time.monotonic() + pause
        while streams and not self._closed:
            left = run.deadline - time.monotonic()
            if left <= 0:
                late = {rank: run.overdue() for rank in streams.values()}
                run.finishes.update(late)
                for rank in late:
                    self._kill_hard(run.seats[rank])
                return
            # In slices, because a stop brings the deadline forward.
            for ready in ray.wait([*streams, *pulses], num_returns=1, timeout=min(left, PULSE))[0]:
                if ready in pulses:
                    rank = pulses.pop(ready)
                    with contextlib.suppress(RayError):  # its stream says so too
                        run.roll.heard(rank, ray.get(ready))
                else:
                    self._take(run, ready, streams)
            if time.monotonic() >= due:
                due = time.monotonic() + pause
                asked = set(pulses.values())
                for rank in run.roll.present:
                    if rank not in asked:
                        pulses[run.seats[rank].actor.pulse.remote(run.ticket)] = rank
            for act in run.roll.look(time.monotonic()):
                self._act(run, act, streams)

    def _take(self, run: Run, stream: Any, streams: dict[Any, int]) -> None:
        """Take the next item of a rank: a report, or its end."""
        rank = streams[stream]
        item = _next(stream, run.seats[rank])
        if isinstance(item, Report):
            if run.new(item):
                self._events.put(Reported(run.job.number, item))
            return
        del streams[stream]
        run.finishes[rank] = item
        if item.died:
            run.roll.died(rank)
            self._release(run, rank, spoilt=True)
            return
        run.roll.ended(rank, "" if item.state.scored else item.reason or str(item.state))
        if not item.state.scored:
            run.hurry(PEER_GRACE)

    def _act(self, run: Run, act: Kill | Plan, streams: dict[Any, int]) -> None:
        """Do what the roll of a job asks for."""
        if isinstance(act, Kill):
            for stream in [stream for stream, rank in streams.items() if rank in act.ranks]:
                rank = streams.pop(stream)
                run.finishes[rank] = Finish(act.state, act.reason, recycle=True, died=True)
                self._kill_hard(run.seats[rank])
                self._release(run, rank, spoilt=True)
            return
        members = [run.seats[rank] for rank in act.members]
        place = members[0].actor.serve.remote(run.ticket, node_shared(members)) if members else None
        for rank in run.roll.present:
            run.seats[rank].actor.regroup.remote(run.ticket, act, place)

    def _meeting(self, run: Run) -> Any:
        """Return where the ranks of a job meet; ``None`` when there is one alone, or they have met before."""
        if run.job.width == 1:
            return None
        numbers = [seat.number for seat in run.seats]
        with self._lock:
            known = self._gangs.name(numbers)
            run.group = run.ticket if known is None else known
            self._gangs.begin(numbers)
        if known is not None:
            return None
        return run.seats[0].actor.serve.remote(run.ticket, node_shared(run.seats))

    def _kill_hard(self, seat: Seat) -> None:
        """Kill a process that may be stopped: Ray asks a worker to end itself, which such a one cannot."""
        _kill(seat.actor)
        if seat.about.node == ray.get_runtime_context().get_node_id():
            end_process(seat.about.pid)
            return
        place = NodeAffinitySchedulingStrategy(seat.about.node, soft=False)
        ray.remote(end_process).options(num_cpus=0, scheduling_strategy=place).remote(seat.about.pid)

    def _warn(self, warning: str) -> None:
        if warning and not self._warned:
            self._warned = True
            sys.stderr.write(f"warning: {warning}\n")


def patience(limit: float) -> float:
    """Return the seconds that ranks wait for each other, at most a day, where a step has so many.

    Who waits for a rank whose step does not return must still wait when that rank is given up for it.
    """
    return min(2 * limit + PATIENCE, 86400.0)


def _next(stream: Any, seat: Seat) -> Report | Finish:
    """Return the next item of a worker's stream; a dead worker is a finish too."""
    try:
        item: Report | Finish = ray.get(next(stream))
        return item
    except OutOfMemoryError:
        reason = "Ray killed the worker: the host's memory was full"
        return Finish(State.OUT_OF_MEMORY, reason, recycle=True)
    except RayActorError:
        reason = f"worker process {seat.about.pid} on {seat.about.host} died"
        return Finish(State.LOST, reason, recycle=True, died=True)
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


def _size(data: "Dataset | None") -> int:
    return 0 if data is None else shipped(data)
