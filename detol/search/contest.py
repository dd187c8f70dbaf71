"""Which of a space's references trains to its end, so that no search ends below it, where a rule pauses trials."""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from detol.search.ledger import Ledger
from detol.search.protocols import Pauser, Stopper
from detol.search.records import Origin, Report, Trial
from detol.search.task import Task


class Contest:
    """References train to the rule's last milestone, whatever it says; the best there goes on to its end.

    The others rest, and go on as the rule says. There is no contest where time is the bound (references are judged as
    all others), where a single reference is tried, and with several objectives, of which each reference may be the best
    in another one: there all train to their end.

    Args:
        task: what is searched for.
        stopper: the rule.
        ledger: the trials.
    """

    def __init__(self, task: Task, stopper: Stopper, ledger: Ledger) -> None:
        self._rule = stopper if isinstance(stopper, Pauser) else None
        tried = task.space.references.keys() - set(task.known) if task.references else ()
        several = len(tried) > 1 and len(task.objectives) == 1 and math.isinf(task.limits.seconds)
        self._open, self._ledger = self._rule is not None and several, ledger

    def has(self, trial: Trial) -> bool:
        """Return whether a trial is one of the references that contend."""
        candidate = trial.candidate
        return self._open and candidate.origin is Origin.REFERENCE and candidate.named

    def milestone(self, trial: Trial) -> int:
        """Return the epoch at which one that contends rests; 0: it is there, or the rule has no milestone."""
        last = last_milestone(self._rule, trial) if self._rule else 0
        return last if trial.epoch < last else 0

    def held(self, *, started: bool) -> frozenset[int]:
        """Return the numbers of those that rest and must wait for others; ``started``: none is still to be tried."""
        if not self._open or (started and not self._moving()):
            return frozenset()
        return frozenset(trial.number for trial in self._resting())

    def winner(self, *, started: bool) -> int | None:
        """Return the number of the one that trains to its end now.

        ``None``: some are still on their way, or one that completed was as good after as many epochs.
        """
        if not self._open or not started:
            return None
        resting = self._resting()
        if not resting or self._moving():
            return None
        epoch = min(trial.epoch for trial in resting)
        best = max(resting, key=lambda trial: (score_at(trial, epoch), trial.tie_break, -trial.number))
        bar = score_at(best, epoch)
        done = self._ledger.tally.baselines
        return None if any(score_at(trial, epoch) >= bar for trial in done) else best.number

    def _resting(self) -> list[Trial]:
        return list(filter(self.has, self._ledger.resting.values()))

    def _moving(self) -> bool:
        there: tuple[Iterable[Trial], ...] = (self._ledger.running.values(), self._ledger.waiting)
        return any(self.has(trial) for part in (*there, self._ledger.awaited.values()) for trial in part)


def last_milestone(rule: Pauser, trial: Trial) -> int:
    """Return the last epoch before its end at which a rule would let a trial rest; 0: at none."""
    last, epoch = 0, rule.milestone(to_come(trial, 0))
    while last < epoch < trial.epochs:
        last, epoch = epoch, rule.milestone(to_come(trial, epoch))
    return last


def to_come(trial: Trial, epoch: int) -> Trial:
    """Return a trial as it would be after some epochs, without scores: its curve is not a number."""
    reports = tuple(Report(each, {}) for each in range(1, epoch + 1))
    return replace(trial, reports=reports, curve=(math.nan,) * epoch, scores=None)


def score_at(trial: Trial, epoch: int) -> float:
    """Return the primary score of a trial after an epoch; minus infinity where it has none."""
    index = bisect_left(trial.reports, epoch, key=lambda report: report.epoch)
    score = trial.curve[index] if index < len(trial.reports) else math.nan
    return -math.inf if math.isnan(score) else score
