"""Which trials count as best, and names that a question may not use."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from detol.errors import ResultsError
from detol.results.query import Query
from detol.results.store import Database, SearchStore
from detol.search.records import Report, State, Trial

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


@pytest.fixture
def query(database: Database) -> Query:
    return Query(database)


def costs(params: int) -> dict[str, float]:
    return {"params": float(params), "multiply_adds": 2.0, "activation_bytes": 3.0, "depth": 2.0}


def test_unknown_spaces_and_metrics_name_near_ones(
    query: Query, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 0.5, extra=costs(800)))
    for metric in ("val_acuracy", "val_acuracy:min"):
        with pytest.raises(ResultsError, match=r"unknown metric 'val_acuracy': did you mean val_accuracy"):
            query.top(metric=metric)
    with pytest.raises(ResultsError, match="unknown metric 'parms': did you mean params"):
        query.front(("score", "parms"))
    with pytest.raises(ResultsError, match=r"unknown metric 'qqq': known: activation_bytes, depth, .*val_loss"):
        query.front(["qqq"])
    for ask in (query.top, query.front):
        with pytest.raises(ResultsError, match=r"unknown space 'tinny': did you mean tiny\?"):
            ask(space="tinny")


def test_a_metric_that_only_other_data_have_is_unknown(
    query: Query, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 0.5))
    wave = replace(make_trial(0, 0.5), reports=(Report(1, {"val_r2": 0.5}),))
    make_search("b", wave, data="waves", objectives=["val_r2"])
    assert [row.trial for row in query.top(metric="val_r2")] == ["b/0"]
    with pytest.raises(ResultsError, match="unknown metric 'val_r2'"):
        query.top(data="digits", metric="val_r2")


def test_without_scores_any_metric_may_still_come(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    make_search("a", make_trial(0))
    assert query.top(metric="anything", space="tiny") == []
    assert query.front(["anything"]) == []


def test_the_best_has_trained_to_the_end(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    """As detol.search.scoring.better: a score at low fidelity never wins."""
    quick = {"state": State.STOPPED, "reason": "asha"}
    make_search(
        "a",
        make_trial(0, 0.95, width=16, extra=costs(10), **quick),
        make_trial(1, 0.9, width=32, extra=costs(3200)),
        make_trial(2, 0.8, width=64, extra=costs(800)),
        make_trial(3, 0.85, width=65, extra=costs(20), **quick),
    )
    assert query.resolve("a").ref == "a/1"
    assert (query.status("a").best, query.status("a").value) == ("a/1", 0.9)
    assert [row.trial for row in query.top()] == ["a/1", "a/2", "a/0", "a/3"]
    assert [row.trial for row in query.top(metric="params")] == ["a/2", "a/1", "a/0", "a/3"]
    assert [row.trial for row in query.front()] == ["a/1", "a/2"]


def test_of_one_topology_the_completed_training_stands(
    query: Query, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    stopped = make_trial(1, 0.95, state=State.STOPPED)
    make_search("a", make_trial(0, 0.9), stopped, make_trial(2, 0.8), make_trial(3, 0.97, state=State.STOPPED))
    (row,) = query.top()
    assert (row.trial, row.state, row.value, row.n) == ("a/0", "completed", 0.9, 2)
    assert row.mean == pytest.approx(0.85)  # of the two completed ones
    assert query.resolve(row.digest).ref == "a/0"
    make_search("b", replace(stopped, number=0), make_trial(1, 0.7))
    (row,) = query.top(search="b")
    assert (row.trial, row.n) == ("b/1", 1)


def test_stopped_trials_stand_where_nothing_is_completed(
    query: Query, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    quick = {"state": State.STOPPED, "extra": costs(100)}
    make_search("a", make_trial(0, 0.5, width=16, **quick), make_trial(1, 0.6, width=32, **quick))
    assert query.resolve("a").ref == query.status("a").best == "a/1"
    assert [row.trial for row in query.front()] == ["a/1"]
    assert [row.trial for row in query.top()] == ["a/1", "a/0"]
