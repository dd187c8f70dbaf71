"""What of a trial's curve was trained for it: the arithmetic of known epochs, checkpoints and answers."""

from dataclasses import replace

import pytest

from detol.graph.topology import chain
from detol.search.ledger import _thin
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.search.spared import (
    CHECKPOINT,
    CONTINUED,
    KNOWN,
    LEFT,
    OWN,
    SCHEDULE,
    SPARED_EPOCHS,
    SPARED_SECONDS,
    adopted,
    answered,
    fitted,
    from_start,
    left,
    settled,
    spared,
    trained,
)
from detol.spaces.decisions import Decisions

OBJECTIVES = (Objective("val_accuracy"),)
CANDIDATE = Candidate(Decisions(), chain(), Origin.SAMPLE)


def trial(known=0, state=State.RUNNING, seconds=None, **changes):
    reports = tuple(Report(n, {"val_accuracy": n / 10}, 2.0) for n in range(1, known + 1))
    curve = tuple(n / 10 for n in range(1, known + 1))
    scores = curve[-1:] or None
    took = 2.0 * known if seconds is None else seconds
    made = Trial(0, CANDIDATE, state, 9, reports=reports, curve=curve, scores=scores, seconds=took)
    return replace(made, **changes)


def test_a_new_trial_takes_over_a_curve_and_goes_on_from_its_checkpoint():
    source = trial(5, State.STOPPED, width=2, seed=7, reused="a/3", extra={LEFT: "p", CHECKPOINT: 3})
    assert left(source) == ("p", 3)
    told = adopted(trial(), source, "p", 3, OBJECTIVES)
    assert (told.epoch, told.curve, told.scores, told.seed, told.weights) == (5, source.curve, (0.5,), 7, "p")
    # Epochs 4 and 5 are known, and trained once more on the way: three are spared, of two seconds on two ranks.
    assert told.extra == {CONTINUED: "a/3", KNOWN: 5, CHECKPOINT: 3, SPARED_EPOCHS: 3, SPARED_SECONDS: 12.0}
    assert (spared(told), trained(told)) == (3, 2)


def test_without_a_checkpoint_what_is_known_is_spared_while_it_rests_and_not_when_it_begins():
    told = adopted(trial(), trial(5, State.STOPPED, reused="a/3"), "", 0, OBJECTIVES)
    assert (spared(told), trained(told), CHECKPOINT in told.extra) == (5, 0, False)
    begun = from_start(told, OBJECTIVES)
    assert begun.extra == {CONTINUED: "a/3", KNOWN: 5}
    assert (begun.curve, trained(begun)) == (told.curve, 5)


def test_what_was_trained_here_before_stays_its_own():
    mine = trial(3, extra={CHECKPOINT: 3}, weights="mine")
    told = adopted(mine, trial(7, State.PAUSED, reused="a/3", weights="p", extra={CHECKPOINT: 7}), "p", 7, OBJECTIVES)
    assert (told.epoch, spared(told), trained(told)) == (7, 4, 3)
    assert told.extra[SPARED_SECONDS] == 8.0
    again = adopted(told, trial(8, State.PAUSED, reused="b/1", weights="q", extra={CHECKPOINT: 8}), "q", 8, OBJECTIVES)
    assert (again.epoch, spared(again), trained(again)) == (8, 5, 3)
    assert again.extra[SPARED_SECONDS] == 10.0


def test_a_trial_of_which_nothing_was_trained_is_an_answer_in_the_end():
    told = adopted(trial(), trial(5, State.STOPPED, reused="a/3"), "", 0, OBJECTIVES)
    ended = settled(replace(told, state=State.STOPPED))
    assert (ended.reused, spared(ended), trained(ended)) == ("a/3", 5, 0)
    assert SPARED_EPOCHS not in ended.extra
    assert settled(replace(told, seconds=1.0)).reused == ""
    assert settled(trial(5)) == trial(5)


def test_an_answer_on_the_way_keeps_what_was_trained_till_then():
    facts = answered(trial(3, extra={"params": 5, CHECKPOINT: 3}), trial(9, State.COMPLETED))
    assert facts == {"params": 5, OWN: 3}
    done = trial(9, State.COMPLETED, reused="a/3", extra=facts)
    assert (spared(done), trained(done)) == (6, 3)
    assert answered(trial(), trial(9, State.COMPLETED, extra={SCHEDULE: 27, "device": "x"})) == {SCHEDULE: 27}


@pytest.mark.parametrize(
    ("length", "known", "state", "wanted"),
    [
        (27, 9, State.STOPPED, State.COMPLETED),
        (27, 4, State.STOPPED, State.STOPPED),
        (3, 3, State.COMPLETED, State.STOPPED),
    ],
)
def test_a_result_of_another_length_as_one_of_this(length, known, state, wanted):
    facts = {LEFT: "p", CHECKPOINT: 1, "device": "x"}
    result = replace(trial(known, state, weights="w", extra=facts), epochs=length)
    made = fitted(result, 9, OBJECTIVES)
    assert (made.state, made.epochs, made.epoch, made.weights) == (wanted, 9, known, "")
    assert made.extra == {"device": "x", SCHEDULE: length}
    assert fitted(replace(trial(12, State.COMPLETED), epochs=12), 9, OBJECTIVES).curve == trial(9).curve
    assert fitted(trial(9, State.COMPLETED), 9, OBJECTIVES) == trial(9, State.COMPLETED)


@pytest.mark.parametrize("objectives", [OBJECTIVES, (*OBJECTIVES, Objective("params", minimise=True))])
def test_stoppers_are_told_which_epochs_of_an_ended_trial_were_known(objectives):
    ended = trial(5, State.COMPLETED, extra={KNOWN: 3, CONTINUED: "before/1", "note": "long"})
    assert _thin(ended, objectives).extra == {KNOWN: 3}
    assert _thin(trial(5, State.COMPLETED, extra={"note": "long"}), objectives).extra == {}
