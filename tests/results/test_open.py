"""What can be opened as a results database, and what is refused in one line with nothing written."""

import hashlib
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from detol.errors import ResultsError
from detol.results import engine
from detol.results.schema import REVISIONS, VERSION_TABLE, metadata
from detol.results.store import Database
from detol.search.recipe import Recipe


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def refused(where: str | Path, *, create: bool = True) -> str:
    with pytest.raises(ResultsError) as caught:
        Database(where, create=create)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "some.db")
    yield connection
    connection.close()


def test_a_path_and_a_url_mean_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a b%.db"
    Database(path).close()
    assert path.is_file()
    for where in (str(path), f"sqlite:///{path}"):
        with Database(where, create=False) as database:
            assert database.names() == []
            assert str(path) in repr(database)


def test_journal_and_keys(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as database, database.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert found == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 30000}


def test_a_missing_database_is_not_made_for_reading(tmp_path: Path) -> None:
    assert "there is no results database" in refused(tmp_path / "x" / "r.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "r.db").touch()
    with Database(tmp_path / "r.db") as database:
        assert database.names() == []


def test_a_newer_schema(tmp_path: Path, raw: sqlite3.Connection) -> None:
    Database(tmp_path / "some.db").close()
    raw.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    raw.commit()
    raw.close()
    before = digests(tmp_path)
    line = refused(tmp_path / "some.db")
    assert "schema 9999" in line
    assert REVISIONS[-1] in line
    assert "update detol" in line
    assert digests(tmp_path) == before


def test_a_database_of_something_else(tmp_path: Path, raw: sqlite3.Connection) -> None:
    raw.execute("CREATE TABLE runs (id)")
    raw.close()
    before = digests(tmp_path)
    assert "something else (table 'runs')" in refused(tmp_path / "some.db")
    assert digests(tmp_path) == before


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "r.db").write_text("x1,x2,y\n" * 500)
    before = digests(tmp_path)
    assert "file is not a database" in refused(tmp_path / "r.db")
    assert digests(tmp_path) == before


def test_places_that_cannot_hold_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot open" in refused(tmp_path)  # a directory
    assert "cannot open" in refused(tmp_path / "file" / "r.db")  # below a file
    assert "cannot open" in refused("/proc/detol/r.db")  # where nobody can write, root neither
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("", "a path or a URL"),
        ("mysql://me:secret@host/x", "SQLite or PostgreSQL|no driver"),
        ("nosuch://me:secret@host/x", "no driver for results databases of 'nosuch'"),
        ("postgresql+nosuch://me:secret@host/x", "no driver"),
        ("postgresql+psycopg://me:secret@host:port/x", "cannot be read"),
        ("postgresql+psycopg:/me:secret@host/x", "cannot be read"),
        ("Postgres:me:secret@host/x", "cannot be read"),
        ("sqlite:/secret.db", "cannot be read"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
    ],
)
def test_addresses_that_are_none(url: str, line: str) -> None:
    found = refused(url)
    assert "secret" not in found
    assert any(part in found for part in line.split("|"))


def test_an_unreachable_server_does_not_show_the_password() -> None:
    pytest.importorskip("psycopg")
    with socket.socket() as held:  # bound and not listening: nobody answers there
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        line = refused(f"postgresql+psycopg://me:s3cret@127.0.0.1:{port}/x?sslpassword=s3cret2")
    assert "s3cret" not in line
    assert f"me:***@127.0.0.1:{port}/x" in line


def test_a_password_in_a_message_is_hidden() -> None:
    url = engine.address("postgresql://me:s3cret@host/x")
    assert engine.first_line(ValueError("bad s3cret in\nmany lines"), url) == "bad *** in"


def test_a_directory_that_nobody_may_write_to_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path / "r.db").close()
    before = digests(tmp_path)
    monkeypatch.setattr("os.access", lambda *_: False)  # the user of a test may be root, who may write everywhere
    with Database(tmp_path / "r.db") as database:
        assert database.names() == []
        with pytest.raises(ResultsError, match="cannot write to the results database .*readonly"):
            database.create_search("a", {}, {"digest": "x1:any"}, Recipe())
        assert digests(tmp_path) == before


def test_every_table_has_a_primary_key() -> None:
    assert all(table.primary_key.columns for table in metadata.tables.values())
