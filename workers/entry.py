"""What runs a job, as executors see it: an *entry* yields items, and an executor makes events of them.

No torch here, so that executors load it quickly.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from detol.search.records import Job, Report, State


@dataclass(frozen=True, slots=True)
class Paused:
    """The last item of a job that paused at its ``until``, on each of its ranks.

    Args:
        checkpoint: from which another job goes on; of rank 0, ``None`` of the others.
    """

    checkpoint: bytes | None


Facts: TypeAlias = Mapping[str, str | float | int]
Item: TypeAlias = Report | bytes | Paused | Facts
Entry: TypeAlias = Callable[..., Iterator[Item]]
"""``entry(job, data, *, group, stop)``: yields a :class:`Report` after each epoch, further facts for the record as a
mapping, and at last its weights as bytes if there are any, or :class:`Paused` when it obeyed ``job.until``."""


@dataclass
class Progress:
    """What the entry of a job has yielded so far.

    Args:
        job: what runs.

    Attributes:
        weights: the trained weights, or the checkpoint of a job that paused.
        facts: for the record.
        last: the last epoch that was reported.
        paused: whether the job paused.
    """

    job: Job
    weights: bytes | None = None
    facts: dict[str, str | float | int] = field(default_factory=dict)
    last: int = 0
    paused: bool = False

    def take(self, item: Item) -> Report | None:
        """Take note of an item; return it if it is a report."""
        if isinstance(item, Report):
            self.last = item.epoch
            return item
        if isinstance(item, Paused):
            self.paused, self.weights = True, item.checkpoint
        elif isinstance(item, bytes):
            self.weights = item
        else:
            self.facts.update(item)
        return None

    def state(self, stopped: bool) -> tuple[State, str]:
        """Return the state and reason of a job whose entry has returned; ``stopped`` says whether it was asked to."""
        if self.paused:
            return State.PAUSED, ""
        if stopped and self.last < self.job.epochs:
            return State.STOPPED, "stopped at a step boundary"
        return State.COMPLETED, ""
