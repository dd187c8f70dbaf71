"""What the ranks of a trial and the one who watches over them tell each other. No torch here."""

import threading
from dataclasses import dataclass, field

from detol.errors import WorkerLost


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of a group meet: the store that its rank 0 serves."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A group that is to be formed anew.

    Args:
        generation: from 1; the group that a trial began with is generation 0.
        members: the ranks, numbered as the trial began, that form it, ascending: the first is its rank 0. Empty: the
            trial is given up.
        place: where they meet; ``None`` for a group that is given up.
        reason: one line.
    """

    generation: int
    members: tuple[int, ...]
    place: Rendezvous | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Pulse:
    """A sign of life of one rank. Later is greater.

    Args:
        generation: of the group that it is in.
        marks: how many points of the training it has passed in that group; all ranks pass the same points in the same
            order. 0: before the first, or it runs something that marks none.
        waiting: whether it lost contact with the others and waits for a plan.
        work: counts what it does between two points; ranks do not do equally much there, so pulses are not compared
            by it.
    """

    generation: int = 0
    marks: int = 0
    waiting: bool = False
    work: int = field(default=0, compare=False)


class Orders:
    """The mailbox of one rank: the latest plan. ``give`` is called by another thread than ``wait`` and ``newest``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._plan: Plan | None = None

    def give(self, plan: Plan) -> None:
        """Put a plan in; older ones are forgotten."""
        with self._changed:
            if self._plan is None or plan.generation > self._plan.generation:
                self._plan = plan
                self._changed.notify_all()

    def newest(self) -> int:
        """Return the generation of the latest plan; 0 when there is none."""
        with self._changed:
            return self._plan.generation if self._plan else 0

    def wait(self, after: int, patience: float) -> Plan:
        """Return the latest plan once there is one of a later generation than ``after``.

        Raises:
            WorkerLost: there is none after ``patience`` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._plan is not None and self._plan.generation > after, patience)
            if self._plan is None or self._plan.generation <= after:
                raise WorkerLost(f"lost contact with the other ranks, and no new group came about in {patience:g} s")
            return self._plan
