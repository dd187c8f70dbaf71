"""When known results answer a new trial: to its end, or as far as they go."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from detol.graph.edit import normalise
from detol.search.inheritance import MARKS
from detol.search.protocols import Stopper
from detol.search.records import Objective, Origin, State, Trial, Verdict
from detol.search.scoring import with_report
from detol.search.spared import adopted, answered, left


def answer(
    trial: Trial, known: Sequence[Trial], stopper: Stopper, peers: Iterable[Trial], objectives: Sequence[Objective]
) -> Trial | None:
    """Answer a trial from results of the same topology, recipe, data and epochs, or return ``None``.

    A completed result answers. One that was stopped, or rests, answers if this search's stopper, shown the same curve,
    stops it too (it would otherwise need epochs that nobody trained). Where the stopper says to pause before that, it
    does not: whether the trial goes on depends on what others do later (see :func:`begun`).
    """
    for result in known:
        if result.state is State.COMPLETED:
            return _retold(trial, result, objectives)
    if trial.candidate.named or trial.candidate.origin is Origin.RETRAIN:
        return None  # no rule stops them
    peers = list(peers)
    for result in known:
        shown = replace(trial, reports=(), curve=(), scores=None)
        for report in result.reports:
            shown = with_report(shown, report, objectives)
            if report.epoch <= trial.epoch:
                continue  # it has come so far already
            verdict = stopper.judge(shown, peers)
            if verdict is Verdict.STOP:
                whole = result.state is State.STOPPED and len(shown.reports) == len(result.reports)
                weights = result.weights if whole else ""
                stopped = replace(result, state=State.STOPPED, reports=shown.reports, weights=weights)
                return _retold(trial, stopped, objectives)
            if verdict is Verdict.PAUSE:
                break
    return None


def begun(
    trial: Trial,
    known: Sequence[Trial],
    objectives: Sequence[Objective],
    *,
    rests: Callable[[Trial], bool],
    at_hand: Callable[[str], bool],
) -> Trial | None:
    """Take over the longest curve of the same training that did not come to its end, or return ``None``: begin anew.

    Args:
        trial: new, or one that waits or goes on.
        known: results of the same topology, recipe, data and epochs.
        objectives: of this search.
        rests: whether a trial that has come so far has been at a milestone: then it is PAUSED there, for this search to
            decide whether it goes on.
        at_hand: whether a checkpoint is still there.

    Returns:
        The trial, PAUSED with what is known; or RUNNING, to go on from the checkpoint. A curve without a checkpoint is
        of no use to one that does not rest. A checkpoint of other names of nodes counts as none.
    """
    found: Trial | None = None
    reached = (trial.epoch, 0)
    for result in known:
        if result.scores is None or not trial.epoch < result.epoch < trial.epochs or result.epoch < reached[0]:
            continue
        place, epoch = left(result)
        if not place or not named_alike(trial, result) or not at_hand(place):
            place, epoch = "", 0
        if (result.epoch, epoch) > reached or found is None:
            told = adopted(trial, result, place, epoch, objectives)
            state = State.PAUSED if rests(told) else State.RUNNING
            if told.scores is not None and (place or state is State.PAUSED):
                found, reached = replace(told, state=state), (result.epoch, epoch)
    return found


def named_alike(trial: Trial, result: Trial) -> bool:
    """Return whether two trials of one digest also name their nodes alike: weights are kept under these names."""
    one, other = trial.candidate.topology, result.candidate.topology
    return one == other or normalise(one) == normalise(other)


def _retold(trial: Trial, result: Trial, objectives: Sequence[Objective]) -> Trial:
    """Return ``trial`` with the outcome of ``result``, scored by the objectives of this search.

    With the weights comes the topology that they are of: the same network, perhaps under other names of nodes. An
    answer was trained from scratch: the trial loses what says that it began with weights of another.
    """
    topology = result.candidate.topology if result.weights else trial.candidate.topology
    told = replace(trial, reports=(), curve=(), scores=None)
    for report in result.reports:
        told = with_report(told, report, objectives)
    return replace(
        told,
        candidate=replace(trial.candidate, topology=topology),
        state=result.state if told.scores is not None else State.DIVERGED,
        reason=result.reason,
        seed=result.seed,
        width=result.width,
        seconds=trial.seconds,
        reused=result.reused,
        weights=result.weights,
        extra={name: value for name, value in answered(trial, result).items() if name not in MARKS},
    )
