"""A group of several processes: gradients by torch's DistributedDataParallel, and a new group when one of them dies.

Every wait ends after the group's ``patience``, or when a peer's process is gone.
"""

import contextlib
import inspect
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from detol.errors import WorkerLost
from detol.workers.elastic import connection
from detol.workers.elastic.connection import Connection, PrefixStore, choose_interface, is_collective, meet
from detol.workers.elastic.plan import Orders, Plan, Rendezvous
from detol.workers.group import Group, Recording
from detol.workers.outcome import exhausted
from detol.workers.step_way import way
from detol.workers.sync_norm import synchronise_norms

if TYPE_CHECKING:
    from detol.workers.communication import Communication

PATIENCE = 120.0
"""Seconds a rank waits for the others before it gives the trial up as lost."""

__all__ = ["ProcessGroup", "Rendezvous", "serve"]

# Buffers are averaged once an epoch (settle) instead of sent at every step; torch 2.13 renamed the option.
_QUIET_BUFFERS: dict[str, Any] = (
    {"forward_sync_buffers": False}
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel.__init__).parameters
    else {"broadcast_buffers": False}
)


@contextlib.contextmanager
def _recordable(device: torch.device, *, plain: bool) -> Iterator[None]:
    """Wrap a network on a stream of its own where its steps are to be recorded: exchanges are ``plain`` then.

    DistributedDataParallel keeps the nodes that accumulate gradients, and they wait on the stream they were made on:
    for the default stream no recording can (docs.pytorch.org, "CUDA Graphs", usage with DistributedDataParallel).
    """
    if device.type != "cuda" or not plain or way() == "eager":
        yield
        return
    current, own = torch.cuda.current_stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    own.wait_stream(current)
    with torch.cuda.stream(own):
        yield
    current.wait_stream(own)


def serve(host: str = "127.0.0.1", patience: float = PATIENCE) -> tuple[Any, Rendezvous]:
    """Open the store of a new group on a free port; keep it until the group is closed. Called by rank 0."""
    return connection.serve(host, patience)


