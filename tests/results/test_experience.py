"""What earlier searches know, as a warm start reads it."""

import pytest

from detol.results import experience
from detol.search.records import State


def read(database, **options):
    with database.read() as connection:
        return experience.experiences(connection, **options)


def with_trials(database, found, **options):
    with database.read() as connection:
        return experience.with_trials(connection, found, **options)


def test_searches_of_one_kind_are_one_experience_and_others_are_not(database, make_search, make_trial):
    make_search("a", make_trial(0, 0.5, width=8), make_trial(1, 0.6, width=16))
    make_search("b", make_trial(0, 0.7, width=24))
    make_search("wine", make_trial(0, 0.9), data="wine")
    make_search("cell", make_trial(0, 0.9), space="image_cell")
    make_search("loss", make_trial(0, 0.9), objectives=["val_loss:min"])
    found = {each.searches: each for each in read(database)}
    assert set(found) == {("a", "b"), ("wine",), ("cell",), ("loss",)}
    assert (found["a", "b"].count, found["a", "b"].data, found["a", "b"].epochs) == (3, "x1:digits", 3)
    assert {each.searches for each in read(database, without="x1:digits")} == {("wine",)}
    assert {each.searches for each in read(database, only=["b"])} == {("b",)}


def test_only_what_was_trained_here_from_scratch_and_ended_with_a_score_counts(database, make_search, make_trial):
    make_search(
        "a",
        make_trial(0, 0.5),
        make_trial(1, 0.6, reused="b/0"),
        make_trial(2),
        make_trial(3, 0.7, state=State.PAUSED),
        make_trial(4, 0.4, state=State.STOPPED),
        make_trial(5, 0.9, extra={"inherited_from": "0"}),
        make_trial(6, state=State.FAILED),
    )
    (found,) = read(database)
    assert found.count == 2
    trials = with_trials(database, found).trials
    assert [(trial.trial, trial.score) for trial in trials] == [("a/0", 0.5), ("a/4", 0.4)]
    assert trials[0].topology is None
    assert trials[0].decisions == {"width": 8}


def test_of_many_the_best_half_and_an_even_choice_of_the_rest_is_read(database, make_search, make_trial, monkeypatch):
    monkeypatch.setattr(experience, "MOST", 10)
    make_search("a", *(make_trial(n, n / 100, width=n + 1) for n in range(50)))
    make_search("b", *(make_trial(n, n / 100 + 0.5, width=n + 1) for n in range(50)))
    (found,) = read(database)
    scores = [trial.score for trial in with_trials(database, found).trials]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    assert scores[:5] == pytest.approx([0.99, 0.98, 0.97, 0.96, 0.95])
    assert scores[-1] == 0


def test_topologies_come_along_where_another_space_needs_them(database, make_search, make_trial):
    trial = make_trial(0, 0.5, width=24)
    make_search("a", trial, make_trial(1, 0.4))
    (found,) = read(database)
    first = with_trials(database, found, foreign=True).trials[0]
    assert first.topology == trial.candidate.topology
    assert first.digest == trial.digest
