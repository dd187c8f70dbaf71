"""A share of the trials that a rule does not stop, so that what the rule costs can be measured (late bloomers)."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

from detol.errors import UsageError
from detol.search.protocols import Pauser, Stopper
from detol.search.records import Trial, Verdict
from detol.stopping.curves import whole

SHARE = 0.05
"""Of the trials, by default."""
LEAST = 3
"""Trials that run to their end at least, but no more than a third of a search."""
MARK = "audit_spared"
"""Fact of a trial, from its start: 1 where it runs to its end whatever the rule says, 0 where it does not."""


class Audited:
    """A rule, and a share of the trials that run to their end whatever it says.

    Which ones depends on their number and the search's seed alone: one, drawn by lot, of each ``period`` in a row after
    the references, about which the rule is not asked. A trial's record says it from its start, since ``trials`` changes
    when a search goes on with more of them; the lot is asked about one whose record does not.
    ``detol results audit`` compares what became of them with what the rule would have done. A curve that is not finite
    is stopped all the same.

    Args:
        rule: the rule.
        share: of the trials, in (0, 1].
        trials: of the search, where known: at least 3 of them are spared, but not more than a third.
        seed: of the search.
        references: how many of the first trials are references.

    Raises:
        UsageError: a share out of range.
    """

    def __init__(
        self, rule: Stopper, *, share: float = SHARE, trials: int | None = None, seed: int = 0, references: int = 0
    ) -> None:
        self.period = period(share, None if trials is None else max(1, trials - references))
        self.rule, self.seed, self.references = rule, seed, references

    def spared(self, number: int) -> bool:
        """Return whether the lot falls on the trial of that number, >= 0."""
        block, place = divmod(number - self.references, self.period)
        lot = hashlib.sha256(f"audit {self.seed} {block}".encode()).digest()
        return block >= 0 and place == int.from_bytes(lot[:8], "big") % self.period

    def facts(self, trial: Trial) -> dict[str, int]:
        """Return what the record of a new trial shall say: what the rule says, and more of proposed ones."""
        own: dict[str, int] = getattr(self.rule, "facts", lambda _: {})(trial)
        return own if trial.candidate.named else {**own, MARK: int(self.spared(trial.number))}

    def spares(self, trial: Trial) -> bool:
        """Return whether a trial runs to its end whatever the rule says: by its record, or else by lot."""
        return bool(trial.extra[MARK]) if MARK in trial.extra else self.spared(trial.number)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return what the rule says, and CONTINUE for a trial that is spared."""
        if self.spares(trial) and (not trial.curve or math.isfinite(trial.curve[-1])):
            return Verdict.CONTINUE
        return self.rule.judge(trial, peers)


class AuditedPauser(Audited):
    """The same for a rule that pauses: spared trials do not rest.

    Where the number of trials is not known, time is the bound of the search. There a spared trial halts at the rule's
    milestones and goes on at once, unless the controller sees no time for it to come to its end.

    Args:
        rule: the rule.
        options: as of :class:`Audited`.
    """

    def __init__(self, rule: Pauser, **options: Any) -> None:
        super().__init__(rule, **options)
        self._pauser = rule
        self._halting = options.get("trials") is None

    def milestone(self, trial: Trial) -> int:
        """Return what the rule says, and the end of the training for a trial that is spared and does not halt."""
        return trial.epochs if self.spares(trial) and not self._halting else self._pauser.milestone(trial)

    def promote(self, paused: Sequence[Trial], peers: Iterable[Trial]) -> int | None:
        """Return whom the rule promotes."""
        return self._pauser.promote(paused, peers)


def audited(rule: Stopper, *, share: float = SHARE, **options: Any) -> Stopper:
    """Return the rule with a share of the trials spared (options as of ``Audited``); as it is for a share of 0.

    Raises:
        UsageError: a share out of range.
    """
    check_share(share)
    if not share:
        return rule
    kind = AuditedPauser if isinstance(rule, Pauser) else Audited
    return kind(rule, share=share, **options)  # type: ignore[arg-type]


def check_share(share: float) -> None:
    """Check the option.

    Raises:
        UsageError: no number in [0, 1].
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UsageError(f"audit_share must be a number in [0, 1] (0: no audit), got {share!r}")


def period(share: float, trials: int | None) -> int:
    """Return in how many consecutive trials one is spared, >= 1.

    Raises:
        UsageError: a share that is not in (0, 1].
    """
    check_share(share)
    if not share:
        raise UsageError("audit_share must be above 0 where trials are spared, got 0")
    wanted = math.floor(1 / share)
    if trials is None:
        return wanted
    whole("trials", trials, 1)
    return min(wanted, max(LEAST, trials // LEAST))
