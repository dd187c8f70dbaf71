"""Which trials a rule does not stop: on record from their start, whatever becomes of the search."""

from types import SimpleNamespace

from detol import config, wire
from detol.results.memory import MemoryDatabase
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search.rehearse import NOBODY
from detol.stopping.audited import LEAST, MARK, audited

from .test_pausing import EPOCHS, Promotion, make


def spared(store):
    return {trial.number for trial in store.trials() if trial.extra.get(MARK)}


def audit(kept, /, **settings):
    chosen = config.settings(None, {}, data="digits", epochs=EPOCHS, stop="promote", **settings)
    stored = {"settings": chosen.as_dict(), "objectives": ["val_accuracy"]}
    return wire.audit(SimpleNamespace(name="s", settings=stored, trials=lambda: kept), orders=1)


def test_a_longer_search_keeps_what_was_spared_and_the_audit_counts_all_of_it():
    database = MemoryDatabase()
    for trials in (12, 26):
        store = database.open_search("s") if trials > 12 else None
        rule = audited(Promotion(), trials=trials, seed=3)
        controller, store, _ = make(database=database, store=store, trials=trials, stopper=rule)
        controller.run()
        store.finish("finished")
        if trials == 12:
            before = spared(store)
            assert len(before) == LEAST
    assert {number for number in spared(store) if number < 12} == before < spared(store)
    assert all(trial.state is State.COMPLETED for trial in store.trials() if trial.number in spared(store))
    assert audit(store.trials(), trials=26, seed=3).spared == len(spared(store)) > LEAST


def test_the_record_says_it_of_what_a_strategy_proposed_alone():
    controller, store, _ = make(trials=9, references=True, stopper=audited(Promotion(), trials=9, references=1))
    controller.run()
    assert [MARK in trial.extra for trial in store.trials()] == [False] + [True] * 8


def tried(number, epochs, candidate=NOBODY):
    reports = tuple(Report(epoch, {}) for epoch in range(1, epochs + 1))
    state = State.COMPLETED if epochs == EPOCHS else State.STOPPED
    curve = (number / 100,) * epochs
    return Trial(number, candidate, state, EPOCHS, reports=reports, curve=curve, scores=(number / 100,))


def test_without_a_record_the_lot_is_that_of_the_search_though_its_winner_was_trained_from_scratch():
    """A search of seed 3 with two references and twelve more trials had spared 4, 7 and 10."""
    named = Candidate(NOBODY.decisions, NOBODY.topology, Origin.REFERENCE, note="small")
    again = Candidate(NOBODY.decisions, NOBODY.topology, Origin.RETRAIN, (10,), "trial 10 from scratch")
    trials = [tried(number, EPOCHS, named) for number in range(2)]
    trials += [tried(number, EPOCHS if number in (4, 7, 10) else 1) for number in range(2, 14)]
    assert audit(trials, trials=14, seed=3).spared == 3
    assert audit([*trials, tried(14, EPOCHS, again)], trials=14, seed=3).spared == 3
