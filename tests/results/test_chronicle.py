"""A whole search as a report reads it, against the record it was written to."""

import math
from dataclasses import replace

import pytest

from detol.errors import ResultsError
from detol.results.query import Query
from detol.search.records import Origin, State


@pytest.fixture
def stored(make_search, make_trial):
    candidate = make_trial(0).candidate
    reference = replace(candidate, origin=Origin.REFERENCE, note="plain")
    return make_search(
        "one",
        make_trial(0, 0.5, 0.6, 0.7, candidate=reference, width=2),
        make_trial(1, 0.4, width=16, parents=(0,), state=State.STOPPED, reason="Asha at epoch 1"),
        make_trial(2, 0.4, 0.5, extra={"checkpoint_epoch": 1}, state=State.STOPPED),
        make_trial(3, extra={"inherited_from": "0", "worker": 1, "host": "far"}),
        strategy="random",
        epochs=3,
    )


def test_records_are_the_trials_of_the_store(stored, database) -> None:
    found = Query(database).records("one")
    for record, trial in zip(found, stored.trials(), strict=True):
        assert record.number == trial.number
        assert record.state is trial.state
        assert record.decisions == dict(trial.candidate.decisions)
        assert record.parents == trial.candidate.parents
        assert record.value == (trial.score if math.isfinite(trial.score) else None)
        assert (record.epoch, record.epochs, record.width) == (trial.epoch, trial.epochs, trial.width)
        assert record.seconds == trial.seconds
        assert bool(record.ended) == trial.state.final
    assert found[0].note == "plain"
    assert found[1].reason == "Asha at epoch 1"
    assert (found[2].rest, found[2].rested) == (1, 0.5)  # its first epoch took half a second
    assert [record.inherited for record in found] == [False, False, False, True]
    assert [record.seat for record in found] == ["", "", "", "far/1"]
    # 3 x 3 convolution of 8 channels on one, its norm, 5 x 5 of the default 16 on 8 ..., as the store priced it
    assert found[0].values["val_accuracy"] == 0.7
    assert found[0].values["params"] > 0


def test_what_answered_costs_as_many_epochs_as_were_answered(stored, make_search, make_trial, database) -> None:
    make_search(
        "two",
        make_trial(0, 0.5, 0.6, reused="one/0", seconds=0.0),
        make_trial(1, 0.5, 0.6, 0.8, extra={"continued_from": "one/2", "spared_epochs": 2, "spared_seconds": 1.0}),
    )
    answered, continued = Query(database).records("two")
    # one/0 took 3 epochs in 1.5 s and 2 ranks would double it; two of its three epochs answered
    assert (answered.reused, answered.spared_epochs, answered.spared_seconds) == ("one/0", 2, pytest.approx(1.0))
    assert (continued.continued, continued.spared_epochs, continued.spared_seconds) == ("one/2", 2, 1.0)


def test_kin_are_alike_in_all_but_the_seed(stored, make_search, make_trial, database) -> None:
    make_search("alike", make_trial(0, 0.5), strategy="random", epochs=3, seed=9)
    make_search("longer", make_trial(0, 0.5), strategy="random", epochs=9)
    make_search("other-space", make_trial(0, 0.5), strategy="random", epochs=3, space="other")
    make_search("other-data", make_trial(0, 0.5), data="letters", strategy="random", epochs=3)
    make_search("other-metric", make_trial(0, 0.5), strategy="random", epochs=3, objectives=["val_loss"])
    make_search("clever", make_trial(0, 0.5), strategy="guided", epochs=3)
    asked = Query(database)
    assert asked.kin("one", "random") == ["one", "alike"]
    assert asked.kin("clever", "random") == ["one", "alike"]
    assert asked.kin("one", "grow") == []


def test_topologies_come_back_and_equal_ones_are_one(stored, database) -> None:
    found = Query(database).drawn("one", [0, 2, 1, 99])
    trials = {trial.number: trial for trial in stored.trials()}
    assert set(found) == {0, 1, 2}
    for number, topology in found.items():
        assert topology == trials[number].candidate.topology
    assert found[0] is not found[1]


def test_identity_says_what_it_takes_to_do_it_again(stored, database) -> None:
    from detol.search.recipe import Recipe

    found = Query(database).identity("one")
    assert (found.data, found.recipe, found.config) == ("x1:digits", Recipe().digest, stored.config_digest)
    assert found.recipe_settings["optimiser"] == "sgd"
    assert found.described["shape"] == [1, 8, 8]
    assert found.epochs == 3


@pytest.mark.parametrize("ask", ["records", "identity"])
def test_an_unknown_search_has_near_names(stored, database, ask) -> None:
    with pytest.raises(ResultsError, match="did you mean one"):
        getattr(Query(database), ask)("onne")
