"""Which of a space's references trains to its end, so that no search ends below it, where a rule pauses trials."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from detol.search.ledger import Ledger
from detol.search.protocols import Pauser, Stopper
from detol.search.records import CONTENDS, Origin, Report, Trial
from detol.search.task import Task

SHARE = 1 / 2
"""Of the time of such a search, over all workers, that the contest may take."""


class Contest:
    """References train to the rule's last milestone, whatever it says; the best there goes on to its end.

    The others rest, and go on as the rule says. There is no contest where a single reference is tried, and with several
    objectives, of which each reference may be the best in another one: there all train to their end.

    Where time is the bound, references (a single one too) contend as long as there is time for it: what they take up to
    the last milestone, and the slowest of them to its end, is at most ``SHARE`` of it. That is seen at their first
    milestone. Up to there they are judged as any trial, beyond it the others, and with several objectives all.

    Args:
        task: what is searched for.
        stopper: the rule.
        ledger: the trials.
    """

    def __init__(self, task: Task, stopper: Stopper, ledger: Ledger) -> None:
        self._rule = stopper if isinstance(stopper, Pauser) else None
        tried = task.space.references.keys() - set(task.known) if task.references else ()
        self._seconds, self._width = task.limits.seconds, task.width
        several = len(tried) > 1 or (len(tried) == 1 and self._timed)
        self._open = self._rule is not None and several and len(task.objectives) == 1
        self._ledger = ledger

    @property
    def _timed(self) -> bool:
        return not math.isinf(self._seconds)

    def has(self, trial: Trial) -> bool:
        """Return whether a trial is one of the references that contend."""
        return self._designed(trial) and (not self._timed or CONTENDS in trial.extra)

    def joins(self, trial: Trial, workers: int) -> bool:
        """Return whether a trial that has come to a milestone contends from now on, with time as the bound.

        Args:
            trial: with the seconds of its last epoch.
            workers: trials that can run at once, >= 1.
        """
        if not self._timed or not self._rule or not self._designed(trial) or CONTENDS in trial.extra:
            return False
        last = last_milestone(self._rule, trial)
        if not self._first(trial) <= trial.epoch <= last:
            return False
        paces = [self._pace(other) for other in (*self._contending(), trial) if other.reports]
        taken = last * sum(paces) + (trial.epochs - last) * max(paces)
        return taken <= SHARE * self._seconds * workers

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

    def _designed(self, trial: Trial) -> bool:
        candidate = trial.candidate
        return self._open and candidate.origin is Origin.REFERENCE and candidate.named

    def _contending(self) -> list[Trial]:
        """Return those that contend and have not ended, and those that completed."""
        there = itertools.chain(self._resting(), self._on_their_way(), self._ledger.tally.baselines)
        return [trial for trial in there if self.has(trial) and not trial.reused]

    def _pace(self, trial: Trial) -> float:
        """Return the seconds of an epoch, over all workers of a trial with the usual number of them."""
        return trial.reports[-1].seconds * trial.width / self._width

    def _resting(self) -> list[Trial]:
        return list(filter(self.has, self._ledger.resting.values()))

    def _on_their_way(self) -> list[Trial]:
        there: tuple[Iterable[Trial], ...] = (self._ledger.running.values(), self._ledger.waiting)
        parts = (*there, self._ledger.awaited.values())
        return [trial for part in parts for trial in part if self._may_come(trial)]

    def _may_come(self, trial: Trial) -> bool:
        """Return whether one that runs or waits contends, or will be asked whether there is time for it to."""
        return self.has(trial) or (self._designed(trial) and trial.epoch < self._first(trial) < trial.epochs)

    def _first(self, trial: Trial) -> int:
        return self._rule.milestone(to_come(trial, 0)) if self._rule else 0

    def _moving(self) -> bool:
        return bool(self._on_their_way())


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
