"""Top and front by the index are those of a plain look at every trial, whatever the trials are."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detol.results import walk
from detol.results.query import Query
from detol.results.rows import now
from detol.results.schema import trials
from detol.results.store import Database, SearchStore
from detol.search.records import Report, State, Trial

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]

SCORES = [0.1, 0.2, 0.25, 0.3, 0.4]
trial_rows = st.lists(
    st.tuples(
        st.integers(1, 2),  # search
        st.integers(0, 5),  # topology
        st.sampled_from(SCORES),
        st.sampled_from(["completed", "completed", "completed", "stopped", "paused", "failed"]),
        st.integers(1, 2),  # epochs
        st.integers(0, 2),  # seed
        st.booleans(),  # answered
    ),
    max_size=30,
)
PARAMS = [30, 10, 20, 20, 40, None]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_FIRST", 2)
    monkeypatch.setattr(walk, "_STEP", 2)


@pytest.fixture(params=["sqlite", "postgres"])
def two_searches(request: pytest.FixtureRequest) -> Iterator[Database]:
    with Database(request.getfixturevalue(request.param)) as database:
        yield database


def plain(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Return (digest, completed, mean, n, value, params) of each topology, in order: the rule, written out again."""
    found = []
    for digest in {row["digest"] for row in rows}:
        mine = [row for row in rows if row["digest"] == digest and row["state"] in ("completed", "stopped", "paused")]
        completed = [row for row in mine if row["state"] == "completed"]
        mine = completed or mine
        if not mine:
            continue
        best = min(mine, key=lambda row: (-row["score"], row["reused"] != "", row["search"], row["number"]))
        length = "epochs" if completed else "epoch"
        as_far = {(r["seed"], r["score"]) for r in mine if not r["reused"] and r[length] == best[length]}
        scores = [score for _, score in as_far]
        mean = statistics.fmean(scores) if scores else best["score"]
        place = (not completed, -mean, best["search"], best["number"])
        found.append((place, digest, mean, max(1, len(scores)), best["score"], best["params"]))
    return [row[1:] for row in sorted(found)]


def plain_front(rows: list[dict[str, object]], ranked: list[tuple[object, ...]]) -> set[object]:
    ends = {row["digest"] for row in rows if row["state"] == "completed"}
    some = [row for row in ranked if row[4] is not None]
    if any(row[0] in ends for row in some):
        some = [row for row in some if row[0] in ends]

    def beaten(row: tuple[object, ...]) -> bool:
        return any(o[1] >= row[1] and o[4] <= row[4] and (o[1] > row[1] or o[4] < row[4]) for o in some)

    return {row[0] for row in some if not beaten(row)}


def write(database: Database, drawn: list[tuple[object, ...]], base: dict[str, object]) -> list[dict[str, object]]:
    rows = []
    for number, (search, topology, score, state, epochs, seed, answered) in enumerate(drawn):
        scored = state != "failed"
        rows.append(
            {
                **base,
                "search": search,
                "number": number,
                "digest": f"d1:{topology}",
                "state": state,
                "epochs": epochs,
                "epoch": 1,
                "seed": seed,
                "score": score if scored else None,
                "scores": f"[{score}]" if scored else None,
                "reused": "x/0" if answered else "",
                "params": PARAMS[topology],
            }
        )

    def fill(connection: object) -> None:
        connection.execute(trials.delete())  # type: ignore[attr-defined]
        if rows:
            connection.execute(trials.insert(), rows)  # type: ignore[attr-defined]

    database.write(fill)
    return rows


