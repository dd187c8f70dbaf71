"""Databases of every earlier schema still open, and answer as they did; on PostgreSQL, too, where there is one.

``data/schema_0001.sql.gz`` was written by the code of schema 0001: searches of the digits in ``tiny`` (stopped, paused
and reused trials, two seeds of one topology, an objective that is minimised, weights that were inherited, all faults).
"""

import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.results.migrations import upgrade
from detol.results.query import Query
from detol.results.schema import REVISIONS, VERSION_TABLE, metadata, searches, trials
from detol.results.store import Database
from detol.search.records import State

DATA = Path(__file__).parent / "data"
OLD = sorted(DATA.glob("schema_*.sql.gz"))
NAMES = ["first", "second", "same", "cut", "other-seed", "another", "seeds", "odd ends; DROP TABLE trials -- 'ü'"]


def load(dump: Path, path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(gzip.decompress(dump.read_bytes()).decode())
        raw.commit()


def copy_to_postgres(path: Path, url: str) -> None:
    """Make the tables of that schema there by its script, which never changes, and copy the rows."""
    old = sa.MetaData()
    source, target = sa.create_engine(f"sqlite:///{path}"), sa.create_engine(url)
    try:
        with source.connect() as reading, target.begin() as writing:
            old.reflect(reading)
            upgrade(writing, reading.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar_one())
            for table in old.sorted_tables:
                if table.name == VERSION_TABLE:
                    continue
                writing.execute(table.insert(), [dict(row) for row in reading.execute(sa.select(table)).mappings()])
            count = len(reading.execute(sa.select(old.tables["searches"])).all())
            writing.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('searches', 'id'), {count})")
    finally:
        source.dispose()
        target.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    load(DATA / "schema_0001.sql.gz", tmp_path / "old.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        copy_to_postgres(tmp_path / "old.db", url)
        yield url
    else:
        yield str(tmp_path / "old.db")


def test_there_is_one_of_each_released_schema() -> None:
    assert [path.name for path in OLD] == [f"schema_{revision}.sql.gz" for revision in REVISIONS[:-1]]


def test_it_gives_the_answers_it_gave(where: str) -> None:
    """The figures were read with the code that wrote the file."""
    with Database(where) as database:
        query = Query(database)
        assert database.names() == NAMES
        stats = query.stats()
        assert (stats["trials"], stats["trained"], stats["reused"], stats["reports"]) == (52, 35, 16, 128)
        assert (stats["epochs"], stats["epochs_spared"], stats["epochs_saved"]) == (82, 4, 46)
        assert stats["seconds"] == pytest.approx(6.504724997965241)
        assert stats["seconds_saved"] == pytest.approx(3.0857153219876636)
        assert stats["states"]["completed"] == 41
        top = {row.trial: row for row in query.top(limit=100)}
        assert (top["first/4"].value, top["first/4"].mean, top["first/4"].n) == (
            0.9791666666666666,
            0.9722222222222222,
            2,
        )
        assert (top["first/0"].value, top["first/0"].n) == (0.9652777777777778, 2)  # of 3 epochs; cut/0 has 2
        assert top["cut/1"].inherited == "0"
        assert query.top(search="second")[0].trial == "second/0"
        found = query.show("first/4")
        assert (found["cost"]["params"], found["value"]) == (9098, 0.9791666666666666)
        assert [line.trial for line in query.lineage("cut/2")] == ["cut/2", "cut/1", "cut/0"]
        assert query.settings("first")["settings"]["space"] == "tiny"


def test_trials_are_whole_and_their_digests_true(where: str) -> None:
    with Database(where) as database:
        for name in NAMES:
            for trial in database.open_search(name, lock=False).trials():
                assert digest(trial.candidate.topology) == trial.digest
                assert len(trial.curve) == len(trial.reports)
        odd = database.open_search(NAMES[-1], lock=False).trials()
        assert [trial.state for trial in odd][:5] == [
            State.FAILED,
            State.DIVERGED,
            State.LOST,
            State.PAUSED,
            State.RUNNING,
        ]


def test_new_columns_are_filled(where: str) -> None:
    with Database(where) as database, database.read() as connection:
        uids = connection.scalars(sa.select(searches.c.uid)).all()
        assert len(set(uids)) == len(NAMES)
        assert all(len(uid) == 32 for uid in uids)
        assert set(connection.scalars(sa.select(searches.c.source))) == {""}
        inherited = sa.select(trials.c.number).join_from(trials, searches).where(trials.c.inherited != "")
        assert connection.execute(inherited.with_only_columns(searches.c.name).distinct()).scalars().all() == ["cut"]
        columns = ("params", "multiply_adds", "activation_bytes", "depth")
        rows = connection.execute(sa.select(searches.c.name, trials).join_from(trials, searches)).mappings().all()
        stores = {name: database.open_search(name, lock=False).trials() for name in ("first", "cut")}
        for row in rows:
            if row["name"] in stores:
                topology = next(t for t in stores[row["name"]] if t.number == row["number"]).candidate.topology
                true = cost(topology, (1, 8, 8), 10)
                assert [row[column] for column in columns] == [getattr(true, column) for column in columns]


def test_two_copies_agree_on_who_they_are(tmp_path: Path) -> None:
    uids = []
    for name in ("a", "b"):
        load(OLD[0], tmp_path / name)
        with Database(tmp_path / name) as database, database.read() as connection:
            uids.append(connection.scalars(sa.select(searches.c.uid).order_by(searches.c.id)).all())
    assert uids[0] == uids[1]


def test_an_old_search_goes_on(where: str) -> None:
    with Database(where) as database:
        store = database.open_search("first")
        before = store.trials()
        store.add(before[0].__class__(99, before[0].candidate, State.RUNNING, 3))
        store.commit()
        assert [trial.number for trial in database.open_search("first", lock=False).trials()][-1] == 99
        new = database.create_search("new", {}, {"digest": store.data}, _recipe())
        new.close()
        assert database.names()[-1] == "new"


def _recipe():
    from detol.search.recipe import Recipe

    return Recipe()


def test_the_same_tables_as_a_new_one_has(where: str) -> None:
    with Database(where) as database, database.read() as connection:
        found = sa.inspect(connection)
        assert set(found.get_table_names()) == {*metadata.tables, VERSION_TABLE}
        for name, table in metadata.tables.items():
            assert [column["name"] for column in found.get_columns(name)] == [column.name for column in table.columns]
            assert {index.name for index in table.indexes} <= {index["name"] for index in found.get_indexes(name)}
