"""The front, the curves and the lineage, against plain Python."""

import pytest

from detol.dashboards.report import choices, trials
from detol.dashboards.report.picture import Dots, Line
from detol.search.records import State


def test_the_front_is_what_none_beats(first):
    done = [record for record in first.records if record.state is State.COMPLETED]

    def beats(one, other):
        pair = [(each.value, -each.values["params"]) for each in (one, other)]
        return pair[0] != pair[1] and all(a >= b for a, b in zip(*pair, strict=True))

    unbeaten = {(r.value, r.values["params"]) for r in done if not any(beats(o, r) for o in done)}
    found = trials.on_front(first)
    assert {(record.value, record.values["params"]) for record in found} == unbeaten
    assert len(found) == len(unbeaten)


def test_every_scored_trial_is_a_point_of_the_front_once(first):
    picture = trials.front(first)
    dots = [mark for mark in picture.marks if isinstance(mark, Dots) and mark.look != "reference"]
    numbers = [number for mark in dots for number in mark.trials]
    assert sorted(numbers) == [record.number for record in first.records]
    for mark in dots:
        for x, y, number, said in zip(mark.x, mark.y, mark.trials, mark.say, strict=True):
            record = first.records[number]
            assert (x, y) == (record.values["params"], record.value)
            assert said.startswith(f"trial {number} (")


def test_curves_end_with_what_ended_them(every_kind):
    picture = trials.curves(every_kind)
    marked = {mark.name: set(mark.trials) for mark in picture.marks if isinstance(mark, Dots)}
    assert marked == {"stopped": {2}, "rested": {3, 4}}
    best = next(mark for mark in picture.marks if mark.look == "best")
    assert list(zip(best.x, best.y, strict=True))[:-1] == list(every_kind.curves[1])
    drawn = {number for mark in picture.marks if isinstance(mark, Line) for number in mark.trials}
    assert drawn == {0, 1, 2, 3, 4, 8}  # not 7: it was answered; 5 and 6 trained nothing


def test_of_many_curves_the_best_are_drawn(first, monkeypatch):
    monkeypatch.setattr(trials, "CURVES", 10)
    picture = trials.curves(first)
    drawn = {number for mark in picture.marks if isinstance(mark, Line) for number in mark.trials}
    best = sorted(first.records, key=lambda record: -record.value)[:10]
    assert drawn == {record.number for record in best}
    assert "The best 10 of 48 are drawn." in picture.note


def test_the_lineage_joins_children_to_parents(every_kind):
    picture = trials.lineage(every_kind)
    (line,) = [mark for mark in picture.marks if isinstance(mark, Line)]
    assert list(line.x) == [1.0, 0.0, None]
    assert list(line.y) == [pytest.approx(0.7), pytest.approx(0.9), None]
    (winner,) = [mark for mark in picture.marks if mark.look == "best"]
    assert winner.trials == [1]
    assert "width: 8 \u2192 16" in winner.say[0]
    assert "kernel" not in winner.say[0]


def test_a_winner_without_ancestors_says_what_it_is(every_kind):
    from dataclasses import replace

    alone = replace(every_kind, lineage=every_kind.lineage[:1])
    assert trials.lineage(alone).empty == "the winner has no ancestors: it is a mutate"


def test_trials_are_compared_after_as_many_epochs(first):
    # a third of them was stopped at epoch 3: that is the last one that four in five reached
    found = choices.alike(first)
    assert found.epoch == 3
    assert len(found.records) == 48
    for record, value in zip(found.records, found.values, strict=True):
        assert value == dict(first.curves[record.number])[3]


def test_the_decision_that_makes_the_score_comes_first(first):
    found = choices.answer(first, resamples=15)
    assert found.decisions[0].name == "width"  # by construction of the search
    assert found.decisions[0].low > 0.4
    importance, options = choices.pictures(first, found)
    assert importance.marks[0].labels[0] == "width"
    assert "after epoch 3 (48 trials came so far)" in importance.note
    assert options.marks[0].labels[:3] == ["width = 4", "width = 8", "width = 16"]


def test_with_too_few_trials_the_picture_says_so(every_kind):
    (picture,) = choices.pictures(every_kind, choices.answer(every_kind))
    assert picture.empty.startswith("at least 20 trials")
