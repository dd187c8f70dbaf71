"""The results database: opened, created and migrated here; a search writes to it through its :class:`SearchStore`."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from detol.errors import ResultsError, UsageError, unknown
from detol.results import describe, engine, owner
from detol.results.schema import REVISIONS, VERSION_TABLE, metadata, searches
from detol.results.writer import SearchStore
from detol.search.recipe import Recipe

__all__ = ["Database", "SearchStore"]

T = TypeVar("T")

_TRIES = 5
_MIGRATION_LOCK = 0x6465746F6C  # "detol": PostgreSQL's advisory lock while one process migrates


class Database:
    """A results database over all searches, on SQLite (a file) or PostgreSQL.

    Safe for several threads and processes at once: each writes in short transactions and waits for the others. Opening
    creates what is missing and migrates an older schema, all or nothing.

    Args:
        where: a path (SQLite), ``sqlite:///PATH`` or ``postgresql+psycopg://USER@HOST/NAME``.
        create: whether a missing database is created; otherwise that is an error.

    Raises:
        ResultsError: it cannot be opened, is not a results database, or has a newer schema (nothing is written then).
    """

    def __init__(self, where: str | Path, *, create: bool = True) -> None:
        self.url = engine.address(where)
        self.engine = engine.make_engine(self.url)
        self._write = self.engine.execution_options(write=True)
        try:
            self._prepare(create)
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

    def _prepare(self, create: bool) -> None:
        with engine.one_line(self.url, "open"):
            if self.sqlite:
                path = Path(str(self.url.database))
                if not path.exists():
                    self._check_missing(create)
                    path.parent.mkdir(parents=True, exist_ok=True)
                elif self._inspect_file() == REVISIONS[-1]:
                    return
            else:
                with self.engine.connect() as connection:
                    found = self._revision(connection)
                if found == REVISIONS[-1]:
                    return
                if found is None:
                    self._check_missing(create)
            self._migrate()

    def _check_missing(self, create: bool) -> None:
        if not create:
            raise ResultsError(
                f"there is no results database at {engine.shown(self.url)}: run a search first, or give --db"
            )

    def _inspect_file(self) -> str | None:
        """Look at a file before anything may write to it, not even a change of its journal mode."""
        if Path(str(self.url.database)).stat().st_size == 0:
            return None
        with engine.untouched(self.url) as raw:
            tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables and VERSION_TABLE not in tables:
                raise ResultsError(
                    f"{self.url.database} is a SQLite database of something else (table {min(tables)!r}): "
                    "choose another file for the results"
                )
            row = raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() if tables else None  # noqa: S608
        return self._supported(row[0]) if row else None

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
        """Let readers and one writer work at once; kept in the file, so once is enough."""
        connection = self.engine.raw_connection()  # outside of a transaction, where alone the mode may change
        try:
            connection.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()

    # -- transactions

    def write(self, change: Callable[[sa.Connection], T]) -> T:
        """Run ``change`` in one writing transaction, again when others were in the way; all or nothing."""

        def attempt() -> T:
            with self._write.begin() as connection:
                return change(connection)

        with engine.one_line(self.url, "write to"):
            return self._keep_trying(attempt)

    def _keep_trying(self, attempt: Callable[[], T]) -> T:
        for tried in range(1, _TRIES):
            try:
                return attempt()
            except DBAPIError as error:
                if not engine.busy(error):
                    raise
                time.sleep(0.05 * 2**tried)
        return attempt()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Open one consistent view of the database, for reading."""
        with engine.one_line(self.url, "read"), self.engine.connect() as connection:
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
            if connection.execute(new, columns).first() is None:
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

    def missing(self, name: str) -> UsageError:
        """Return the error for a search that does not exist."""
        return unknown("search", name, self.names(), ResultsError)
