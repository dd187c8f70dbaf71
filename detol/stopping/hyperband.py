"""Hyperband in its asynchronous form: Li et al. 2018 (JMLR 18-185), each bracket resting and promoting on its own."""

from collections.abc import Iterable, Sequence

from detol.search.records import Objective, Trial, Verdict
from detol.stopping.curves import whole
from detol.stopping.promotion import PromotingAsha

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, fill [0, 1) evenly whatever their number."""


class Hyperband:
    """Brackets of asynchronous successive halving with different grace: some trials are judged early, some late.

    Bracket ``b`` begins at the rung ``grace * eta**b``; the last one trains to the end. A trial belongs to a bracket by
    its number alone, so that a resume or another order of arrival changes nothing, and competes within it. The brackets
    get shares of the trials as in Hyperband: ``eta**s * brackets / (s + 1)`` with ``s = brackets - 1 - b`` (Li et al.
    2018, algorithm 1, line 2), which spends about the same epochs on each.

    Args:
        epochs: of a training to its end, >= 1.
        eta: reduction at each rung, a whole number >= 2.
        grace: epochs before the first rung of the first bracket, in [1, maximum]; by default 1.
        maximum: the last rung, in [1, epochs]: by default the end of a training.
        brackets: how many there are at most, >= 1; by default all.
        objectives: of the search; fewer than two: the curve of a trial counts.

    Raises:
        UsageError: an option outside its range.
    """

    def __init__(
        self,
        *,
        epochs: int,
        eta: int = 3,
        grace: int | None = None,
        maximum: int | None = None,
        brackets: int | None = None,
        objectives: Sequence[Objective] = (),
    ) -> None:
        first = PromotingAsha(epochs=epochs, eta=eta, grace=grace, maximum=maximum, quota=False, objectives=objectives)
        starts = (*first.rungs, first.maximum) if first.maximum == epochs else first.rungs
        if brackets is not None:
            whole("brackets", brackets, 1)
            starts = starts[:brackets]
        self.brackets = tuple(
            PromotingAsha(epochs=epochs, eta=eta, grace=start, maximum=maximum, quota=False, objectives=objectives)
            for start in starts
        )
        weights = [eta**s / (s + 1) for s in reversed(range(len(starts)))]
        self.shares = tuple(weight / sum(weights) for weight in weights)

    def bracket(self, trial: Trial) -> int:
        """Return the position of the bracket of a trial: a function of its number alone."""
        place = (trial.number * GOLDEN) % 1.0
        for position, share in enumerate(self.shares):
            place -= share
            if place < 0:
                return position
        return len(self.shares) - 1

    def milestone(self, trial: Trial) -> int:
        """Return the next rung of the trial's bracket, or the end of its training."""
        return self.brackets[self.bracket(trial)].milestone(trial)

    def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
        """Return what its bracket says, which knows the peers of the bracket alone."""
        own = self.bracket(trial)
        return self.brackets[own].judge(trial, [peer for peer in peers if self.bracket(peer) == own])

    def promote(self, paused: Sequence[Trial], peers: Iterable[Trial]) -> int | None:
        """Return the resting trial that goes on: of all brackets' the one at the highest rung; ties: the first one."""
        count = len(self.brackets)
        resting: list[list[Trial]] = [[] for _ in range(count)]
        every: list[list[Trial]] = [[] for _ in range(count)]
        for trial in paused:
            resting[self.bracket(trial)].append(trial)
        for trial in (*paused, *peers):
            every[self.bracket(trial)].append(trial)
        found = []
        for position, rule in enumerate(self.brackets):
            best = rule.best(resting[position], every[position], len(rule.rungs))
            if best:
                found.append((-rule.rungs[best[0]], position, best[1]))
        return min(found)[2] if found else None
