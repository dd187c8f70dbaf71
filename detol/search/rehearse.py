"""Rehearsing a stopping rule on known curves: what it would have done, without training anything.

A small driver that keeps the seam (``protocols.Stopper`` and ``Pauser``) as the controller does: when a worker is free
a resting trial is promoted, or else the next curve is started; when there is nothing left to do, the best are finished.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from detol.graph.topology import chain
from detol.search.fidelity import beaten
from detol.search.protocols import Pauser, Stopper
from detol.search.records import Candidate, Origin, State, Trial, Verdict
from detol.spaces.decisions import Decisions

NOBODY = Candidate(Decisions(), chain(), Origin.SAMPLE)


@dataclass(frozen=True)
class Rehearsal:
    """What a rule did with some curves.

    Args:
        trials: by their number, which is their place in the order of arrival; as they stood at the end.
        epochs: trained in all.
        best: number of the winner: the completed trial with the best last score; ``None``: none completed.
        finishing: of ``epochs``, those spent to finish the best at the end.
    """

    trials: tuple[Trial, ...]
    epochs: int
    best: int | None
    finishing: int = 0


def rehearse(
    curves: Sequence[Trial], stopper: Stopper, *, workers: int = 1, finish: int = 5, exempt: Sequence[int] = ()
) -> Rehearsal:
    """Run a rule over curves that arrive in the order given, each epoch taking the same time.

    Args:
        curves: trials with all that is known of their curves. One that is shorter than its ``epochs`` ends where its
            curve does, as if it had been stopped there.
        stopper: the rule.
        workers: how many train at once, >= 1.
        finish: at the end, resting trials that fewer than so many others beat after the same epoch are trained to
            their end, unless the rule stops them; 0: none.
        exempt: places in the order of arrival of trials that the rule is not asked about (references).
    """
    return _Run(curves, stopper, workers, frozenset(exempt)).run(finish)


class _Run:
    def __init__(self, curves: Sequence[Trial], stopper: Stopper, workers: int, exempt: frozenset[int]) -> None:
        self.curves, self.stopper, self.workers, self.exempt = curves, stopper, workers, exempt
        self.trials: dict[int, Trial] = {}
        self.queue: list[tuple[int, int, int]] = []  # (when its next epoch is over, order of arrival, number)
        self.now = self.arrivals = self.epochs = 0
        self.finishers: set[int] = set()

    def run(self, finish: int) -> Rehearsal:
        while self._fill():
            self._step()
        spent = self.epochs
        if finish:
            self._finish(finish)
        completed = [trial for trial in self.trials.values() if trial.state is State.COMPLETED]
        best = (
            max(completed, key=lambda trial: (trial.curve[-1], trial.tie_break, -trial.number)).number
            if completed
            else None
        )
        trials = tuple(self.trials[number] for number in sorted(self.trials))
        return Rehearsal(trials, self.epochs, best, self.epochs - spent)

    def _fill(self) -> bool:
        while len(self.queue) < self.workers:
            number = self._promoted()
            if number is None:
                if len(self.trials) == len(self.curves):
                    break
                number = len(self.trials)
                known = self.curves[number]
                self.trials[number] = replace(
                    known, number=number, candidate=NOBODY, state=State.RUNNING, reports=(), curve=(), scores=None
                )
            self._start(number)
        return bool(self.queue)

    def _promoted(self) -> int | None:
        if not isinstance(self.stopper, Pauser):
            return None
        paused = [trial for trial in self.trials.values() if trial.state is State.PAUSED]
        if not paused:
            return None
        return self.stopper.promote(paused, [t for t in self.trials.values() if t.state is not State.PAUSED])

    def _start(self, number: int) -> None:
        self.trials[number] = replace(self.trials[number], state=State.RUNNING)
        self.arrivals += 1
        heapq.heappush(self.queue, (self.now + 1, self.arrivals, number))

    def _step(self) -> None:
        """Let the next epoch of some trial be over, and do what the rule says."""
        self.now, _, number = heapq.heappop(self.queue)
        trial, known = self.trials[number], self.curves[number]
        place = len(trial.reports)
        self.epochs += known.reports[place].epoch - trial.epoch
        trial = replace(trial, reports=known.reports[: place + 1], curve=known.curve[: place + 1])
        self.trials[number] = trial
        if trial.epoch >= trial.epochs:
            self.trials[number] = replace(
                trial, state=State.COMPLETED if trial.curve[-1] == trial.curve[-1] else State.DIVERGED
            )
        elif place + 1 == len(known.reports):
            self.trials[number] = replace(trial, state=State.STOPPED, reason="nothing more is known")
        else:
            verdict = self._verdict(trial)
            if verdict is Verdict.CONTINUE or (verdict is Verdict.PAUSE and number in self.finishers):
                self._start(number)
            else:
                state = State.PAUSED if verdict is Verdict.PAUSE else State.STOPPED
                self.trials[number] = replace(trial, state=state)

    def _verdict(self, trial: Trial) -> Verdict:
        if trial.number in self.exempt:
            return Verdict.CONTINUE
        return self.stopper.judge(trial, [other for other in self.trials.values() if other.number != trial.number])

    def _finish(self, count: int) -> None:
        """Train the best to their end: resting trials that fewer than ``count`` others beat after the same epoch."""
        resting = [trial for trial in self.trials.values() if trial.state is State.PAUSED]
        resting.sort(key=lambda trial: (-trial.epoch, -trial.curve[-1], trial.number))
        for trial in resting:
            others = (other for other in self.trials.values() if other.number != trial.number)
            if beaten(trial, others) < count:
                self.finishers.add(trial.number)
        waiting = [trial.number for trial in resting if trial.number in self.finishers]
        while waiting or self.queue:
            while waiting and len(self.queue) < self.workers:
                number = waiting.pop(0)
                if self._verdict(self.trials[number]) is Verdict.STOP:
                    self.trials[number] = replace(self.trials[number], state=State.STOPPED)
                else:
                    self._start(number)
            if self.queue:
                self._step()
