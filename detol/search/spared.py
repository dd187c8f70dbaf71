"""What of a trial's curve was not trained for it: facts (``Trial.extra``) of curves and checkpoints of others.

The curve of the same training (topology, recipe, data, seed, length of the schedule) in another search tells the first
epochs of a trial for nothing. Where the checkpoint is still there, training goes on from it; otherwise the known epochs
are trained once more, without being reported again.
"""

from collections.abc import Sequence
from dataclasses import replace

from detol.search.history import until
from detol.search.records import Objective, State, Trial

CHECKPOINT = "checkpoint_epoch"
"""Fact of a trial: the epoch of the checkpoint at ``weights``, while it has not ended; or of the one at ``LEFT``."""

LEFT = "checkpoint"
"""Fact of a trial that was stopped: where its checkpoint stays for later searches."""

CONTINUED = "continued_from"
"""Fact of a trial: ``SEARCH/NUMBER`` of the earlier one whose curve tells its first epochs."""

KNOWN = "known_epochs"
"""Fact of such a trial: how many epochs that curve tells."""

SPARED_EPOCHS, SPARED_SECONDS = "spared_epochs", "spared_seconds"
"""Facts of such a trial: epochs of its curve that were not trained for it, and the device seconds they took there."""

OWN = "own_epochs"
"""Fact of a trial that was answered on its way: how many epochs had been trained for it."""

SCHEDULE = "schedule_epochs"
"""Fact of an answered trial: the length of the longer (or shorter) schedule that its curve is the beginning of."""


def spared(trial: Trial) -> int:
    """Return how many epochs of a trial's curve were not trained for it."""
    if trial.reused:
        return trial.epoch - min(trial.epoch, int(trial.extra.get(OWN, 0)))
    return int(trial.extra.get(SPARED_EPOCHS, 0))


def trained(trial: Trial) -> int:
    """Return how many epochs of a trial's curve were trained for it."""
    return max(0, trial.epoch - spared(trial))


def left(result: Trial) -> tuple[str, int]:
    """Return where the checkpoint of an earlier trial is and its epoch; empty and 0 where none was left."""
    place = result.weights if result.state is State.PAUSED else str(result.extra.get(LEFT, ""))
    return (place, int(result.extra.get(CHECKPOINT, 0))) if place else ("", 0)


def fitted(result: Trial, epochs: int, objectives: Sequence[Objective]) -> Trial:
    """Return a result of a schedule of any length as one of ``epochs``, under a recipe for which that is the same.

    See :attr:`detol.search.recipe.Recipe.anytime`. Its weights and its checkpoint are those of the other schedule and
    are left behind.
    """
    if result.epochs == epochs:
        return result
    cut = until(result, epochs, objectives)
    state = State.COMPLETED if cut.epoch == epochs else State.STOPPED
    extra = {name: value for name, value in result.extra.items() if name not in (LEFT, CHECKPOINT)}
    extra[SCHEDULE] = result.epochs
    return replace(cut, epochs=epochs, state=state, reason="", weights="", extra=extra)


def adopted(trial: Trial, result: Trial, place: str, epoch: int, objectives: Sequence[Objective]) -> Trial:
    """Return a trial with the curve of an earlier one, and where it goes on from.

    Args:
        trial: new, or resting and waiting.
        result: of the same training, as far as it went; ``reused`` says where it stands.
        place: of its checkpoint, empty where there is none.
        epoch: of that, 0 where there is none.
        objectives: of this search, which score the curve.
    """
    told = until(replace(trial, reports=result.reports, seed=result.seed), result.epoch, objectives)
    until_there = epoch if place else told.epoch
    there = (report for report in told.reports if trial.epoch < report.epoch <= until_there)
    seconds = sum(report.seconds for report in there) * result.width + float(trial.extra.get(SPARED_SECONDS, 0.0))
    extra = {name: value for name, value in trial.extra.items() if name != CHECKPOINT}
    extra |= {CONTINUED: result.reused, KNOWN: told.epoch, SPARED_SECONDS: seconds}
    extra[SPARED_EPOCHS] = max(0, until_there - trained(trial))
    if SCHEDULE in result.extra:
        extra[SCHEDULE] = result.extra[SCHEDULE]
    return replace(told, weights=place, extra={**extra, CHECKPOINT: epoch} if place else extra)


def answered(trial: Trial, result: Trial) -> dict[str, str | float | int]:
    """Return the facts of a trial that a result answers: not those of a way on that it will not take."""
    gone = (CHECKPOINT, CONTINUED, KNOWN, SPARED_EPOCHS, SPARED_SECONDS)
    extra = {name: value for name, value in trial.extra.items() if name not in gone}
    if SCHEDULE in result.extra:
        extra[SCHEDULE] = result.extra[SCHEDULE]
    return {**extra, OWN: trained(trial)} if trained(trial) else extra


def from_start(trial: Trial, objectives: Sequence[Objective]) -> Trial:
    """Return a trial that begins again without a checkpoint: what another's curve tells stays, nothing is spared."""
    gone = (CHECKPOINT, SPARED_EPOCHS, SPARED_SECONDS)
    extra = {name: value for name, value in trial.extra.items() if name not in gone}
    return until(replace(trial, weights="", extra=extra), int(extra.get(KNOWN, 0)), objectives)


def settled(trial: Trial) -> Trial:
    """Return a trial that has ended as an answer, where all of its curve is another's and nothing was trained."""
    if not trial.extra.get(KNOWN) or trial.epoch > int(trial.extra[KNOWN]) or trial.seconds:
        return trial
    extra = {name: value for name, value in trial.extra.items() if name not in (SPARED_EPOCHS, SPARED_SECONDS)}
    return replace(trial, reused=str(trial.extra[CONTINUED]), extra=extra)
