"""What a policy of widths is asked, and what it answers (see :class:`detol.search.protocols.Widths`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from detol.search.records import Trial

REASON = "width_reason"
"""Fact of a trial: why it has its width."""

WIDTHS = "widths"
"""Fact of a trial whose legs differ in width: ``WIDTH@EPOCH`` of each leg, the epochs that were over when it began."""

FORECAST = "forecast_epoch_seconds"
"""Fact of a trial: the seconds of an epoch that the model of scaling foretold for its width."""


LOST_RANKS = "ranks_lost"
"""Fact of a trial that went on with fewer ranks than it had begun with: which were lost, and where."""
WIDTH_NOW = "width_now"
"""Fact of such a trial: how many were left at its end."""


def width_at(trial: Trial, epoch: int) -> int:
    """Return how many ranks trained an epoch of a trial, counted from 1."""
    found = trial.width
    if WIDTHS in trial.extra:
        for leg in str(trial.extra[WIDTHS]).split(","):
            ranks, _, over = leg.partition("@")
            if int(over) < epoch:
                found = int(ranks)
    return found


@dataclass(frozen=True, slots=True)
class Leg:
    """A trial on its way from where it is to ``until``, the epoch after which it pauses or ends.

    ``seconds`` have passed since it started or last reported.
    """

    trial: Trial
    until: int
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        """How many are left of it."""
        return max(0, self.until - self.trial.epoch)


@dataclass(frozen=True)
class Situation:
    """All that a width may depend on besides the trial itself.

    Args:
        free: idle workers.
        running: what the others do.
        waiting: further trials that go to a worker as soon as one is free, or may.
        left: how many more trials may be proposed; infinite where nothing but time bounds the search.
        ended: trials that are over; the ledger keeps of each its curve, its seconds, its width and ``FORECAST``.
    """

    free: int
    running: Sequence[Leg] = ()
    waiting: Sequence[Leg] = ()
    left: float = 0.0
    ended: Sequence[Trial] = ()

    @property
    def workers(self) -> int:
        """All that are up."""
        return self.free + sum(leg.trial.width for leg in self.running)


@dataclass(frozen=True, slots=True)
class Width:
    """An answer: so many ranks, and why; more than are free: it waits until they are.

    ``forecast``: seconds that an epoch should take; 0 where nothing is foretold.
    """

    ranks: int
    reason: str = ""
    forecast: float = 0.0