@pytest.mark.usefixtures("small_batches")
def test_as_a_look_at_every_trial(two_searches: Database, make_trial: MakeTrial) -> None:
    from detol.search.recipe import Recipe

    described = {"digest": "x1:digits", "name": "digits", "shape": [1, 8, 8], "outputs": 10}
    for name in ("a", "b"):
        store = two_searches.create_search(name, {"space": name, "objectives": ["m"]}, described, Recipe())
        store.add(make_trial(0))
        store.commit()
    with two_searches.read() as connection:
        base = dict(connection.execute(trials.select().limit(1)).mappings().one())
    base |= {"ended": now()}
    query = Query(two_searches)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(trial_rows, st.integers(1, 7))
    def check(drawn: list[tuple[object, ...]], limit: int) -> None:
        rows = write(two_searches, drawn, base)
        for search, asked in ((None, rows), ("b", [row for row in rows if row["search"] == 2])):
            expected = plain(asked)
            found = query.top(search=search, limit=limit)
            assert [(r.digest, r.mean, r.n, r.value, r.params) for r in found] == [
                (digest, pytest.approx(mean), *rest) for digest, mean, *rest in expected[:limit]
            ]
            front = query.front(search=search)
            assert sorted(row.digest for row in front) == sorted(plain_front(asked, expected))
            means = [row.values["m"] for row in front]
            assert means == sorted(means, reverse=True)

    check()


def test_several_seeds_count_as_their_mean(database: Database, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    seeds = [make_trial(n, score, seed=n) for n, score in enumerate([0.9, 0.6, 0.75])]
    make_search("a", *seeds, make_trial(3, 0.8, width=16))
    first, second = Query(database).top()
    assert (first.trial, first.mean, first.n, first.spread) == ("a/3", 0.8, 1, None)
    assert (second.trial, second.value, second.n) == ("a/0", 0.9, 3)
    assert (second.mean, second.spread) == (pytest.approx(0.75), pytest.approx(0.15))  # a sample's: sqrt(0.045 / 2)


def test_the_same_training_in_two_databases_is_one_observation(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 0.5, seed=7), make_trial(1, 0.5, seed=7), make_trial(2, 0.7, seed=7))
    (row,) = Query(database).top()
    assert (row.n, row.mean) == (2, pytest.approx(0.6))  # another score of the same seed is a second one


def test_trainings_of_other_lengths_are_not_averaged(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    make_search("a", make_trial(0, 0.9), make_trial(1, 0.5, epochs=1), make_trial(2, 0.8, seed=9))
    (row,) = Query(database).top()
    assert (row.n, row.mean, row.epochs) == (2, pytest.approx(0.85), 3)


def test_an_answer_never_stands_for_the_trained_trial(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    """Its time is no time of a training: it would win the front by seconds."""
    make_search("a", make_trial(0, 0.5, 0.6, reused="b/0", seconds=0.0), make_trial(1, 0.5, 0.6, seconds=9.0))
    (row,) = Query(database).front(("score", "seconds"))
    assert (row.trial, row.values["seconds"]) == ("a/1", 9.0)


def test_an_objective_in_two_directions(database: Database, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    def lossy(number: int, loss: float, width: int) -> Trial:
        trial = make_trial(number, -loss, width=width)
        return replace(trial, reports=(Report(1, {"val_loss": loss, "val_accuracy": 1 - loss}),))

    make_search("a", make_trial(0, 0.9, width=16), make_trial(1, 0.7, width=24))
    make_search("b", lossy(0, 0.2, 32), lossy(1, 0.5, 40), objectives=["val_loss"])
    by_loss = Query(database).top()
    assert [row.metric for row in by_loss] == ["val_loss"] * 4
    assert [row.trial for row in by_loss] == ["a/0", "b/0", "a/1", "b/1"]
    assert [row.trial for row in Query(database).top(metric="val_accuracy")] == ["a/0", "b/0", "a/1", "b/1"]
    assert [row.state for row in by_loss] == [State.COMPLETED] * 4


def test_only_a_few_rows_are_read(tmp_path: Path, make_search: MakeSearch, make_trial: MakeTrial, monkeypatch) -> None:
    store = make_search("a", *(make_trial(n, 0.001 * n, width=8 + n) for n in range(300)))
    read = []
    monkeypatch.setattr(walk, "standing", lambda rows, *rest: read.append(len(rows)) or standing(rows, *rest))
    from detol.results.standing import standing

    assert [row.trial for row in Query(store._database).top(limit=3)] == ["a/299", "a/298", "a/297"]
    assert sum(read) < 100
