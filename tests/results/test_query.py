"""Questions across searches, on SQLite and (where there is one) PostgreSQL; the answers were worked out by hand."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from detol.errors import ResultsError, UsageError
from detol.results.query import Query, to_csv, to_json
from detol.results.store import Database, SearchStore
from detol.search.records import Origin, Report, State, Trial

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with Database(request.getfixturevalue(request.param)) as opened:
        yield opened


@pytest.fixture
def query(database: Database) -> Query:
    return Query(database)


def costs(params: int) -> dict[str, float]:
    """As the controller hands them over; equal for equal networks."""
    return {"params": float(params), "multiply_adds": 2.0, "activation_bytes": 3.0, "depth": 2.0}


@pytest.fixture
def filled(make_search: MakeSearch, make_trial: MakeTrial) -> None:
    """Two searches on the digits, one on other data.

    The network of width 8 was trained twice (0.8, 0.9) and answered twice; width 16 once (0.85), width 32 once (0.7).
    """
    eight, sixteen = {"width": 8, "extra": costs(800)}, {"width": 16, "extra": costs(1600)}
    make_search(
        "one",
        make_trial(0, 0.5, 0.8, **eight),
        make_trial(1, 0.4, 0.85, parents=(0,), **sixteen),
        make_trial(2, 0.7, parents=(0, 1), width=32, extra=costs(3200)),
        make_trial(3, width=64, state=State.FAILED, reason="boom", extra=costs(6400)),
        make_trial(4, width=65, state=State.REFUSED, reason="too large", extra=costs(6500)),
        make_trial(5, width=66, extra=costs(6600)),
    ).spend(1.0)
    second = make_search(
        "two",
        make_trial(0, 0.5, 0.9, seed=7, **eight),
        make_trial(1, 0.5, 0.9, reused="two/0", parents=(0,), **eight),
        make_trial(2, 0.5, 0.8, reused="one/0", parents=(0, 1), **eight),
    )
    second.spend(2.5)
    second.finish()
    make_search("far", make_trial(0, 0.99, **eight), data="letters", space="other")


@pytest.mark.usefixtures("filled")
def test_top_has_one_row_for_each_topology_recipe_and_data(query: Query) -> None:
    rows = query.top(data="digits")
    assert [(r.trial, r.value, r.n) for r in rows] == [("two/0", 0.9, 2), ("one/1", 0.85, 1), ("one/2", 0.7, 1)]
    assert rows[0].mean == pytest.approx(0.85)  # of the two trainings; the answers do not count again
    assert (rows[0].metric, rows[0].params, rows[0].space, rows[0].reused) == ("val_accuracy", 800, "tiny", "")
    assert [r.trial for r in query.top(data="x1:digits", limit=1)] == ["two/0"]
    assert [r.trial for r in query.top()] == ["far/0", "two/0", "one/1", "one/2"]
    assert [r.trial for r in query.top(space="other")] == ["far/0"]
    assert [(r.trial, r.n) for r in query.top(search="one")] == [("one/1", 1), ("one/0", 1), ("one/2", 1)]


@pytest.mark.usefixtures("filled")
def test_top_by_another_metric(query: Query) -> None:
    loss = query.top(data="digits", metric="val_loss")
    assert [(r.trial, r.value) for r in loss] == [
        ("two/0", pytest.approx(0.1)),
        ("one/1", pytest.approx(0.15)),
        ("one/2", pytest.approx(0.3)),
    ]
    assert [r.params for r in query.top(data="digits", metric="params")] == [800, 1600, 3200]
    assert [r.params for r in query.top(data="digits", metric="params:max")] == [3200, 1600, 800]
    assert query.top(data="digits", metric="score") == query.top(data="digits")


def test_a_search_of_answers_alone_has_a_top(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    make_search("again", make_trial(0, 0.5, reused="one/0"))
    (row,) = query.top(search="again")
    assert (row.trial, row.value, row.mean, row.n, row.reused) == ("again/0", 0.5, 0.5, 1, "one/0")


def test_scores_that_were_minimised_are_shown_as_they_are(
    query: Query, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    good = replace(make_trial(0, -0.25), reports=(Report(1, {"val_mse": 0.25}),))
    bad = replace(make_trial(1, -0.75, width=16), reports=(Report(1, {"val_mse": 0.75}),))
    make_search("a", bad, good, objectives=["val_mse:min"])
    assert [(r.trial, r.metric, r.value) for r in query.top()] == [("a/0", "val_mse", 0.25), ("a/1", "val_mse", 0.75)]
    assert (query.status("a").best, query.status("a").value) == ("a/0", 0.25)
    assert [c.value for c in query.curve("a/1")] == [0.75]


@pytest.mark.usefixtures("filled")
def test_front(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    assert [r.trial for r in query.front(data="digits")] == ["two/0"]  # the best is the smallest, too
    make_search(
        "more",
        make_trial(0, 0.95, width=9, extra=costs(900)),
        make_trial(1, 0.2, width=3, extra=costs(30)),
        make_trial(2, 0.2, width=4, extra=costs(30)),  # as good as the one before: both stay
        make_trial(3, 0.2, width=5, extra=costs(31)),
    )
    rows = query.front(("score", "params"), data="digits")
    assert [(r.trial, r.values) for r in rows] == [
        ("more/0", {"val_accuracy": 0.95, "params": 900.0}),
        ("two/0", {"val_accuracy": pytest.approx(0.85), "params": 800.0}),  # the mean of two trainings
        ("more/1", {"val_accuracy": 0.2, "params": 30.0}),
        ("more/2", {"val_accuracy": 0.2, "params": 30.0}),
    ]
    with pytest.raises(UsageError, match="at least one objective"):
        query.front(())


@pytest.mark.usefixtures("filled")
def test_curve(query: Query) -> None:
    assert [(c.epoch, c.value, c.seconds) for c in query.curve("one/1")] == [(1, 0.4, 0.5), (2, 0.85, 0.5)]
    assert query.curve("one/1") == query.curve("one")
    assert query.curve("one/3") == []


@pytest.mark.usefixtures("filled")
def test_resolve(query: Query, make_trial: MakeTrial) -> None:
    digest = make_trial(0, width=16).digest
    assert query.resolve("one/5").ref == "one/5"
    assert query.resolve("two").ref == "two/0"
    for ref in (digest, digest[:9], digest.partition(":")[2], digest.partition(":")[2][:8]):
        assert query.resolve(ref).ref == "one/1"
    eight = make_trial(0).digest
    with pytest.raises(ResultsError, match=r"2 data sets \(digits, letters\)"):
        query.resolve(eight)
    assert query.resolve(eight, data="letters").ref == "far/0"
    assert query.trained(query.resolve("two/2")).ref == "one/0"
    assert query.trained(query.resolve("two/0")).ref == "two/0"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("ref", "line"),
    [
        ("onne", r"unknown search 'onne': did you mean one\?"),
        ("onne/1", r"unknown search 'onne': did you mean one\?"),
        ("one/77", "has no trial 77"),
        ("d1:ffffffffff", "no search and no topology 'd1:ffffffffff'"),
        ("ffff", "no search and no topology"),
        ("one/x", "unknown search 'one/x'"),
        ("%' OR 1=1 --", "unknown search"),
    ],
)
def test_resolve_what_is_not_there(query: Query, ref: str, line: str) -> None:
    with pytest.raises(ResultsError, match=line):
        query.resolve(ref)


def test_a_prefix_of_several(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    trials = [make_trial(0, 0.5), make_trial(1, 0.5, width=16)]
    for number, trial in enumerate(trials):
        trial.candidate.__dict__["digest"] = f"d1:abcd{number}"
    make_search("a", *trials)
    with pytest.raises(ResultsError, match=r"several topologies \(d1:abcd0, d1:abcd1\): give more digits"):
        query.resolve("abcd")
    assert query.resolve("abcd1").ref == "a/1"


def test_a_search_without_scores(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    make_search("a", make_trial(0))
    with pytest.raises(ResultsError, match="search 'a' has no trial with a score yet"):
        query.resolve("a")
    assert query.top() == []
    assert query.front() == []
    assert (query.status("a").best, query.status("a").value) == ("", None)


@pytest.mark.usefixtures("filled")
def test_show(query: Query, make_trial: MakeTrial) -> None:
    found = query.show("two/2")
    assert (found["trial"], found["value"], found["reused"], found["state"]) == ("two/2", 0.8, "one/0", "completed")
    assert found["parents"] == ["two/0", "two/1"]
    assert found["cost"] == {"params": 800, "multiply_adds": 2, "activation_bytes": 3, "depth": 2}
    assert [other["trial"] for other in found["others"]] == ["one/0", "two/0", "two/1"]
    assert found["data"]["name"] == "digits"
    assert found["recipe"]["optimiser"] == "sgd"
    assert found["curve"][1]["metrics"] == {"val_accuracy": 0.8, "val_loss": pytest.approx(0.2)}
    json.dumps(found, allow_nan=False)
    failed = query.show("one/3")
    assert (failed["value"], failed["reason"], failed["curve"]) == (None, "boom", [])


@pytest.mark.usefixtures("filled")
def test_lineage_goes_to_the_roots(query: Query) -> None:
    rows = query.lineage("one/2")
    assert [(r.trial, r.generation, r.parents) for r in rows] == [
        ("one/2", 0, ("one/0", "one/1")),
        ("one/0", 1, ()),
        ("one/1", 1, ("one/0",)),
    ]
    assert [r.trial for r in query.lineage("one/0")] == ["one/0"]


@pytest.mark.usefixtures("filled")
def test_stats(query: Query) -> None:
    found = query.stats()
    assert found["states"] == {"completed": 7, "failed": 1, "refused": 1, "running": 1}
    assert {key: value for key, value in found.items() if key != "states"} == {
        "searches": 3,
        "data_sets": 2,
        "topologies": 6,
        "trials": 10,
        "imported": 0,
        "trained": 7,
        "reused": 2,
        "reports": 12,
        "epochs": 8,  # one: 2 + 2 + 1, two: 2, far: 1
        "seconds": 4.0,  # half a second each
        "device_seconds": 4.0,
        "continued": 0,
        "trainings_saved": 2,
        "epochs_saved": 4,
        "seconds_saved": 2.0,  # two/0 and one/0 took a second each
        "trainings_spared": 0,
        "epochs_spared": 0,
        "seconds_spared": 0.0,
    }


def test_stats_count_ranks_and_an_empty_database(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    assert query.stats()["trials"] == 0
    assert query.searches() == []
    assert query.top() == []
    trial = replace(make_trial(0, 0.5), width=4, seconds=3.0)
    stopped = replace(make_trial(1, 0.5, width=16), state=State.STOPPED, seconds=0.0)
    answered = replace(stopped, number=2, reused="a/1")
    make_search("a", trial, stopped, answered)
    assert query.stats()["epochs_spared"] == 2  # one of three epochs was trained, once
    assert (query.stats()["seconds"], query.stats()["device_seconds"]) == (3.0, 12.0)


@pytest.mark.usefixtures("filled")
def test_searches_and_status(query: Query) -> None:
    assert [(s.name, s.state, s.trials, s.trained, s.reused, s.best) for s in query.searches()] == [
        ("far", "interrupted", 1, 1, 0, "far/0"),  # the object that ran it is gone
        ("two", "finished", 3, 1, 2, "two/0"),
        ("one", "interrupted", 6, 5, 0, "one/1"),
    ]
    two = query.status("two")
    assert (two.states, two.seconds, two.epochs_trained, two.value) == ({"completed": 3}, 2.5, 2, 0.9)
    assert (two.data, two.space, two.objective, two.host) == ("digits", "tiny", "val_accuracy", "")
    assert query.settings("two")["settings"]["space"] == "tiny"
    with pytest.raises(ResultsError, match="did you mean two"):
        query.status("twwo")


def test_status_of_a_search_that_runs(query: Query, make_search: MakeSearch) -> None:
    store = make_search("a")
    assert query.status("a").state == "running"
    assert query.status("a").pid is not None
    store.finish("interrupted")
    assert (query.status("a").state, query.status("a").pid) == ("interrupted", None)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("ask", [{"data": "digit"}, {"search": "onee"}, {"limit": 0}, {"metric": "val_loss:up"}])
def test_top_refuses(query: Query, ask: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        query.top(**ask)


@pytest.mark.usefixtures("filled")
def test_rows_become_csv_and_json(query: Query) -> None:
    rows = query.top(data="digits")
    assert to_csv(rows).splitlines()[1].startswith("two/0,d1:")
    assert json.loads(to_json(rows))[0]["n"] == 2


def test_what_is_not_finite_never_wins(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    diverged = replace(make_trial(0, math.inf), state=State.DIVERGED, scores=None)
    odd = replace(make_trial(1, math.nan, width=16))
    make_search("a", diverged, odd, make_trial(2, 0.1, width=32))
    assert [r.trial for r in query.top()] == ["a/2"]
    assert query.resolve("a").ref == "a/2"


def test_a_note_and_an_origin_are_shown(query: Query, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    trial = make_trial(0, 0.5)
    trial = replace(trial, candidate=replace(trial.candidate, origin=Origin.REFERENCE, note="resnet"))
    make_search("a", trial)
    assert [(r.origin, r.note) for r in query.top()] == [("reference", "resnet")]
    assert query.lineage("a/0")[0].note == "resnet"


def test_costs_come_from_the_topology_when_nobody_gives_them(
    query: Query, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 0.5))
    (row,) = query.top()
    # conv 1->8 3x3 (no bias before a norm) 72, norm 16; conv 8->8 5x5 1600, norm 16; head 8*10 + 10.
    assert (row.params, row.depth) == (72 + 16 + 1600 + 16 + 90, 2)


def test_a_topology_that_has_no_shape_there_has_no_costs(
    query: Query, database: Database, make_trial: MakeTrial
) -> None:
    from detol.search.recipe import Recipe

    described = {"digest": "x1:flat", "name": "flat", "shape": [4], "outputs": 3}  # no image: conv does not fit
    store = database.create_search("a", {"objectives": ["m"]}, described, Recipe())
    store.add(make_trial(0, 0.5))
    store.commit()
    assert query.top()[0].params is None
    assert query.front() == []
