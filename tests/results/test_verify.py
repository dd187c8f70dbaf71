"""A sound database has no faults; each kind of damage is found, and named by its place."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from detol import cli
from detol.results.store import Database, SearchStore
from detol.results.verify import verify
from detol.search.records import State, Trial

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


@pytest.fixture
def filled(make_search: MakeSearch, make_trial: MakeTrial, database: Database) -> Database:
    trials = [make_trial(0, 0.5, 0.6), make_trial(1, 0.7, width=16, parents=(0,)), make_trial(2, state=State.FAILED)]
    store = make_search("a", *trials)
    store.step(3, [])
    store.finish()
    make_search("b", make_trial(0, 0.5, 0.6, reused="a/0")).finish()
    return database


def test_all_is_sound(filled: Database) -> None:
    found = verify(filled)
    assert found.faults == []
    assert dict(found.checked) == {
        "data_sets": 1,
        "recipes": 1,
        "topologies": 2,
        "searches": 2,
        "trials": 4,
        "reports": 5,
    }


DAMAGE = {
    "UPDATE topologies SET digest = 'd1:' || substr(digest, 5) || '0'": ("topology", "its body has digest"),
    "UPDATE topologies SET body = replace(body, 'conv', 'convolve')": ("topology", "unknown operation 'convolve'"),
    "UPDATE topologies SET body = replace(body, '8', '9')": ("topology", "its body has key"),
    "UPDATE recipes SET settings = replace(settings, '0.9', '0.8')": ("recipe", "its settings have digest"),
    "UPDATE recipes SET settings = 'x'": ("recipe", "none of a recipe"),
    "UPDATE trials SET score = 0.9 WHERE search = 1 AND number = 0": ("a/0", "its score is 0.9, the first of its"),
    "UPDATE trials SET score = 0.9, scores = '[0.9]' WHERE search = 1 AND number = 0": (
        "a/0",
        "that of its last report",
    ),
    "UPDATE trials SET digest = 'd1:00' WHERE search = 1 AND number = 1": ("a/1", "its topology has digest"),
    "UPDATE trials SET state = 'won' WHERE number = 1": ("a/1", "a state is one of"),
    "UPDATE trials SET params = 7 WHERE number = 1": ("a/1", "its costs are (7,"),
    "UPDATE trials SET inherited = '0' WHERE number = 1": ("a/1", "it inherited from '0', its facts say ''"),
    "UPDATE trials SET extra = '[' WHERE number = 1": ("a/1", "its extra facts are no JSON object"),
    "UPDATE trials SET reused = 'a/77' WHERE search = 2": ("b/0", "answered by 'a/77', which is not there"),
    "UPDATE trials SET reused = 'nowhere' WHERE search = 2": ("b/0", "answered by 'nowhere', which is not there"),
    "DELETE FROM reports WHERE search = 1 AND number = 0 AND epoch = 2": ("a/0", "its last report is of epoch 1"),
    "UPDATE reports SET score = 0.4 WHERE search = 1 AND number = 0 AND epoch = 1": ("a/0", "its val_accuracy is 0.5"),
    "UPDATE reports SET metrics = replace(metrics, '0.5', '1.5'), score = 1.5 WHERE search = 1 AND epoch = 1": (
        "a/0",
        "in [0, 1], got 1.5",
    ),
    "UPDATE parents SET parent = 9": ("a/1", "its parent 9 is no trial of the search"),
    "UPDATE searches SET objective = 'x:up' WHERE id = 2": ("search 'b'", "METRIC:min or METRIC:max"),
    "UPDATE steps SET told = '[\"x\"]'": ("search 'a'", "step 0: a step asks for >= 0 candidates"),
    "DELETE FROM topologies": ("trials (search 1, number 0)", "its topology is in no row of topologies"),
    "DELETE FROM recipes": ("searches (id 1)", "its recipe is in no row of recipes"),
    "DELETE FROM data_sets": ("costs (topology ", "its data is in no row of data_sets"),
    "DELETE FROM searches WHERE id = 1": ("trials (search 1, number 0)", "its search is in no row of searches"),
    "DELETE FROM trials WHERE search = 1 AND number = 1": (
        "parents (search 1, number 1, slot 0)",
        "in no row of trials",
    ),
}


@pytest.mark.parametrize("statement", DAMAGE)
def test_damage_is_found(statement: str, filled: Database) -> None:
    with filled.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.commit()
        raw.execute("PRAGMA foreign_keys=OFF")
        assert raw.execute(statement).rowcount > 0
        raw.commit()
        raw.execute("PRAGMA foreign_keys=ON")
    place, what = DAMAGE[statement]
    found = verify(filled).faults
    assert [fault for fault in found if fault.where.startswith(place) and what in fault.what], found
    assert all("\n" not in fault.what for fault in found)


def test_on_postgresql(postgres: str, make_trial: MakeTrial) -> None:
    from detol.search.recipe import Recipe

    with Database(postgres) as database:
        described = {"digest": "x1:digits", "name": "digits", "shape": [1, 8, 8], "outputs": 10}
        store = database.create_search("a", {"objectives": ["val_accuracy"]}, described, Recipe())
        store.add(make_trial(0, 0.5))
        store.finish()
        assert verify(database).faults == []
        database.write(lambda connection: connection.execute(sa.text("UPDATE trials SET score = 0.9")))
        assert [fault.where for fault in verify(database).faults] == ["a/0"]


def test_the_exit_code_says_it(filled: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    where = str(filled.url.database)
    assert cli.run(["results", "verify", "--db", where]) == 0
    assert "all is sound: 1 data_sets" in capsys.readouterr().out
    filled.write(lambda connection: connection.execute(sa.text("UPDATE reports SET score = 0.1 WHERE number = 1")))
    assert cli.run(["results", "verify", "--db", where, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {fault["where"] for fault in told["faults"]} == {"a/1"}
    assert cli.run(["results", "verify", "--db", where]) == 1
    assert "a/1" in capsys.readouterr().out
    assert cli.run(["results", "verify", "--db", str(tmp_path / "none.db")]) == 2
