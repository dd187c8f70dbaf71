"""Who sits where: how many workers each trial gets when it starts or goes on."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from detol.search.fidelity import FINISHED, FINISHING, Fidelity, beaten
from detol.search.ledger import Ledger
from detol.search.protocols import Clock, Executor
from detol.search.records import Trial
from detol.search.task import Task
from detol.search.widths import FORECAST, REASON, WIDTHS, Leg, Situation


class Seats:
    """Asks the policy of widths, with the situation as it is; without a policy all trials are as wide as the task says.

    Args:
        task: its ``widths`` is the policy.
        executor: says how many workers are free.
        ledger: says what waits and rests.
        fidelity: says how far a trial goes next.
        clock: how long the others have been running.
    """

    def __init__(self, task: Task, executor: Executor, ledger: Ledger, fidelity: Fidelity, clock: Clock) -> None:
        self._task, self._executor, self._ledger, self._fidelity = task, executor, ledger, fidelity
        self._clock = clock
        self._since: dict[int, tuple[int, float]] = {}
        self._held = -1  # the trial that workers are kept free for

    def next(self, waiting: deque[Trial]) -> Trial:
        """Take the trial that is seated next from those that wait (at least one): the first, or the one held back."""
        for trial in waiting:
            if trial.number == self._held:
                waiting.remove(trial)
                return trial
        self._held = -1
        return waiting.popleft()

    def choose(self, trial: Trial, left: float) -> Trial | None:
        """Return a trial with the width it starts at now; ``None``: it waits until more workers are free.

        Args:
            trial: that has a worker next.
            left: how many more trials may be proposed.
        """
        if self._task.widths is None:
            return trial
        free = self._executor.free()
        situation = Situation(free, list(self._running()), list(self._waiting(trial, left)), left, self._ledger.ended)
        found = self._task.widths.choose(self._leg(trial), situation)
        ranks = found.ranks if self._ledger.running else min(found.ranks, free)  # nobody is left to wait for
        if ranks > free:
            self._held = trial.number
            return None
        self._held = -1
        extra = {**trial.extra, REASON: found.reason}
        if found.forecast > 0:
            extra[FORECAST] = found.forecast
        told = str(extra.pop(WIDTHS, f"{trial.width}@0")).split(",")
        legs = [leg for leg in told if int(leg.partition("@")[2]) < trial.epoch]  # of lost ones nothing is left
        if legs and int(legs[-1].partition("@")[0]) != ranks:
            legs.append(f"{ranks}@{trial.epoch}")
        if len(legs) > 1:
            extra[WIDTHS] = ",".join(legs)
        return replace(trial, width=ranks, extra=extra)

    def began(self, number: int, until: int) -> None:
        """Note that a trial runs from now on, to an epoch (0: to its end)."""
        self._since[number] = (until, self._clock.now())

    def reported(self, number: int) -> None:
        """Note that one more epoch of a trial is over now."""
        self._since[number] = (self._since[number][0], self._clock.now())

    def ended(self, number: int) -> None:
        """Forget a trial that runs no more."""
        self._since.pop(number, None)

    def _leg(self, trial: Trial) -> Leg:
        return Leg(trial, self._fidelity.milestone(trial) or trial.epochs)

    def _running(self) -> Iterator[Leg]:
        now = self._clock.now()
        for number, trial in self._ledger.running.items():
            until, since = self._since[number]
            yield Leg(trial, until or trial.epochs, now - since)

    def _waiting(self, trial: Trial, left: float) -> Iterator[Leg]:
        """Yield what else a worker could have: what waits, and where the best are finished, the best that rest."""
        for other in self._ledger.waiting:
            if other.number != trial.number:
                yield self._leg(other)
        if left < 1 and FINISHING in trial.extra:
            resting = sorted(self._ledger.resting.values(), key=lambda t: (t.epoch, t.score), reverse=True)
            for other in resting[: 2 * FINISHED]:
                others = [*self._ledger.others((other.number, trial.number)), trial]
                if other.number != trial.number and beaten(other, others) < FINISHED:
                    yield Leg(other, other.epochs)


def proposals_left(left: float, size: int | None, proposed: int) -> float:
    """Return how many more trials may be proposed: no more than a finite space has."""
    return max(0.0, min(left, math.inf if size is None else size - proposed))
