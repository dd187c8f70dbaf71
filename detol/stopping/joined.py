"""Several rules in one: a trial goes on as long as none of them objects."""

from collections.abc import Iterable, Sequence

from detol.errors import UsageError
from detol.search.protocols import Pauser, Stopper
from detol.search.records import Trial, Verdict


def joined(rules: Sequence[Stopper]) -> Stopper:
    """Return one rule that stands for all of them, in any order; a single one as it is.

    Raises:
        UsageError: two rules that pause.
    """
    pausers = [rule for rule in rules if isinstance(rule, Pauser)]
    if len(rules) == 1:
        return rules[0]
    if pausers:
        return Joined(pausers[0], *(rule for rule in rules if rule is not pausers[0]))
    return JoinedStop(*rules)


class Joined:
    """A rule that pauses and promotes, and rules that stop.

    A trial is stopped when one of the rules says so. Of those that rest the pausing rule's choice goes on.

    Args:
        pauser: where trials rest, and who goes on.
        stoppers: what else ends a trial; at least one, none of them pauses.

    Raises:
        UsageError: two rules that pause.
    """

    def __init__(self, pauser: Pauser, *stoppers: Stopper) -> None:
        for rule in stoppers:
            if isinstance(rule, Pauser):
                names = f"{type(pauser).__name__} and {type(rule).__name__}"
                raise UsageError(f"of rules that are joined one may pause, got {names}: leave one out")
        self.pauser, self.stoppers = pauser, stoppers

    def milestone(self, trial: Trial) -> int:
        """Return where the pausing rule looks at the trial next."""
        return self.pauser.milestone(trial)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP if any rule says so, otherwise what the pausing rule says."""
        others = tuple(peers)
        return Verdict.STOP if self._hopeless(trial, others) else self.pauser.judge(trial, others)

    def promote(self, paused: Sequence[Trial], peers: Iterable[Trial]) -> int | None:
        """Return whom the pausing rule promotes, those left out that would be stopped by now: they rest on."""
        resting, others = list(paused), list(peers)
        while (number := self.pauser.promote(resting, others)) is not None:
            chosen = next(trial for trial in resting if trial.number == number)
            resting.remove(chosen)
            if not self._hopeless(chosen, [*others, *resting]):
                return number
            others.append(chosen)
        return None

    def _hopeless(self, trial: Trial, others: Sequence[Trial]) -> bool:
        return any(rule.judge(trial, others) is Verdict.STOP for rule in self.stoppers)


class JoinedStop:
    """Rules that stop: one is enough.

    Args:
        stoppers: the rules; none of them pauses.
    """

    def __init__(self, *stoppers: Stopper) -> None:
        self.stoppers = stoppers

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return STOP if any rule says so."""
        others = tuple(peers)
        stopped = any(rule.judge(trial, others) is Verdict.STOP for rule in self.stoppers)
        return Verdict.STOP if stopped else Verdict.CONTINUE
