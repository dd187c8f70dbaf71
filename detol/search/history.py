"""Replaying what a search did: to resume it, and to answer an identical search from it.

A strategy's state is a function of the calls it got, so the log of calls (what was told, then how many were asked for)
rebuilds it. Nothing of a strategy is ever pickled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from detol.search.protocols import Strategy
from detol.search.records import Candidate, State, Trial

REPEATABLE = (State.COMPLETED, State.STOPPED, State.DIVERGED, State.REFUSED)
"""States that the same trial reaches again; the others may have been the machine's or the moment's fault."""

TIME_UP = "the time of the search is used up"
"""Why a trial was stopped that nobody judged: another search may have more time."""


@dataclass(frozen=True)
class History:
    """What an earlier run of a search did: its name, its log of calls and its trials by number."""

    name: str
    steps: Sequence[tuple[int, Sequence[int]]] = ()
    trials: Mapping[int, Trial] = field(default_factory=dict)


def replay(history: History, strategy: Strategy, warn: Callable[[str], None]) -> set[int]:
    """Rebuild a strategy from the log of its own search.

    Returns:
        Numbers of the trials that it has been told.

    If the strategy proposes something else than the log holds (its code has changed since), it is only told the rest,
    and a warning says so: the search goes on, but no longer as it would have.
    """
    proposed = iter([t for t in history.trials.values() if not t.candidate.named])
    told: set[int] = set()
    same = True
    for asked, numbers in history.steps:
        strategy.tell([history.trials[number] for number in numbers])
        told.update(numbers)
        for candidate in strategy.ask(asked) if asked and same else ():
            trial = next(proposed, None)
            if trial is None or not _same(trial, candidate):
                warn(
                    f"{history.name}: the strategy no longer proposes what the log holds; it learns from the log alone"
                )
                same = False
                break
    return told


def copy(trial: Trial, candidate: Candidate, name: str) -> Trial | None:
    """Return the outcome of a trial of an identical search as one of this search, ``None`` if it cannot answer."""
    if trial.state not in REPEATABLE or trial.reason == TIME_UP or not _same(trial, candidate):
        return None
    reused = "" if trial.state is State.REFUSED else trial.reused or f"{name}/{trial.number}"
    return replace(trial, candidate=candidate, reused=reused, seconds=0.0, attempt=1)


def _same(trial: Trial, candidate: Candidate) -> bool:
    # The digest too: a space may decode the same decisions into another network than it did then.
    return trial.candidate.decisions == candidate.decisions and trial.digest == candidate.digest
