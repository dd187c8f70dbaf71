"""The results database: opened, created and migrated here; a search writes to it through its :class:`SearchStore`."""

import random
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from detol.errors import ResultsError, UsageError, unknown
from detol.results import describe, engine, owner
from detol.results.schema import REVISIONS, VERSION_TABLE, data_sets, metadata, searches
from detol.results.writer import SearchStore
from detol.search.recipe import Recipe

__all__ = ["Database", "SearchStore"]

T = TypeVar("T")

PATIENCE = 1800.0
"""Seconds that a search waits for a server that was there before."""

_TRIES = 4
_LONGEST_PAUSE = 5.0
_SAY_AFTER = 0.15
_MIGRATION_LOCK = 0x6465746F6C  # "detol": PostgreSQL's advisory lock while one process migrates


def _to_standard_error(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


class Database:
    """A results database over all searches, on SQLite (a file) or PostgreSQL.

    Safe for several threads and processes at once: each writes in short transactions and waits for the others. Opening
    creates what is missing and migrates an older schema, all or nothing.

    Args:
        where: a path (SQLite), ``sqlite:///PATH`` or ``postgresql+psycopg://USER@HOST/NAME``.
        create: whether a missing database is created; otherwise that is an error.
        migrate: whether an older schema is brought up to date; otherwise that is an error.

    Attributes:
        patience: seconds that writing and :meth:`ask` wait for a server that does not answer, and go on when it is
            back; they say so once.
        warn: takes that line; by default standard error.

    Raises:
        ResultsError: it cannot be opened, is not a results database, or has a newer schema (nothing is written then).
    """

    def __init__(self, where: str | Path, *, create: bool = True, migrate: bool = True) -> None:
        self.url = engine.address(where)
        self.engine = engine.make_engine(self.url)
        self._write = self.engine.execution_options(write=True)
        # What is read in one go is of one moment: SQLite's way, and this one of PostgreSQL's.
        self._read = self.engine if self.sqlite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        self.patience = PATIENCE
        self.warn: Callable[[str], None] = _to_standard_error
        self._said = False
        self._opened = False  # until then a server that does not answer is a wrong address
        try:
            self._prepare(create, migrate)
            self._opened = True
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Database":
        """Return the database; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()

    def __repr__(self) -> str:
        """Return its address without a password."""
        return f"Database({engine.shown(self.url)!r})"

    def close(self) -> None:
        """Give all connections back; idempotent."""
        self.engine.dispose()

    @property
    def sqlite(self) -> bool:
        """Whether it is a SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    # -- opening

    def _prepare(self, create: bool, migrate: bool) -> None:
        with engine.one_line(self.url, "open"):
            if self.sqlite:
                path = Path(str(self.url.database))
                if not path.exists():
                    self._check_missing(create)
                    path.parent.mkdir(parents=True, exist_ok=True)
                else:  # looked at before anything may write to it, not even a change of its journal mode
                    found = engine.sqlite_revision(self.url)
                    if found is not None and self._supported(found) == REVISIONS[-1]:
                        return
            else:
                with self.engine.connect() as connection:
                    found = self._revision(connection)
                if found == REVISIONS[-1]:
                    return
                if found is None:
                    self._check_missing(create)
            if not migrate:
                raise ResultsError(
                    f"the results database {engine.shown(self.url)} has an older schema ({found}) and is only read "
                    "here: open it once with this detol, e.g. detol status --db URL"
                )
            self._migrate()

    def _check_missing(self, create: bool) -> None:
        if not create:
            raise ResultsError(
                f"there is no results database at {engine.shown(self.url)}: run a search first, or give --db"
            )

    def _revision(self, connection: sa.Connection) -> str | None:
        tables = set(sa.inspect(connection).get_table_names())
        if VERSION_TABLE not in tables:
            clash = tables & metadata.tables.keys()
            if clash:
                raise ResultsError(
                    f"{engine.shown(self.url)} holds a table {min(clash)!r} of something else: choose another database"
                )
            return None
        found = connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE)))
        return self._supported(str(found)) if found else None

    def _supported(self, revision: str) -> str:
        if revision not in REVISIONS:
            raise ResultsError(
                f"the results database {engine.shown(self.url)} has schema {revision}, this detol knows up to "
                f"{REVISIONS[-1]}: update detol, or use another database"
            )
        return revision

    def _migrate(self) -> None:
        from detol.results.migrations import upgrade

        if self.sqlite:
            self._keep_trying(self._use_wal)

        def migrate(connection: sa.Connection) -> None:
            if not self.sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            if self._revision(connection) != REVISIONS[-1]:  # another process may have been quicker
                upgrade(connection)

        self.write(migrate)

    def _use_wal(self) -> None:
        """Let readers and one writer work at once; kept in the file, so once is enough.

        Where another process has begun to write, SQLite does not wait, but says at once that the file is locked.
        """
        connection = self.engine.raw_connection()  # outside of a transaction, where alone the mode may change
        try:
            connection.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()

    # -- transactions

    def write(self, change: Callable[[sa.Connection], T]) -> T:
        """Run ``change`` in one writing transaction, all or nothing; again when others were in the way.

        Also again when the server was lost: a change that may have landed unseen has to find that out itself.
        """

        def attempt() -> T:
            with self._write.begin() as connection:
                return change(connection)

        with engine.one_line(self.url, "write to"):
            return self._keep_trying(attempt)

    def ask(self, question: Callable[[sa.Connection], T]) -> T:
        """Run ``question``, which reads, on one consistent view; again when the connection or the server was lost."""

        def attempt() -> T:
            with self._read.connect() as connection:
                return question(connection)

        with engine.one_line(self.url, "read"):
            return self._keep_trying(attempt)

    def _keep_trying(self, attempt: Callable[[], T]) -> T:
        """Try again a few times when others were in the way, and for ``patience`` while the server is away."""
        tries, lost, pause = 0, 0.0, 0.1
        while True:
            try:
                return attempt()
            except (DBAPIError, sqlite3.Error) as error:  # the latter from a connection without SQLAlchemy around it
                if self._opened and engine.away(error):
                    lost = lost or time.monotonic()
                    if time.monotonic() - lost > self.patience:
                        raise
                    if pause > _SAY_AFTER:
                        self._say_away(error)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  so that not all come back at once
                elif engine.busy(error) and tries < _TRIES:
                    tries += 1
                    time.sleep(0.05 * 2**tries)
                else:
                    raise

    def _say_away(self, error: DBAPIError | sqlite3.Error) -> None:
        if not self._said:
            self._said = True
            self.warn(
                f"the results database {engine.shown(self.url)} does not answer "
                f"({engine.first_line(error, self.url)}): waiting for it, for {self.patience / 60:.0f} minutes"
            )

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Open one consistent view of the database, for reading."""
        with engine.one_line(self.url, "read"), self._read.connect() as connection:
            yield connection

    # -- searches

    def create_search(
        self,
        name: str,
        settings: Mapping[str, Any],
        data: Mapping[str, Any],
        recipe: Recipe,
        *,
        config_digest: str = "",
    ) -> SearchStore:
        """Start the record of a new search, run by this process.

        Args:
            name: unique; no ``/`` and no control characters.
            settings: everything that ``resume`` needs; JSON values. Those called space, strategy, options, stopper
                (or stop), objectives, seed, trials and epochs have columns of their own, too.
            data: the description of the data set: ``digest`` (required, of the content), name, kind, task, shape,
                outputs, and anything else.
            recipe: how all trials of the search are trained.
            config_digest: equal for searches that would do the same; by default from the settings, data and recipe.

        Raises:
            UsageError: the name exists already or cannot be one.
        """
        describe.check_name(name)
        store = SearchStore(self, name)
        claim = owner.claim(store)
        columns = {**describe.search_columns(name, settings, data, recipe, config_digest), **claim}

        def create(connection: sa.Connection) -> None:
            dialect = self.engine.dialect.name
            for table, row in describe.foundations(data, recipe):
                connection.execute(engine.insert_new(table, dialect), row)
            new = engine.insert_new(searches, dialect).returning(searches.c.id)
            made = connection.execute(new, columns).first()
            ours = sa.select(searches.c.id).where(searches.c.uid == columns["uid"])  # an earlier try, its answer lost
            if made is None and connection.scalar(ours) is None:
                raise UsageError(
                    f"a search named {name!r} exists already: detol resume {shlex.quote(name)}, or take another --name"
                )

        self.write(create)
        store.load(claim["owner"])
        return store

    def open_search(self, name: str, *, lock: bool = True) -> SearchStore:
        """Open the record of a search.

        Args:
            name: of the search.
            lock: whether this process runs it from now on; without, the record can only be read.

        Raises:
            ResultsError: there is none of that name, or another controller that is alive runs it.
        """
        store = SearchStore(self, name)
        if lock:
            store.take()
        else:
            store.load("")
        return store

    def names(self) -> list[str]:
        """Return the names of all searches, oldest first."""
        with self.read() as connection:
            return list(connection.scalars(sa.select(searches.c.name).order_by(searches.c.id)))

    def data_rows(self) -> dict[str, dict[str, Any]]:
        """Return the rows of all data sets by their digest."""
        with self.read() as connection:
            return {row["digest"]: dict(row) for row in connection.execute(sa.select(data_sets)).mappings()}

    def missing(self, name: str) -> UsageError:
        """Return the error for a search that does not exist."""
        return unknown("search", name, self.names(), ResultsError)
