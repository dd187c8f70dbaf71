"""A person's own SQL reads, and never writes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from detol.errors import ResultsError
from detol.results.query import Query
from detol.results.store import Database, SearchStore


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with Database(request.getfixturevalue(request.param)) as opened:
        yield opened


def test_it_reads(database: Database, make_search: Callable[..., SearchStore]) -> None:
    make_search("a 50% :x").finish()
    query = Query(database)
    answer = query.sql("SELECT name, state FROM searches WHERE name LIKE '%50\\%%' ESCAPE '\\' -- and ':x'")
    assert answer.columns == ("name", "state")
    assert answer.dicts() == [{"name": "a 50% :x", "state": "finished"}]
    counted = query.sql("WITH s AS (SELECT count(*) AS n FROM searches) SELECT n + 1 AS more FROM s")
    assert counted.dicts() == [{"more": 2}]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM searches",
        "UPDATE searches SET name = 'b'",
        "INSERT INTO recipes (digest) VALUES ('x')",
        "DROP TABLE steps",
        "CREATE TABLE x (y int)",
        "CREATE TEMP TABLE x (y int)",
        "SELECT 1; DELETE FROM searches",
        "COMMIT; DELETE FROM searches",
        "WITH x AS (SELECT 1) DELETE FROM searches",
    ],
)
def test_it_never_writes(database: Database, make_search: Callable[..., SearchStore], text: str) -> None:
    make_search("a").finish()
    with pytest.raises(ResultsError) as caught:
        Query(database).sql(text)
    assert "\n" not in str(caught.value)
    assert database.names() == ["a"]
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM recipes").scalar() == 1


@pytest.mark.parametrize(
    "text", ["VACUUM INTO '{}'", "ATTACH '{}' AS x", "PRAGMA query_only=0", "PRAGMA journal_mode=DELETE"]
)
def test_sqlite_makes_no_files_and_keeps_its_settings(tmp_path: Path, text: str) -> None:
    with Database(tmp_path / "r.db") as database:
        with pytest.raises(ResultsError, match="reads only"):
            Query(database).sql(text.format(tmp_path / "x.db"))
        assert len(Query(database).sql("PRAGMA table_info(trials)").rows) > 20
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("text", ["SELEC 1", "SELECT nothing FROM searches", "SELECT * FROM nowhere", "", "  "])
def test_what_is_no_sql(database: Database, text: str) -> None:
    with pytest.raises(ResultsError, match="SQL") as caught:
        Query(database).sql(text)
    assert "\n" not in str(caught.value)
