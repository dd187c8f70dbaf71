"""What early stopping cost a search: its rule replayed on its own curves, and on those that ran on against its advice.

A stopped trial might have bloomed late, and nobody would know. So a share of the trials is spared (they run to their
end whatever the rule says), and afterwards the rule is asked again about all of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from detol.errors import UsageError
from detol.search.protocols import Stopper
from detol.search.records import Origin, State, Trial
from detol.search.rehearse import Rehearsal, rehearse
from detol.search.spared import trained

ORDERS = 100
"""Random orders of arrival that the rule is replayed in."""


@dataclass(frozen=True)
class Audit:
    """What a rule cost, and what it saved.

    Args:
        trials: with a curve.
        complete: of them, those whose curve is known to the end.
        spared: of these, those that ran to the end whatever the rule said.
        against: of the spared, those that the rule would have ended early, in the order in which they arrived.
        late: of ``against``, those that ended above all that the rule would have let complete; their numbers.
        late_chance: estimate of the chance that a trial which the rule ends early beats the winner.
        late_chance_95: its upper bound (Clopper and Pearson 1934, one-sided 95 %).
        winner: number of the best completed trial; of those whose scores were not inherited, if there are any.
        judged: number of the trial that the rule was asked about for it: the winner, or where that is one which was
            trained from scratch because its score was inherited, that one.
        lost: chance, over random orders of arrival, that the rule would have ended ``judged`` early.
        lost_as_it_was: whether it would have in the order in which the trials arrived.
        regret: what would have been lost of the score of ``judged``, on the average over the orders; >= 0.
        regret_max: and at worst.
        epochs_full: of training all trials to their end.
        epochs_spent: trained in fact (what reuse answered or a checkpoint spared is left out).
        epochs_replayed: that the rule takes in a replay, on the average: without the spared trials.
        orders: how many random orders were replayed.
    """

    trials: int
    complete: int
    spared: int
    against: int
    late: tuple[int, ...]
    late_chance: float | None
    late_chance_95: float | None
    winner: int
    judged: int
    lost: float
    lost_as_it_was: bool
    regret: float
    regret_max: float
    epochs_full: int
    epochs_spent: int
    epochs_replayed: float
    orders: int

    def lines(self) -> list[str]:
        """Return what it says, for people."""
        full = max(1, self.epochs_full)
        late = ", ".join(map(str, self.late)) or "none"
        would = "would have" if self.lost_as_it_was else "would not have"
        again = "" if self.judged == self.winner else f", which is trial {self.judged} from scratch"
        ended = "it" if self.judged == self.winner else f"trial {self.judged}"
        return [
            f"epochs: {self.epochs_spent} spent of {self.epochs_full} for all to the end "
            f"({1 - self.epochs_spent / full:.0%} saved; the rule alone saves {1 - self.epochs_replayed / full:.0%})",
            f"winner: trial {self.winner}{again}; the rule {would} ended {ended} early in the order in which the "
            f"trials arrived, and in {self.lost:.0%} of {self.orders} random orders",
            f"regret of the rule over those orders: {self.regret:.6g} on the average, {self.regret_max:.6g} at worst",
            f"spared: {self.spared} trials ran to their end whatever the rule said, {self.against} of them against it; "
            f"late bloomers that beat the rest: {late}"
            + ("" if self.late_chance_95 is None else f" (at most {self.late_chance_95:.0%} of those ended, at 95 %)"),
        ]


def audit(
    trials: Sequence[Trial],
    rule: Stopper,
    *,
    spared: Callable[[Trial], bool] = lambda _: False,
    orders: int = ORDERS,
    seed: int = 0,
    finish: int = 5,
) -> Audit:
    """Replay a rule on the curves of a search.

    A curve that is not known to its end ends in a replay where it is known to: the rule is flattered where it would
    have trained such a trial further than the search did.

    Args:
        trials: of the search.
        rule: without a share that it spares.
        spared: whether a trial ran to its end whatever the rule said.
        orders: random orders of arrival, >= 1.
        seed: of the orders.
        finish: as in :func:`detol.search.rehearse.rehearse`.

    Raises:
        UsageError: no trial has completed, or fewer than one order.
    """
    if orders < 1:
        raise UsageError(f"--orders must be at least 1, got {orders}")
    known = [trial for trial in trials if trial.reports and trial.candidate.origin is not Origin.RETRAIN]
    complete = [trial for trial in known if _complete(trial)]
    if not complete:
        raise UsageError("an audit needs a trial that completed its training, and the search has none: let it go on")
    reported, winner = _winner(trials, complete)
    as_it_was = _replay(known, range(len(known)), rule, finish)
    free = [place for place, trial in enumerate(known) if spared(trial) and _judged(trial) and _complete(trial)]
    against = [place for place in free if as_it_was.trials[place].state is not State.COMPLETED]
    bar = -math.inf if as_it_was.best is None else known[as_it_was.best].curve[-1]
    late = [known[place].number for place in against if known[place].curve[-1] > bar]
    rng = np.random.default_rng(seed)
    epochs, regrets, lost = [], [], 0
    for _ in range(orders):
        order = rng.permutation(len(known)).tolist()
        done = _replay(known, order, rule, finish)
        found = -math.inf if done.best is None else done.trials[done.best].curve[-1]
        place = order.index(known.index(winner))
        lost += done.trials[place].state is not State.COMPLETED
        lowest = min(trial.curve[-1] for trial in complete)
        regrets.append(max(0.0, winner.curve[-1] - max(found, lowest)))
        epochs.append(done.epochs)
    return Audit(
        trials=len(known),
        complete=len(complete),
        spared=len(free),
        against=len(against),
        late=tuple(late),
        late_chance=len(late) / len(against) if against else None,
        late_chance_95=_upper(len(late), len(against)) if against else None,
        winner=reported.number,
        judged=winner.number,
        lost=lost / orders,
        lost_as_it_was=as_it_was.trials[known.index(winner)].state is not State.COMPLETED,
        regret=float(np.mean(regrets)),
        regret_max=float(np.max(regrets)),
        epochs_full=sum(trial.epochs for trial in known),
        epochs_spent=sum(map(trained, known)),
        epochs_replayed=float(np.mean(epochs)),
        orders=orders,
    )


def _winner(trials: Sequence[Trial], complete: Sequence[Trial]) -> tuple[Trial, Trial]:
    """Return the trial that a search reports, and the completed one of its strategy that this comes from."""
    scratch = [trial for trial in trials if trial.reports and _complete(trial) and not trial.inherited]
    best = max(scratch or complete, key=lambda trial: (trial.curve[-1], trial.tie_break, -trial.number))
    by_number = {trial.number: trial for trial in complete}
    if best.number in by_number:
        return best, best
    first = next((by_number[number] for number in best.candidate.parents if number in by_number), None)
    return (best, first) if first else _winner(complete, complete)


def _complete(trial: Trial) -> bool:
    return trial.state is State.COMPLETED and math.isfinite(trial.curve[-1])


def _judged(trial: Trial) -> bool:
    """Whether the rule was asked about a trial: it is not about references."""
    return not trial.candidate.named


def _replay(known: Sequence[Trial], order: Sequence[int], rule: Stopper, finish: int) -> Rehearsal:
    shown = [known[place] for place in order]
    references = [place for place, trial in enumerate(shown) if not _judged(trial)]
    return rehearse(shown, rule, finish=finish, exempt=references)


def _upper(hits: int, of: int) -> float:
    from scipy.stats import beta  # late: it is slow to import

    return float(beta.ppf(0.95, hits + 1, of - hits)) if hits < of else 1.0
