"""Pages and pictures of trials: filtered, sorted and cut by the database, with plain Python as the oracle."""

import math

import pytest

from detol.errors import ResultsError, UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.query import Filter, Query, front_of
from detol.search.records import Objective, State


@pytest.fixture
def query(database, make_search, make_trial):
    """A search of 23 trials: completed, stopped and failed ones, of several sizes; one that answers another."""
    trials = []
    for number in range(23):
        score = math.sin(number) / 2 + 0.5
        changes = {}
        if number % 5 == 3:
            trials.append(make_trial(number, width=8, state=State.FAILED, reason=f"boom {number} 100%"))
            continue
        if number % 5 == 4:
            changes = {"state": State.STOPPED}
        parents = (number // 2,) if number else ()
        made = make_trial(number, score / 2, score, width=8 * (1 + number % 7), parents=parents, **changes)
        trials.append(made)
    make_search("many", *trials)
    make_search("falling", *trials[:3], objectives=["val_loss:min"])
    return Query(database)


def everything(query, search="many", which=None, **options):
    size, rows, page = 4, [], 1
    while True:
        found = query.trials(search, which, page=page, size=size, **options)
        rows += found.rows
        if page >= found.pages:
            assert len(rows) == found.total
            return rows
        page += 1


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", ["number", "value", "epoch", "seconds", "params", "multiply_adds", "state", "origin"])
def test_pages_put_together_are_all_trials_in_order(query, sort, descending):
    rows = everything(query, sort=sort, descending=descending)
    assert sorted(row.number for row in rows) == list(range(23))
    values = [getattr(row, sort) for row in rows]
    known = [value for value in values if value is not None]
    assert values[: len(known)] == known  # what has no value comes last, in either direction
    assert known == sorted(known, reverse=descending)


def test_a_minimised_objective_sorts_by_its_natural_value(query):
    rows = everything(query, "falling", sort="value")
    values = [row.value for row in rows]
    assert values == sorted(values)


def test_filters(query):
    assert {row.state for row in everything(query, which=Filter(state="failed"))} == {"failed"}
    assert not everything(query, which=Filter(origin="guided"))
    assert [row.number for row in everything(query, which=Filter(text="boom 13"))] == [13]
    assert 7 in [row.number for row in everything(query, which=Filter(text=" 7 "))]
    digest = everything(query)[0].digest
    assert {row.digest for row in everything(query, which=Filter(text=digest[3:12]))} == {digest}


@pytest.mark.parametrize("text", ["%", "_", "'", '"; DROP TABLE trials; --', "100%", "\\"])
def test_what_is_sought_is_text_and_no_pattern(query, text):
    found = everything(query, which=Filter(text=text))
    assert all(text in row.reason or text in row.digest or text == '"' for row in found)
    assert len(everything(query)) == 23


def test_a_page_after_the_last_is_the_last(query):
    found = query.trials("many", page=99, size=10)
    assert (found.page, found.pages, len(found.rows)) == (3, 3, 3)


@pytest.mark.parametrize("options", [{"sort": "colour"}, {"page": 0}, {"size": 0}, {"size": 501}])
def test_pages_that_cannot_be(query, options):
    with pytest.raises(UsageError):
        query.trials("many", **options)
    with pytest.raises(ResultsError, match="did you mean many"):
        query.trials("mani")


def test_ranks_that_were_lost_are_told(database, make_search, make_trial):
    facts = {"ranks_lost": "1 at step 813", "width_now": 1}
    make_search("lossy", make_trial(0, 0.5), make_trial(1, 0.6, extra=facts))
    rows = Query(database).some("lossy", [0, 1])
    assert [(row.ranks_lost, row.width_now) for row in rows] == [("", None), ("1 at step 813", 1)]


def test_some_and_children(query):
    assert [row.number for row in query.some("many", [5, 2, 99, 5])] == [5, 2]
    assert [row.number for row in query.children("many", 2)] == [4, 5]
    assert query.children("many", 22) == []
    assert query.counts("many")["state"] == {"completed": 15, "failed": 4, "stopped": 4}


def test_points_hold_what_the_trials_hold(query):
    points = {point.number: point for point in query.points("many")}
    for row in everything(query):
        assert points[row.number].values.get("val_accuracy") == row.value
        assert points[row.number].values.get("params") == row.params


@pytest.mark.parametrize("against", ["params", "seconds", "depth"])
def test_the_front_of_points_is_the_front_of_the_query(database, make_search, make_trial, against):
    """Of topologies that were trained once each: of others the query takes the mean."""
    trials = []
    for number in range(23):
        state = State.STOPPED if number % 5 == 4 else State.COMPLETED
        scores = (0.1, math.sin(number) / 2 + 0.5)
        trials.append(make_trial(number, *scores, width=8 + 5 * number % 23, seconds=1.0 + number % 3, state=state))
    make_search("apart", *trials)
    query = Query(database)
    kept = front_of(query.points("apart"), Objective("val_accuracy"), Objective(against, minimise=True))
    rows = query.front(("val_accuracy", against), search="apart")
    values = {(row.values["val_accuracy"], row.values[against]) for row in rows}
    assert {(p.values["val_accuracy"], p.values[against]) for p in kept} == values
    assert len(values) > (against == "params")


def test_curves(query):
    found = query.curves("many", [0, 3, 1])
    assert sorted(found) == [0, 1]  # a failed one has none
    assert found[1] == [(row.epoch, row.value) for row in query.curve("many/1")]


def test_the_pulse_beats_with_every_change(database, make_search, make_trial):
    store = make_search("beating", make_trial(0, 0.5))
    query = Query(database)
    seen = [query.pulse("beating")]
    assert query.pulse("beating") == seen[0]
    for change in (
        lambda: store.add(make_trial(1)),
        lambda: store.record(make_trial(1, 0.4, state=State.RUNNING)),
        lambda: store.record(make_trial(1, 0.4, 0.5, state=State.PAUSED)),
        lambda: store.record(make_trial(1, 0.4, 0.5)),
        lambda: store.spend(25.0),
    ):
        change()
        store.commit()
        seen.append(query.pulse("beating"))
    store.finish()
    seen.append(query.pulse("beating"))
    assert len(set(seen)) == len(seen)
    whole = query.pulse()
    make_search("another")
    assert query.pulse() != whole


def test_data_sets_and_spaces_count_what_was_tried(query):
    assert [(row["name"], row["shape"], row["searches"], row["trials"]) for row in query.data_sets()] == [
        ("digits", [1, 8, 8], 2, 26)
    ]
    assert [(row["space"], row["searches"], row["trials"]) for row in query.spaces()] == [("tiny", 2, 26)]


def test_searches_are_paged(query):
    assert [row.name for row in query.searches(1)] == ["falling"]
    assert [row.name for row in query.searches(1, 1)] == ["many"]
    assert [row.name for row in query.searches(5, 2)] == []
    assert query.searches() == query.searches(10)


def test_the_sample_of_a_trial(query):
    assert query.sample_of(query.resolve("many/0")) == ((1, 8, 8), 10)
    assert chain(op("conv", channels=8)).nodes
