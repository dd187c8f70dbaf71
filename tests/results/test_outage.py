"""A server that goes away: what writes waits and goes on, what asks by hand is told at once, and nothing is lost."""

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa

from detol.errors import ResultsError
from detol.results.query import Query
from detol.results.schema import searches, trials
from detol.results.store import Database
from detol.search.recipe import Recipe

HELPER = Path(__file__).parents[2] / "benchmarks" / "postgres_server.py"
DATA = {"digest": "x1:digits", "name": "digits", "shape": [1, 8, 8], "outputs": 10}


def helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("postgres_server", HELPER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    module = helper()
    if module.binaries() is None:
        pytest.skip("PostgreSQL is not installed here")
    with module.PostgresServer() as started:
        yield started


def test_a_server_that_is_killed_and_comes_back(server: Any, make_trial: Any) -> None:
    """Killed while a search writes: it says so once, loses nothing, and writes nothing twice."""
    said: list[str] = []
    heard, gone = threading.Event(), threading.Event()

    def warn(line: str) -> None:
        said.append(line)
        heard.set()

    with Database(server.url) as database:
        database.warn = warn
        store = database.create_search("a", {"objectives": ["val_accuracy"]}, DATA, Recipe())

        def outage() -> None:
            server.kill()
            gone.set()
            heard.wait()
            server.start()

        thread = threading.Thread(target=outage)
        for number in range(30):
            store.add(make_trial(number))
            store.step(1, [])
            store.commit()
            if number == 3:
                thread.start()
                gone.wait()
            assert len(store.known(make_trial(0).digest, store.recipe, store.data, 3)) == number
            store.record(make_trial(number, 0.5, 0.6))
            store.commit()
        thread.join()
        store.finish()
    with Database(server.url) as database:
        found = database.open_search("a", lock=False)
        assert [trial.scores for trial in found.trials()] == [(0.6,)] * 30
        assert [len(trial.reports) for trial in found.trials()] == [2] * 30
        assert len(found.steps()) == 30
        assert found.state == "finished"
    assert len(said) == 1
    assert "does not answer" in said[0]
    assert "\n" not in said[0]


def test_what_is_read_in_one_go_is_of_one_moment(server: Any, make_trial: Any) -> None:
    with Database(server.url) as database, Database(server.url) as other:
        store = database.create_search("c", {"objectives": ["val_accuracy"]}, DATA, Recipe())
        with other.read() as connection:
            query = sa.select(sa.func.count()).select_from(trials).join(searches).where(searches.c.name == "c")
            assert connection.scalar(query) == 0
            store.add(make_trial(0, 0.5))
            store.finish()
            assert connection.scalar(query) == 0
        assert other.ask(lambda connection: connection.scalar(query)) == 1


def test_patience_ends_with_one_line(server: Any, make_trial: Any) -> None:
    with Database(server.url) as database:
        database.warn, database.patience = (lambda _: None), 0.5
        store = database.create_search("b", {"objectives": ["val_accuracy"]}, DATA, Recipe())
        store.add(make_trial(0))
        server.kill()
        try:
            with pytest.raises(ResultsError, match="cannot write to the results database") as caught:
                store.commit()
            assert "\n" not in str(caught.value)
            with pytest.raises(ResultsError, match="cannot read"):  # a person who asks is not kept waiting
                Query(database).searches()
            with pytest.raises(ResultsError, match="cannot open"):
                Database(server.url)
        finally:
            server.start()
        store.commit()  # what was not written is still there
        store.close()
        assert len(database.open_search("b", lock=False).trials()) == 1
