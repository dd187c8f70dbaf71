"""The data-parallel group of a trial: one rank alone; several are :class:`detol.workers.process_group.ProcessGroup`.

All ranks make the same calls in the same order. Survivors of a rank that dies may meet again (``reform``): ranks are
numbered anew then, and whatever was wrapped has to be wrapped again.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from detol.errors import WorkerLost
from detol.search.widths import LOST_RANKS, WIDTH_NOW
from detol.workers.elastic.plan import Plan, Pulse

if TYPE_CHECKING:
    from detol.workers.communication import Communication


class Recording(Protocol):
    """What has recorded calls of a group."""

    def let_go(self) -> None:
        """Forget them."""


class Group:
    """A rank on its own: everything is already agreed. The base of those of several ranks.

    Attributes:
        rank: of this process, from 0, among those that are left.
        width: how many are left.
        generation: how often the group was formed anew.
        lost: for each time that it was, who was lost, and where: ``2 at step 317`` (numbered as the trial began).
        before_abort: called, by any thread, before calls that wait for a peer are broken off.
    """

    rank = 0
    width = 1
    generation = 0
    lost: tuple[str, ...] = ()
    before_abort: Callable[[], None] | None = None
    _marks = _work = 0
    _waiting = False

    def mark(self) -> None:
        """Say that a point of the training has been passed; all ranks pass the same ones."""
        self._marks += 1

    def work(self) -> None:
        """Say that something is done between two points: the watchdog need not bite."""
        self._work += 1

    @contextlib.contextmanager
    def alive(self, model: nn.Module) -> Iterator[None]:
        """Let each call of a network count as work: for what takes long and meets no other rank."""
        hook = model.register_forward_hook(lambda *_: self.work())
        try:
            yield
        finally:
            hook.remove()

    def pulse(self) -> Pulse:
        """Return a sign of life; called by other threads."""
        return Pulse(self.generation, self._marks, self._waiting, self._work)

    def wrap(
        self,
        model: nn.Module,
        *,
        sync_norm: bool,  # noqa: ARG002  nobody to synchronise with
        communication: "Communication | None" = None,  # noqa: ARG002  nor to talk to
    ) -> nn.Module:
        """Return the module to call in training: its gradients are averaged over the ranks.

        ``communication``: how; plain all-reduce by default.
        """
        return model

    def meet(self, flags: Sequence[bool], values: Sequence[float] = ()) -> tuple[tuple[bool, ...], tuple[float, ...]]:
        """Return for each flag whether any rank raised it, and each value summed over the ranks."""
        self.mark()
        return tuple(flags), tuple(values)

    def agree(self, flags: Sequence[bool]) -> tuple[bool, ...]:
        """Return for each flag whether any rank raised it."""
        return self.meet(flags)[0]

    def total(self, values: Tensor) -> Tensor:
        """Return the elementwise sum over the ranks."""
        return values

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, concatenated in the order of the ranks; shards may differ in length by 1."""
        return rows

    def share(self, payload: bytes, source: int) -> bytes:  # noqa: ARG002  its own
        """Return the payload of the rank ``source``; those of the others are ignored."""
        return payload

    def settle(self, model: nn.Module) -> None:
        """Average the running statistics of batch norm over the ranks, so that all evaluate one network."""

    def shard(self, count: int) -> slice:
        """Return this rank's part of ``count`` samples: contiguous, sizes that differ by at most 1."""
        size, more = divmod(count, self.width)
        start = self.rank * size + min(self.rank, more)
        return slice(start, start + size + (self.rank < more))

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn the failure of a collective call (a dead or silent peer) into :class:`WorkerLost`."""
        yield

    def break_off(self) -> None:
        """Begin to let calls that wait for a peer fail, also those that a device waits in; do not wait for the end.

        NCCL comes to that end only when all that was recorded of its calls is let go of.
        """

    def reform(self, error: WorkerLost, step: int) -> None:  # noqa: ARG002  nobody to meet
        """Meet the survivors after ``error`` in the step after ``step`` (counted over the whole training).

        Raises:
            WorkerLost: there is no going on.
        """
        raise error

    def interrupt(self, plan: Plan) -> None:
        """Take a plan for a new group, and let calls that wait for the old one fail; called by another thread."""

    def recorded(self, step: Recording) -> None:
        """Take note of a step that has recorded calls of this group; it is asked to let go of them in time."""

    def rest(self) -> None:
        """Forget the training that is over; the group itself stays open."""
        self.before_abort = None

    def facts(self) -> dict[str, str | float | int]:
        """Return what became of the group, for the record; nothing where nobody was lost."""
        return {LOST_RANKS: "; ".join(self.lost), WIDTH_NOW: self.width} if self.lost else {}

    def close(self) -> None:
        """Leave the group; idempotent."""


def plain(model: nn.Module) -> nn.Module:
    """Return the network inside what :meth:`Group.wrap` returned."""
    return model.module if isinstance(model, DistributedDataParallel) else model
