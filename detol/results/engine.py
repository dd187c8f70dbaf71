"""Opening a results database: its address, its connections, and its errors in one line."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from detol.errors import ResultsError
from detol.results.schema import VERSION_TABLE

BUSY_SECONDS = 30
"""How long one statement waits for another writer before the transaction is tried again."""


UNREADABLE = "the results database's URL cannot be read: write sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME"
_SCHEME = re.compile(r"(postgres|postgresql|sqlite|mysql|mariadb|oracle|mssql)(\+\w+)?:", re.IGNORECASE)


def address(where: str | Path) -> sa.URL:
    """Return the URL of a database; a path means a SQLite file.

    Raises:
        ResultsError: not a URL, neither SQLite nor PostgreSQL, or no file named.
    """
    text = str(where)
    if isinstance(where, Path) or "://" not in text:
        if not text.strip():
            raise ResultsError("a results database is a path or a URL, got an empty text")
        if _SCHEME.match(text):  # a slip, not a path: what follows may be a password
            raise ResultsError(UNREADABLE)
        return sa.URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        url = make_url(text)
        backend = url.get_backend_name()
        url.get_dialect()
    except (NoSuchModuleError, ImportError):
        raise ResultsError(
            f"no driver for results databases of {url.drivername!r}: use a path, sqlite:///PATH or "
            "postgresql+psycopg://..."
        ) from None
    except (ArgumentError, ValueError):
        raise ResultsError(UNREADABLE) from None
    if backend not in ("sqlite", "postgresql"):
        raise ResultsError(f"a results database is SQLite or PostgreSQL, got {url.drivername!r}")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise ResultsError(
            "a results database is a file, got one in memory: write sqlite:///PATH, or use MemoryDatabase"
        )
    return url


def shown(url: sa.URL) -> str:
    """Return a URL for a message: no password and no query, a plain path for a SQLite file."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def make_engine(url: sa.URL) -> sa.Engine:
    """Return the engine; on SQLite a connection with ``write`` in its options begins as the writer at once.

    (``BEGIN IMMEDIATE``: a transaction that reads first and then writes could not wait for another writer.)

    Raises:
        ResultsError: the driver is not installed.
    """
    try:
        if url.get_backend_name() != "sqlite":
            return sa.create_engine(
                url, pool_pre_ping=True, connect_args={"connect_timeout": 10, "application_name": "detol"}
            )
        engine = _sqlite(url)
    except ImportError:
        raise ResultsError(
            f"the driver {url.drivername!r} is not installed: pip install 'psycopg[binary]' and use postgresql+psycopg://"
        ) from None

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin below, and nowhere else
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _sqlite(url: sa.URL) -> sa.Engine:
    path = Path(str(url.database))
    if path.is_file() and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        # Where nobody may write, not even a reader's own files beside it: a database somebody published.
        uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        return sa.create_engine(url, creator=lambda: sqlite3.connect(uri, uri=True, check_same_thread=False))
    return sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})


def read_only(url: sa.URL) -> "closing[sqlite3.Connection]":
    """Return a SQLite connection that cannot write, whatever is asked of it."""
    return _look(url, "mode=ro")


def untouched(url: sa.URL) -> "closing[sqlite3.Connection]":
    """Return a SQLite connection for a short look, which leaves no trace.

    (Even a reader makes the two files beside a database in WAL mode, unless it is told that nobody writes to it. When
    the files are there, somebody may; then they must be read, too.)
    """
    return _look(url, "mode=ro" if Path(f"{url.database}-wal").exists() else "mode=ro&immutable=1")


def _look(url: sa.URL, how: str) -> "closing[sqlite3.Connection]":
    path = quote(str(Path(str(url.database)).absolute()))
    return closing(sqlite3.connect(f"file:{path}?{how}", uri=True, timeout=BUSY_SECONDS))


def copy_sqlite(url: sa.URL, to: Path) -> None:
    """Copy a SQLite database that others may be writing to, as it is at one moment."""
    with untouched(url) as raw, closing(sqlite3.connect(to)) as copy:
        raw.backup(copy)


def sqlite_revision(url: sa.URL) -> str | None:
    """Return the revision that a SQLite file says it has, ``None`` for an empty one; it is only looked at.

    Raises:
        ResultsError: a database of something else, or no database.
    """
    path = Path(str(url.database))
    if path.stat().st_size == 0:
        return None
    with one_line(url, "open"), untouched(url) as raw:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and VERSION_TABLE not in tables:
            raise ResultsError(
                f"{url.database} is a SQLite database of something else (table {min(tables)!r}): "
                "choose another file for the results"
            )
        row = raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() if tables else None  # noqa: S608
    return str(row[0]) if row else None


def away(error: DBAPIError | sqlite3.Error) -> bool:
    """Return whether a server does not answer now and may come back: it restarts, was killed, or its network is down.

    (Without a state there was no answer at all. Classes 08: connection exceptions; 57P01 to 57P03: it is shutting
    down, has crashed, or is starting; 53300: too many connections.)
    """
    if not isinstance(error, OperationalError) or isinstance(error.orig, sqlite3.Error):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state is None or state[:2] == "08" or state in ("57P01", "57P02", "57P03", "53300")


def busy(error: DBAPIError | sqlite3.Error) -> bool:
    """Return whether a transaction failed only because of others at the same time, or of a lost connection."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return (int(code) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    # PostgreSQL: serialization_failure, deadlock_detected.
    return getattr(cause, "sqlstate", None) in ("40001", "40P01")


def first_line(error: BaseException, url: sa.URL) -> str:
    """Return what went wrong in one line without the password."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    secrets = [str(url.password)] if url.password else []
    secrets += [str(value) for key, value in url.query.items() if "pass" in key]
    line = lines[0].strip()
    for secret in secrets:
        line = re.sub(re.escape(secret), "***", line)
    return line


@contextmanager
def one_line(url: sa.URL, doing: str) -> Iterator[None]:
    """Turn an error of the database, its driver or its file into a :class:`ResultsError` of one line."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise ResultsError(f"cannot {doing} the results database {shown(url)}: {first_line(error, url)}") from None


@cache
def insert_new(table: sa.Table, dialect: str) -> Any:
    """Return an insert that leaves rows alone which exist already."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgres

        return postgres(table).on_conflict_do_nothing()
    from sqlalchemy.dialects.sqlite import insert as sqlite

    return sqlite(table).on_conflict_do_nothing()
