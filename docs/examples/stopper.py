"""A stopping rule: a trial ends early when it is far behind the best one at the same epoch.

::

    detol search --data digits --stop docs/examples/stopper.py --set stop.margin=0.05
"""

from detol.search.records import Verdict


class FarBehind:
    """Stops a trial whose score is more than ``margin`` below the best that any other had after as many epochs.

    A rule is pure: what it says depends on the arguments alone, there is no clock and no randomness in it. Scores are
    such that more is better, whatever the objective.
    """

    def __init__(self, *, epochs, margin=0.1, grace=2):
        self.epochs, self.margin, self.grace = epochs, margin, grace

    def judge(self, trial, peers):
        """Return what to do with ``trial``, whose last report is new."""
        if not self.grace <= trial.epoch < self.epochs:
            return Verdict.CONTINUE
        others = [peer.curve[trial.epoch - 1] for peer in peers if len(peer.curve) >= trial.epoch]
        behind = max(others, default=trial.curve[-1]) - trial.curve[-1]
        return Verdict.STOP if behind > self.margin else Verdict.CONTINUE


STOPPER = FarBehind
