"""Replaying what a search did: to resume it, and to answer an identical search from it.

A strategy's state is a function of the calls it got, so the log of calls (what was told, then how many were asked for)
rebuilds it. Nothing of a strategy is ever pickled. A trial that was told while it rested is shown again as it was then:
with the reports it had, and none of what came later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from detol.search.protocols import Strategy, Telling
from detol.search.records import Candidate, Objective, State, Trial
from detol.search.scoring import with_report

REPEATABLE = (State.COMPLETED, State.STOPPED, State.DIVERGED, State.REFUSED)
"""States that the same trial reaches again; the others may have been the machine's or the moment's fault."""

TIME_UP = "the time of the search is used up"
"""Why a trial was stopped that nobody judged: another search may have more time."""

PLACES = ("checkpoint", "checkpoint_epoch", "spared_epochs", "spared_seconds", "contends")
"""Facts of a trial that are its own, not those of one that repeats it (see :mod:`detol.search.spared`)."""

COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
"""Facts of a trial that are known before it is trained."""


@dataclass(frozen=True)
class History:
    """What an earlier run of a search did: its name, its log of calls and its trials by number."""

    name: str
    steps: Sequence[tuple[int, Sequence[Telling]]] = ()
    trials: Mapping[int, Trial] = field(default_factory=dict)


def telling(trial: Trial) -> Telling:
    """Return how the log notes that a strategy was told ``trial`` as it is now."""
    return trial.number if trial.state.final else (trial.number, trial.epoch)


def shown(trial: Trial, told: Telling, objectives: Sequence[Objective]) -> Trial:
    """Return a trial as a strategy was told it: as it ended, or as it rested after some epoch.

    A resting trial is shown without what belongs to the moment (attempt, seconds, device ...), so that the same telling
    can be made again from the record of the whole trial.
    """
    if isinstance(told, int):
        return trial
    extra = {name: v for name, v in trial.extra.items() if name in COSTS or name in {o.metric for o in objectives}}
    bare = replace(trial, state=State.PAUSED, seconds=0.0, attempt=1, reason="", reused="", weights="", extra=extra)
    return until(bare, told[1], objectives)


def until(trial: Trial, epoch: int, objectives: Sequence[Objective]) -> Trial:
    """Return a trial with its reports up to an epoch alone, curve and scores likewise; seconds stay as they are."""
    cut = replace(trial, reports=(), curve=(), scores=None)
    for report in trial.reports:
        if report.epoch <= epoch:
            cut = with_report(cut, report, objectives)
    return replace(cut, seconds=trial.seconds)


def replay(
    history: History, strategy: Strategy, objectives: Sequence[Objective], warn: Callable[[str], None]
) -> set[Telling]:
    """Rebuild a strategy from the log of its own search.

    Returns:
        What it has been told: numbers of trials that had ended, and (number, epoch) of trials that rested.

    If the strategy proposes something else than the log holds (its code has changed since), it is only told the rest,
    and a warning says so: the search goes on, but no longer as it would have.
    """
    proposed = iter([t for t in history.trials.values() if not t.candidate.named])
    told: set[Telling] = set()
    same = True
    for asked, tellings in history.steps:
        strategy.tell([shown(history.trials[number_of(each)], each, objectives) for each in tellings])
        told.update(tellings)
        for candidate in strategy.ask(asked) if asked and same else ():
            trial = next(proposed, None)
            if trial is None or not _same(trial, candidate):
                warn(
                    f"{history.name}: the strategy no longer proposes what the log holds; it learns from the log alone"
                )
                same = False
                break
    return told


def number_of(told: Telling) -> int:
    """Return the number of the trial that was told."""
    return told if isinstance(told, int) else told[0]


def copy(trial: Trial, candidate: Candidate, name: str) -> Trial | None:
    """Return the outcome of a trial of an identical search as one of this search, ``None`` if it cannot answer."""
    if trial.state not in REPEATABLE or trial.reason == TIME_UP or not _same(trial, candidate):
        return None
    reused = "" if trial.state is State.REFUSED else trial.reused or f"{name}/{trial.number}"
    extra = {name: value for name, value in trial.extra.items() if name not in PLACES}
    candidate = replace(candidate, topology=trial.candidate.topology)  # its weights are kept under those names of nodes
    return replace(trial, candidate=candidate, reused=reused, seconds=0.0, attempt=1, extra=extra)


def _same(trial: Trial, candidate: Candidate) -> bool:
    # The digest too: a space may decode the same decisions into another network than it did then.
    return trial.candidate.decisions == candidate.decisions and trial.digest == candidate.digest
