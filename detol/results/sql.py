"""A person's own SQL on the results: read-only, whatever it says."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from detol.errors import ResultsError
from detol.results.engine import first_line, one_line, read_only

if TYPE_CHECKING:
    from detol.results.store import Database

_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_LOOKS = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"})
_REFUSED = "detol results sql reads only: one SELECT (or EXPLAIN, or PRAGMA table_info(TABLE)) at a time"


@dataclass(frozen=True)
class Answer:
    """What a statement selected: the names of the columns, and the rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def select(database: "Database", text: str) -> Answer:
    """Run one statement on a connection that cannot write.

    Raises:
        ResultsError: it would write, is more than one statement, or is not valid SQL.
    """
    if not text.strip():
        raise ResultsError("an SQL statement is needed, e.g. SELECT name, state FROM searches")
    return _sqlite(database, text) if database.sqlite else _postgresql(database, text)


def _allow(action: int, first: str | None, *_: object) -> int:
    """Allow what reads: mode and query_only alone would leave ATTACH and VACUUM INTO, which make files."""
    looks = action == sqlite3.SQLITE_PRAGMA and first in _LOOKS
    return sqlite3.SQLITE_OK if action in _READS or looks else sqlite3.SQLITE_DENY


def _sqlite(database: "Database", text: str) -> Answer:
    with one_line(database.url, "read"), read_only(database.url) as raw:
        raw.execute("PRAGMA query_only=ON")
        raw.set_authorizer(_allow)
        try:
            cursor = raw.execute(text)
            rows = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            denied = getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY)
            denied = denied or "one statement" in str(error)
            raise ResultsError(_REFUSED if denied else f"SQL: {str(error).splitlines()[0]}") from None
        return Answer(tuple(column[0] for column in cursor.description or ()), rows)


def _postgresql(database: "Database", text: str) -> Answer:
    # In a transaction that is read-only from its start; prepared, so that a second statement, which could end that
    # transaction, is refused by the server.
    with database.read() as connection:
        connection.execute(sa.text("SET TRANSACTION READ ONLY"))
        cursor: Any = connection.connection.cursor()
        driver: Any = database.engine.dialect.loaded_dbapi
        try:
            cursor.execute(text, prepare=True)
            rows = cursor.fetchall() if cursor.description else []
        except driver.Error as error:
            refused = error.sqlstate == "25006" or "multiple commands" in str(error)
            raise ResultsError(_REFUSED if refused else f"SQL: {first_line(error, database.url)}") from None
        return Answer(tuple(column[0] for column in cursor.description or ()), rows)
