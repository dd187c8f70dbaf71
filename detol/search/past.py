"""Taking up the past: this search where it stands, or an identical search from its log."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from detol.search.fidelity import Fidelity
from detol.search.history import History, number_of, replay
from detol.search.inheritance import RECORD, from_text
from detol.search.ledger import AWAITED, Ledger
from detol.search.protocols import Store, Strategy, Telling
from detol.search.records import Candidate, Origin, State, Trial
from detol.search.task import Task


def references(task: Task) -> list[Candidate]:
    """Return the space's references as candidates; none where the task leaves them out."""
    if not task.references:
        return []
    space = task.space
    return [
        Candidate(decisions, space.decode(decisions), Origin.REFERENCE, note=name)
        for name, decisions in space.references.items()
    ]


def left_out(task: Task) -> frozenset[str]:
    """Return the digests of references that are not tried because other data sets tell of better ones."""
    return frozenset(reference.digest for reference in references(task) if reference.note in task.known)


def again(trial: Trial, reason: str, fidelity: Fidelity) -> Trial:
    """Return a trial whose attempt was lost as its next attempt begins: where its last checkpoint is."""
    trial = fidelity.rewound(trial)
    extra = {**trial.extra, f"lost_attempt_{trial.attempt}": reason}
    return replace(trial, state=State.RUNNING, attempt=trial.attempt + 1, extra=extra)


def restore(
    store: Store,
    strategy: Strategy,
    ledger: Ledger,
    fidelity: Fidelity,
    task: Task,
    warn: Callable[[str], None],
    answered: Callable[[Candidate], bool] = lambda _: False,
) -> list[Candidate]:
    """Take up a search where it stands: rebuild the strategy, count what is done, try again what was lost.

    Args:
        store: of its trials.
        strategy: as new.
        ledger: empty.
        fidelity: where trials rest.
        task: what is searched for.
        warn: told what cannot be rebuilt.
        answered: whether a reference costs no training: then a new search tries it though the task knows better ones.

    Returns:
        The references that were not tried yet.
    """
    trials = {trial.number: trial for trial in store.trials()}
    done = {trial.candidate.note for trial in trials.values() if trial.candidate.named}
    named = [
        reference
        for reference in references(task)
        if reference.note not in task.known or reference.note in done or (not trials and answered(reference))
    ]
    expect = getattr(strategy, "expect", None)  # of strategies that would propose them otherwise
    if expect:
        expect(named)
    told = replay(History("resume", store.steps(), trials), strategy, task.objectives, warn)
    for trial in map(_edited, trials.values()):
        if trial.state is State.RUNNING and AWAITED in trial.extra:
            ledger.await_(trial, str(trial.extra[AWAITED]))
        elif trial.state is State.RUNNING:
            ledger.wait(again(trial, "the controller ended while it ran", fidelity))
        else:
            ledger.recall(trial, told=(trial.number if trial.state.final else (trial.number, trial.epoch)) in told)
    return [reference for reference in named if reference.note not in done]


def _edited(trial: Trial) -> Trial:
    """Return a trial of the record with its candidate's own record of weights to take over, while it has not ended."""
    transfer = None if trial.state.final else from_text(str(trial.extra.get(RECORD, "")))
    return replace(trial, candidate=replace(trial.candidate, transfer=transfer)) if transfer else trial


def follow(
    twin: History,
    strategy: Strategy,
    ledger: Ledger,
    waiting: deque[Candidate],
    *,
    full: Callable[[int], bool],
    repeat: Callable[[Trial | None, Candidate, str], Trial | None],
    commit: Callable[[], None],
) -> None:
    """Repeat an identical search from its log: the same calls, the same trials, answered without training.

    Args:
        twin: the identical search.
        strategy: of this search, as new.
        ledger: of this search, empty.
        waiting: the references of this search; those that are repeated are taken away.
        full: whether so many more trials are over the limit.
        repeat: makes a trial of a candidate and of the twin's trial with the same number; returns it if that answered.
        commit: called after each step.
    """
    past = deque(sorted(twin.trials.values(), key=lambda trial: trial.number))
    done: dict[int, Trial] = {}
    while past and past[0].candidate.named:
        if not waiting or full(1):
            return
        found = repeat(past.popleft(), waiting.popleft(), twin.name)
        if found is None:
            return
        done[found.number] = found
    for asked, told in twin.steps:
        if full(asked) or not all(_tells(each, done) for each in told):
            return
        ledger.repeat(strategy, asked, told, done)
        for candidate in strategy.ask(asked) if asked else ():
            found = repeat(past.popleft() if past else None, candidate, twin.name)
            if found is not None:
                done[found.number] = found
        commit()


def _tells(told: Telling, done: Mapping[int, Trial]) -> bool:
    """Whether a trial that was repeated has come as far as the twin told of it."""
    trial = done.get(number_of(told))
    if trial is None:
        return False
    return trial.state.final if isinstance(told, int) else trial.epoch >= told[1]
