"""When a known result answers a new trial."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from detol.search.protocols import Stopper
from detol.search.records import Objective, Origin, State, Trial, Verdict
from detol.search.scoring import with_report


def answer(
    trial: Trial, known: Sequence[Trial], stopper: Stopper, peers: Iterable[Trial], objectives: Sequence[Objective]
) -> Trial | None:
    """Answer a trial from results of the same topology, recipe, data and epochs, or return ``None``: train it.

    A completed result answers. One that was stopped answers if this search's stopper, shown the same curve, stops it
    too (it would otherwise need epochs that nobody trained). Where the stopper says to pause before that, it does not:
    whether the trial goes on depends on what others do later.
    """
    for result in known:
        if result.state is State.COMPLETED:
            return _retold(trial, result, objectives)
    if trial.candidate.named or trial.candidate.origin is Origin.RETRAIN:
        return None  # they train to their end
    peers = list(peers)
    for result in known:
        if result.state is not State.STOPPED:
            continue
        shown = trial
        for report in result.reports:
            shown = with_report(shown, report, objectives)
            verdict = stopper.judge(shown, peers)
            if verdict is Verdict.STOP:
                return _retold(trial, replace(result, reports=shown.reports), objectives)
            if verdict is Verdict.PAUSE:
                break
    return None


def _retold(trial: Trial, result: Trial, objectives: Sequence[Objective]) -> Trial:
    """Return ``trial`` with the outcome of ``result``, scored by the objectives of this search."""
    told = replace(trial, reports=(), curve=(), scores=None)
    for report in result.reports:
        told = with_report(told, report, objectives)
    return replace(
        told,
        state=result.state if told.scores is not None else State.DIVERGED,
        reason=result.reason,
        seed=result.seed,
        seconds=0.0,
        reused=result.reused,
        weights=result.weights,
    )
