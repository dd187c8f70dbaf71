"""What a search takes over from others, and how two that run at once do not train the same thing.

Before a training starts, its search holds the lease on it. Who finds it held waits: the search goes on with other
candidates, and looks again until the result is there or the lease is free. Only what a worker has, or gets next, is
held: a trial that rests gives its lease back. So whoever holds one is training, nobody waits for one that waits, and
two searches never stop each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from detol.search.answer import answer, begun, named_alike
from detol.search.fidelity import FINISHING, Fidelity
from detol.search.ledger import Ledger
from detol.search.protocols import Clock, Keeper, Stopper, Store
from detol.search.records import State, Trial
from detol.search.spared import fitted
from detol.search.task import Task

LOOK_SECONDS = 1.0
"""How often a search that has other work looks for what it waits for."""


class Reuse:
    """Answers the trials of one search from what is known, by the rule of ``task.reuse``.

    ``always``: from any search; ``same-seed``: from results of the same seed of the training; ``never``: from this
    search alone.

    Args:
        task: what is searched for.
        store: of the results.
        stopper: of this search.
        keeper: of checkpoints.
        fidelity: where trials rest.
        ledger: the trials.
        clock: of the search.
        over: returns a trial that has ended as the record keeps it.
        measures: whether the strategy measures or edits trained networks: it has no use for results from elsewhere.
    """

    def __init__(
        self,
        task: Task,
        store: Store,
        stopper: Stopper,
        keeper: Keeper,
        fidelity: Fidelity,
        ledger: Ledger,
        clock: Clock,
        *,
        over: Callable[[Trial], Trial] = lambda trial: trial,
        measures: bool = False,
    ) -> None:
        self._over = over
        self._task, self._store, self._stopper, self._keeper = task, store, stopper, keeper
        self._fidelity, self._ledger, self._clock, self._measures = fidelity, ledger, clock, measures
        self._looked = clock.now()

    def look(self, trial: Trial) -> Trial | None:
        """Return a trial as known results answer it, or ``None``: train it.

        Final: answered. PAUSED: its first epochs are known, and it rests. RUNNING: it goes on from a checkpoint.
        """
        if not self._takes(trial):
            return None
        known = self._known(trial)
        if not known:
            return None
        objectives = self._task.objectives
        answered = answer(trial, known, self._stopper, self._ledger.others((trial.number,)), objectives)
        if answered or self._task.inherits(trial.candidate):
            return answered
        return begun(trial, known, objectives, rests=self._rests, at_hand=self._at_hand)

    def claim(self, trial: Trial) -> str:
        """Take the lease on a trial's training, or return the search that holds it and is worth waiting for."""
        if not self._takes(trial) or self._task.inherits(trial.candidate):
            return ""
        held = self._store.lease(trial)
        if held is None or self._task.reuse == "never":
            return ""
        if (trial.epoch or self._task.reuse == "same-seed") and held.seed != trial.seed:
            return ""  # its result will be of no use here
        return held.search

    def begin(self, trial: Trial) -> Trial | None:
        """Return a trial that a worker shall have, with all that is known by now; ``None``: it needs none, or waits.

        Others may have trained it since it was looked at last: while it came to rest, or until its lease was free.
        """
        holder = self.claim(trial)
        if holder:
            self._ledger.await_(trial, holder)
            return None
        found = self.look(trial)
        if found is None:
            return trial
        if self._took(found, trial):
            return None
        self._fidelity.drop(trial)
        self._ledger.note(found)  # before the checkpoint of its own goes
        return found

    def look_again(self) -> None:
        """See whether what this search waits for is there now: take it over, or take the lease over and go on."""
        idle = not self._ledger.running and not self._ledger.waiting
        if not self._ledger.awaited or not (idle or self._clock.now() - self._looked >= LOOK_SECONDS):
            return
        self._looked = self._clock.now()
        for number in list(self._ledger.awaited):
            trial = self._ledger.awaited[number]
            found = self.look(trial)
            if (found is None or not self._took(found, trial)) and not self.claim(trial):
                self._ledger.resume(number)
                self._ledger.wait(trial)

    def _took(self, found: Trial, trial: Trial) -> bool:
        """Record what was found of a trial if it is answered, or rests now; return whether that is so.

        Its topology is on record already: weights under other names of nodes are not taken.
        """
        if not found.state.final and found.state is not State.PAUSED:
            return False
        weights = found.weights if named_alike(trial, found) else ""
        found = replace(found, candidate=trial.candidate, weights=weights)
        self._fidelity.drop(trial)  # its own checkpoint: another's has come further
        self._ledger.resume(found.number)
        if found.state.final:
            self._ledger.finish(self._over(found))
        else:
            self._ledger.rest(found, None)
        return True

    def _takes(self, trial: Trial) -> bool:
        """Whether a result from elsewhere would do."""
        return not trial.candidate.transfer and (trial.candidate.named or not self._measures)

    def _known(self, trial: Trial) -> Sequence[Trial]:
        task, candidate = self._task, trial.candidate
        found = self._store.known(
            trial.digest,
            task.recipe.digest,
            task.data,
            task.epochs,
            candidate.topology,
            unfinished=True,
            any_length=task.recipe.anytime,
        )
        fit = [fitted(result, task.epochs, task.objectives) for result in found if self._allowed(result, trial)]
        agreeing = [result for result in fit if result.scores is not None and _agrees(result, trial)]
        return sorted(agreeing, key=lambda result: (result.state is not State.COMPLETED, -result.epoch))

    def _allowed(self, result: Trial, trial: Trial) -> bool:
        if result.reused.rpartition("/")[0] == self._store.name:
            return result.state.final
        return self._task.reuse == "always" or (self._task.reuse == "same-seed" and result.seed == trial.seed)

    def _rests(self, trial: Trial) -> bool:
        return FINISHING not in trial.extra and self._fidelity.rests(trial)

    def _at_hand(self, place: str) -> bool:
        return self._keeper.load(place) is not None


def _agrees(result: Trial, trial: Trial) -> bool:
    """Whether a result begins as the trial did: what the strategy was told of that must stay true."""
    known = len(trial.reports)
    if not known:
        return True
    return result.seed == trial.seed and [(r.epoch, r.metrics) for r in result.reports[:known]] == [
        (r.epoch, r.metrics) for r in trial.reports
    ]
