"""Who of a trial's ranks is alive, who has to go, and when the others shall meet again. Pure: no clock, no calls.

A rank that dies is known at once (its process is gone). One that is stopped or cut off does not answer any more; a
thread of its own answers for a rank that computes, however long it does. One whose step never returns answers, but
passes no point of the training any more. Whoever is given up is killed before the others go on without it: nobody
trains on in a group that it does not belong to.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from detol.errors import UsageError
from detol.search.records import State
from detol.workers.elastic.plan import Plan, Pulse

STALL = 8.0
"""Seconds without a sign of life after which a rank of several is given up."""
LONE_STALL = 60.0
"""Likewise for a rank on its own: nobody waits for it."""
STEP_LIMIT = 900.0
"""Seconds in which at least one rank has to pass a point of the training, once the first was passed."""
LIMIT_VARIABLE = "DETOL_STEP_LIMIT"
"""Environment variable with another number of seconds for that."""
_LONGEST_GAP = 2.0
"""Seconds between two looks that count as silence: longer ones are the fault of the one who looks."""


def step_limit() -> float:
    """Return the seconds in which a step has to end, as the environment says.

    Raises:
        UsageError: it says no number > 0.
    """
    text = os.environ.get(LIMIT_VARIABLE, str(STEP_LIMIT))
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise UsageError(
            f"{LIMIT_VARIABLE} must be a number of seconds > 0, got {text!r}: leave it out for {STEP_LIMIT:g}"
        )
    return limit


@dataclass(frozen=True, slots=True)
class Kill:
    """Ranks whose processes have to be ended, and how that reads in the record."""

    ranks: tuple[int, ...]
    state: State
    reason: str


class Roll:
    """The roll of one attempt of a trial. Seconds are of any clock that never falls.

    Args:
        width: ranks at the beginning.
        stall: seconds of silence after which a rank is given up.
        limit: seconds without progress of any rank after which those behind are given up, or all of them.

    Attributes:
        first: the rank that speaks for all: rank 0 of the group as it is now, numbered as the trial began.
        lost: the ranks whose processes are gone, in that order.
    """

    def __init__(self, width: int, *, stall: float | None = None, limit: float = STEP_LIMIT) -> None:
        self._stall = (STALL if width > 1 else LONE_STALL) if stall is None else stall
        self._limit = limit
        self._present = dict.fromkeys(range(width), Pulse())
        self._silence = dict.fromkeys(range(width), 0.0)
        self._heard: set[int] = set()
        self._looked: float | None = None
        self._quiet = 0.0
        self._generation = 0
        self._planned: tuple[int, ...] = tuple(range(width))
        self._failed = ""
        self.first = 0
        self.lost: tuple[int, ...] = ()

    @property
    def present(self) -> tuple[int, ...]:
        """The ranks that are neither lost nor at their end, ascending."""
        return tuple(self._present)

    def heard(self, rank: int, pulse: Pulse) -> None:
        """Take note of a sign of life."""
        if rank in self._present:
            self._heard.add(rank)
            before = self._present[rank]
            if (pulse, pulse.work) != (before, before.work):
                self._quiet = 0.0
            self._present[rank] = pulse

    def died(self, rank: int) -> None:
        """Take note that the process of a rank is gone."""
        if self._present.pop(rank, None) is not None:
            self.lost = (*self.lost, rank)
            self._quiet = 0.0

    def ended(self, rank: int, failure: str = "") -> None:
        """Take note that a rank came to its end; with a ``failure`` of its own, the others give up too."""
        self._present.pop(rank, None)
        self._failed = self._failed or (failure and f"rank {rank}: {failure}")

    def look(self, now: float) -> list[Kill | Plan]:
        """Return what has to be done now; ranks to be killed count as lost from here on.

        A plan comes without its place: whoever calls opens one at its first member.
        """
        gap = min(now - self._looked, _LONGEST_GAP) if self._looked is not None else 0.0
        self._looked = now
        self._quiet += gap
        for rank in self._present:
            self._silence[rank] = 0.0 if rank in self._heard else self._silence[rank] + gap
        self._heard.clear()
        kills = [*self._silent(), *self._stuck()]
        for kill in kills:
            for rank in kill.ranks:
                self.died(rank)
        return [*kills, *self._plan()]

    def _silent(self) -> list[Kill]:
        silent = tuple(rank for rank in self._present if self._silence[rank] > self._stall)
        return [Kill(silent, State.LOST, f"gave no sign of life for {self._stall:g} s")] if silent else []

    def _stuck(self) -> list[Kill]:
        """Return whom the others wait for in vain, or everybody when that cannot be told."""
        furthest = max(self._present.values(), default=Pulse())
        if self._quiet <= self._limit or furthest == Pulse():
            return []
        self._quiet = 0.0
        waiting = any(pulse.waiting for pulse in self._present.values())
        behind = tuple(r for r, p in self._present.items() if (not p.waiting if waiting else p < furthest))
        if behind and len(behind) < len(self._present):
            return [Kill(behind, State.LOST, f"its step did not return within {self._limit:g} s")]
        return [Kill(self.present, State.TIMED_OUT, f"no step ended within {self._limit:g} s: it was killed")]

    def _plan(self) -> Sequence[Plan]:
        """Return a new plan when a member of the last one is gone, or all wait though nobody is."""
        gone = any(rank in self.lost for rank in self._planned)
        waiting = [pulse.waiting and pulse.generation >= self._generation for pulse in self._present.values()]
        if not self._present or not (gone or (waiting and all(waiting)) or self._failed):
            return []
        if self._failed and not self._planned:
            return []
        self._generation += 1
        self._planned = () if self._failed else self.present
        self.first = self._planned[0] if self._planned else self.first
        return [Plan(self._generation, self._planned, reason=self._failed)]
