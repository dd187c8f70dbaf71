"""ASHA and the median rule against Optuna's pruners, on the same curves in the same order of arrival."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.protocols import Stopper
from detol.search.records import Candidate, Origin, Report, State, Trial, Verdict
from detol.spaces.decisions import Decisions
from detol.stopping.asha import Asha
from detol.stopping.median import MedianStop

EPOCHS = 14
CANDIDATE = Candidate(Decisions(a=1), chain(op("identity")), Origin.SAMPLE)

scores = st.one_of(st.sampled_from([0.1, 0.2, 0.5]), st.floats(0, 1), st.just(math.nan))
curves = st.lists(st.lists(scores, min_size=EPOCHS, max_size=EPOCHS), min_size=1, max_size=14)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    optuna.logging.set_verbosity(before)


def decisions_of_both(
    stopper: Stopper,
    pruner: optuna.pruners.BasePruner,
    sets: Sequence[Sequence[float]],
    order: st.DataObject,
    step: int = 1,
) -> list[tuple[int, int, bool, bool]]:
    """Train all curves at once, the next report drawn by hypothesis; return (trial, epoch, stopped here, there)."""
    study = optuna.create_study(direction="maximize", pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=0))
    theirs = [study.ask() for _ in sets]
    ours = [Trial(number, CANDIDATE, State.RUNNING, EPOCHS) for number in range(len(sets))]
    running, found = list(range(len(sets))), []
    while running:
        number = order.draw(st.sampled_from(running))
        epoch = ours[number].epoch + step
        value = sets[number][epoch - 1]
        report = Report(epoch, {"val_accuracy": value})
        ours[number] = replace(
            ours[number], reports=(*ours[number].reports, report), curve=(*ours[number].curve, value)
        )
        theirs[number].report(value, epoch)
        if epoch + step >= EPOCHS:  # nothing is left to stop
            running.remove(number)
            ours[number] = replace(ours[number], state=State.COMPLETED)
            study.tell(theirs[number], value if math.isfinite(value) else 0.0)
            continue
        peers = [trial for trial in ours if trial.number != number]
        here, there = stopper.judge(ours[number], peers) is Verdict.STOP, theirs[number].should_prune()
        found.append((number, epoch, here, there))
        if there:
            running.remove(number)
            ours[number] = replace(ours[number], state=State.STOPPED)
            study.tell(theirs[number], state=optuna.trial.TrialState.PRUNED)
    return found


@given(curves, st.data(), st.integers(2, 4), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_asha(sets: list[list[float]], order: st.DataObject, eta: int, grace: int, step: int) -> None:
    step = min(
        step, grace
    )  # of a trial that jumped over rungs Optuna knows at which one it was stopped; records do not
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=grace, reduction_factor=eta)
    for number, epoch, here, there in decisions_of_both(
        Asha(epochs=EPOCHS, eta=eta, grace=grace), pruner, sets, order, step
    ):
        assert here == there, f"trial {number} after epoch {epoch}: {here}, Optuna says {there}"


@given(curves, st.data(), st.integers(1, 6), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_median(sets: list[list[float]], order: st.DataObject, startup: int, warmup: int) -> None:
    pruner = optuna.pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)
    for number, epoch, here, there in decisions_of_both(
        MedianStop(startup=startup, warmup=warmup), pruner, sets, order
    ):
        assert here == there, f"trial {number} after epoch {epoch}: {here}, Optuna says {there}"