class ProcessGroup(Group):
    """One rank of several processes.

    Args:
        place: where rank 0 serves the store.
        rank: of this process, from 0.
        width: how many ranks there are, >= 2.
        backend: ``nccl`` when each rank has a CUDA device of its own, otherwise ``gloo``.
        store: rank 0's own store, from :func:`serve`; the others connect.
        patience: seconds before a wait for the others fails.
        orders: where plans for a new group arrive; without it the death of a rank ends the trial.

    Raises:
        WorkerLost: the others did not come in time.
    """

    def __init__(
        self,
        place: Rendezvous,
        rank: int,
        width: int,
        *,
        backend: str = "gloo",
        store: Any = None,
        patience: float = PATIENCE,
        orders: Orders | None = None,
    ) -> None:
        self.rank, self.width = rank, width
        self._backend, self._patience = backend, patience
        self._link: Connection | None = None
        self._recordings: WeakSet[Recording] = WeakSet()
        self.begin(orders)
        try:
            with self.guarded():
                self._join(place, store)
        except WorkerLost as error:
            self.reform(error, 0)

    def begin(self, orders: Orders | None) -> None:
        """Get ready for another trial of the same ranks in the same order; only when none was lost."""
        self._orders, self._member = orders, self.rank
        self._members = tuple(range(self.width))
        self.generation, self._marks, self._waiting, self.lost, self.before_abort = 0, 0, False, (), None

    @property
    def member(self) -> int:
        """The rank that this process had as the trial began."""
        return self._member

    def _join(self, place: Rendezvous, store: Any = None) -> None:
        choose_interface(place.host)
        self._store = store = store or meet(place, self._patience, self._superseded)
        named = PrefixStore(f"generation-{self.generation}", store)
        self._assemble(named)
        self._link = Connection(named, self.rank, self.width, backend=self._backend, patience=self._patience)

    def _assemble(self, store: Any) -> None:
        """Wait until all ranks are here: forming a group with one that is not cannot be interrupted, this can."""
        deadline = time.monotonic() + self._patience
        store.add("here", 1)
        pause = 0.001
        while store.add("here", 0) < self.width:
            if self._superseded():
                raise WorkerLost("another group is to be formed")
            if time.monotonic() > deadline:
                raise WorkerLost(f"rank {self.rank} waited {self._patience:g} s for the others")
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _superseded(self) -> bool:
        return self._orders is not None and self._orders.newest() > self.generation

    @property
    def _connection(self) -> Connection:
        if self._link is None:
            raise WorkerLost("the group is closed")
        return self._link

    def wrap(self, model: nn.Module, *, sync_norm: bool, communication: "Communication | None" = None) -> nn.Module:
        """Return the model under DistributedDataParallel, its weights those of rank 0 unless survivors met again."""
        if sync_norm:
            model = synchronise_norms(model, self._connection.norms)
        if not any(p.requires_grad for p in model.parameters()):
            return model
        # One input channel makes strides ambiguous, which DDP warns of; the copy it makes is right.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        options = communication.options(self._backend) if communication else {}
        # Survivors have agreed on the weights already, and each keeps its own running statistics until they settle.
        fresh = self.generation == 0
        plain = communication is None or communication.recipe.communication == "plain"
        plain = plain and not sync_norm and self._backend == "nccl"  # the others step eagerly (see stepping.choose)
        with _recordable(next(model.parameters()).device, plain=plain):
            wrapped = DistributedDataParallel(
                model, gradient_as_bucket_view=True, init_sync=fresh, **_QUIET_BUFFERS, **options
            )
        if communication:
            communication.attach(wrapped)
        # A rank that never comes back from its forward pass is told by this from those that wait for its gradients.
        wrapped.register_forward_hook(lambda *_: self.mark())
        return wrapped

    def meet(self, flags: Sequence[bool], values: Sequence[float] = ()) -> tuple[tuple[bool, ...], tuple[float, ...]]:
        """Return for each flag whether any rank raised it, and each value summed; one small message."""
        self.mark()
        message = torch.tensor([*map(float, flags), *values], dtype=torch.float64)
        dist.all_reduce(message, group=self._connection.control)
        self.mark()
        found = message.tolist()
        return tuple(flag > 0 for flag in found[: len(flags)]), tuple(found[len(flags) :])

    def total(self, values: Tensor) -> Tensor:
        """Return the elementwise sum over the ranks, on the host."""
        self.mark()
        summed = values.detach().cpu().clone()
        dist.all_reduce(summed, group=self._connection.control)
        return summed

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks in the order of the ranks, on the host."""
        self.mark()
        control = self._connection.control
        mine = rows.detach().cpu().contiguous()
        sizes = torch.zeros(self.width, dtype=torch.int64)
        sizes[self.rank] = len(mine)
        dist.all_reduce(sizes, group=control)
        longest = int(sizes.max())
        padded = mine.new_zeros((longest, *mine.shape[1:]))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in range(self.width)]
        dist.all_gather(parts, padded, group=control)
        return torch.cat([part[:size] for part, size in zip(parts, sizes.tolist(), strict=True)])

    def share(self, payload: bytes, source: int) -> bytes:
        """Return the payload of the rank ``source``; those of the others are ignored."""
        self.mark()
        control = self._connection.control
        size = torch.tensor([len(payload)])
        dist.broadcast(size, source, group=control)
        if not int(size):
            return b""
        mine = self.rank == source
        data = torch.frombuffer(bytearray(payload), dtype=torch.uint8) if mine else torch.empty(int(size)).byte()
        dist.broadcast(data, source, group=control)
        return data.numpy().tobytes()

    def settle(self, model: nn.Module) -> None:
        """Average the floating-point buffers over the ranks."""
        buffers = [b for b in model.buffers() if b.is_floating_point()]
        if buffers:
            mean = self.total(torch.cat([b.flatten() for b in buffers])) / self.width
            parts = mean.to(buffers[0].device).split([b.numel() for b in buffers])  # type: ignore[no-untyped-call]
            for buffer, part in zip(buffers, parts, strict=True):
                buffer.copy_(part.view_as(buffer))

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn the failure of a collective call into :class:`WorkerLost`."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            # Whatever fails once another group is wanted was broken off, unless memory ran out.
            broken = self._superseded() and not exhausted(error)
            if broken or is_collective(error):
                raise WorkerLost(f"rank {self.rank} lost contact with the others: {error}") from error
            raise

    def interrupt(self, plan: Plan) -> None:
        """Take a plan for a new group, and let calls that wait for the old one fail; called by another thread."""
        link = self._link  # the old one: as soon as the plan is known there may be another
        if self._orders is not None:
            self._orders.give(plan)
        self._break_off(link)

    def break_off(self) -> None:
        """Let calls that wait for a peer fail (see :class:`~detol.workers.group.Group`)."""
        self._break_off(self._link)

    def _break_off(self, link: Connection | None) -> None:
        """Let the calls of a group fail, in a thread: NCCL comes to the end of that when recorded steps are let go of.

        The training does that when it notices, after a long validation perhaps: who waited for it would seem dead.
        """
        if link is not None:
            threading.Thread(target=link.abort, args=(self.before_abort,), daemon=True).start()

    def reform(self, error: WorkerLost, step: int) -> None:
        """Leave the broken group, wait for the plan of a new one and form it with the survivors.

        Ranks are numbered anew in the old order, so the lowest survivor is rank 0. Tried again with the next plan when
        another rank dies meanwhile.

        Args:
            error: why.
            step: completed on this rank, counted over the whole training, for the record.

        Raises:
            WorkerLost: there is nobody who makes plans, none came, or this rank has no part in it.
        """
        if self._orders is None:
            raise error
        self._waiting = True
        self._leave()
        while True:
            plan = self._orders.wait(self.generation, self._patience)
            self.generation, self._marks = plan.generation, 0
            if self._member not in plan.members or plan.place is None:
                raise WorkerLost(plan.reason or f"rank {self._member} was given up: {error}") from error
            self.rank, self.width = plan.members.index(self._member), len(plan.members)
            try:
                with self.guarded():
                    self._join(plan.place)
            except WorkerLost:
                self._leave()
                continue
            except RuntimeError as fault:  # the device itself may be spoilt
                raise WorkerLost(f"rank {self._member} cannot form a group: {fault}") from fault
            gone = [str(member) for member in self._members if member not in plan.members]
            if gone:
                self.lost = (*self.lost, f"{', '.join(gone)} at step {step}")
            self._members = plan.members
            self._waiting = False
            return

    def recorded(self, step: Recording) -> None:
        """Take note of a step that has recorded calls of this group (see :class:`~detol.workers.group.Group`)."""
        self._recordings.add(step)

    def rest(self) -> None:
        """Forget the training that is over; the group itself stays open."""
        super().rest()
        self._let_go()

    def _let_go(self) -> None:
        """Let go of all that was recorded, whoever still holds it: before that NCCL (2.26) does not end a group.

        It waits for the graphs that hold its calls, for ever (docs.nvidia.com/dl-cuda-graph, "Process Hang").
        """
        for step in list(self._recordings):
            step.let_go()

    def _leave(self) -> None:
        self._let_go()
        link, self._link, self._store = self._link, None, None
        if link is not None:
            link.abort(self.before_abort)
            link.close()

    def close(self) -> None:
        """Leave the group; idempotent, and quiet when the others are gone already."""
        self._let_go()
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self._store = None
