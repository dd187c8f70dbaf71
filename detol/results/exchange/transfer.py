"""Exporting, importing and merging, as the command line and other people's code call them."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from detol.errors import ResultsError, UsageError
from detol.results import engine
from detol.results.exchange.admit import Outcome, admit, check_source
from detol.results.exchange.bundle import MANIFEST, Bundle, Row
from detol.results.exchange.check import check
from detol.results.exchange.select import DatabaseBundle, Selection
from detol.results.schema import REVISIONS, topologies
from detol.results.store import Database

SUFFIXES = (".json", ".json.gz", ".parquet")


@dataclass(frozen=True)
class Exported:
    """What was written: the place, ``json``, ``parquet`` or ``folder``, and how many of each."""

    path: str
    format: str
    searches: int
    trials: int
    reports: int
    topologies: int
    bytes: int


def export(database: Database, to: Path, which: Selection | None = None) -> Exported:
    """Write results to a file or a folder, whole or not at all.

    Args:
        database: to read.
        to: ``FILE.json``, ``FILE.json.gz``, ``FILE.parquet``, or a folder of Parquet files (a name without a suffix).
            An earlier export there is replaced.
        which: which searches; by default all.

    Raises:
        ResultsError: no search or data set of that name.
        UsageError: another suffix, or a place that cannot be written or holds something else.
    """
    kind = _kind(to, new=True)
    with database.read() as connection:
        bundle = _Counted(DatabaseBundle(connection, engine.shown(database.url), which))
        with _whole(to) as scratch:
            if kind == "json":
                from detol.results.exchange import json_file

                json_file.write(bundle, scratch)
            else:
                from detol.results.exchange import parquet_files

                if kind == "folder":
                    scratch.mkdir()
                (parquet_files.write_folder if kind == "folder" else parquet_files.write_file)(bundle, scratch)
    size = sum(file.stat().st_size for file in (to.rglob("*") if to.is_dir() else [to]))
    return Exported(str(to), kind, len(bundle.searches), bundle.counted, bundle.reports, bundle.forms, size)


def read(path: Path) -> Bundle:
    """Return the bundle in a file or folder.

    Raises:
        ResultsError: there is none, it is damaged, or it is of another kind.
    """
    if not path.exists():
        raise ResultsError(f"there is no file or folder {str(path)!r} to import: detol results export --to writes one")
    kind = _kind(path, new=False)
    if kind == "json":
        from detol.results.exchange import json_file

        return json_file.read(path)
    from detol.results.exchange import parquet_files

    return parquet_files.FolderBundle(path) if kind == "folder" else parquet_files.FileBundle(path)


def import_file(where: str | Path, path: Path, who: str) -> Outcome:
    """Import an export into a database (its path or URL), which is made if there is none.

    Raises:
        ResultsError: a file that is damaged or breaks a rule; nothing is written then, no database made.
        UsageError: ``who`` is no name of a source.
    """
    check_source(who)
    bundle = read(path)
    url = engine.address(where)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        check(bundle)
        with Database(where) as database:
            return admit(database, bundle, who)
    with Database(where) as database:
        check(bundle, _known(database))
        return admit(database, bundle, who)


def merge(where: str | Path, other: str | Path, who: str = "") -> Outcome:
    """Import all of another database (its path or URL), which is left as it is, into a database.

    Args:
        where: path or URL of the database that takes the results.
        other: path or URL of the database that gives them.
        who: whose it is; by default its file's or its name without a suffix.

    Raises:
        ResultsError: one of them cannot be opened, or ``other`` breaks a rule; nothing is written then.
    """
    url = engine.address(other)
    who = check_source(who or Path(str(url.database)).stem)
    with _opened(other) as giving, giving.read() as reading:
        bundle = DatabaseBundle(reading, engine.shown(url))
        with Database(where) as database:
            check(bundle, _known(database))
            return admit(database, bundle, who)


def _known(database: Database) -> Callable[[str], str | None]:
    """Return the digests that were checked before, by the key of the topology."""
    with database.read() as connection:
        query = sa.select(topologies.c.key, topologies.c.digest)
        return {str(key): str(digest) for key, digest in connection.execute(query)}.get


@contextmanager
def _opened(other: str | Path) -> Iterator[Database]:
    """Open a database that is only read: one of an older schema as a copy, so that it is not migrated."""
    url = engine.address(other)
    if url.get_backend_name() != "sqlite":
        with Database(other, create=False, migrate=False) as found:
            yield found
        return
    path = Path(str(url.database))
    if not path.is_file() or engine.sqlite_revision(url) == REVISIONS[-1]:
        with Database(other, create=False) as found:
            yield found
        return
    folder = Path(tempfile.mkdtemp(prefix="detol-merge-"))
    try:
        with engine.one_line(url, "read"):
            engine.copy_sqlite(url, folder / path.name)
        with Database(folder / path.name) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kind(path: Path, *, new: bool) -> str:
    name = path.name.lower()
    if path.is_dir() or (new and not path.exists() and not path.suffix):
        return "folder"
    if name.endswith((".json", ".json.gz")):
        return "json"
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    raise UsageError(
        f"results travel as FILE.json, FILE.json.gz, FILE.parquet or a folder of Parquet files, got {str(path)!r}"
    )


@contextmanager
def _whole(to: Path) -> Iterator[Path]:
    """Give a place beside ``to`` that takes its place at the end; after an error nothing is left."""
    to = to.absolute()
    if to.is_dir() and any(to.iterdir()) and not (to / MANIFEST).is_file():
        raise UsageError(f"{str(to)!r} is a folder with something else in it: choose another --to")
    scratch = to.parent / f".{to.name}.{os.getpid()}.part"
    if to.suffix == ".gz":
        scratch = scratch.with_name(scratch.name + ".gz")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        yield scratch
        if to.is_dir():
            shutil.rmtree(to)
        scratch.replace(to)
    except OSError as error:
        raise UsageError(f"cannot write {str(to)!r}: {error.strerror or error}: choose another --to") from None
    finally:
        if scratch.is_dir():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


class _Counted:
    """A bundle that counts what is read of it."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.where, self.header = bundle.where, bundle.header
        self.data_sets, self.recipes, self.searches = bundle.data_sets, bundle.recipes, bundle.searches
        self.counted = self.reports = self.forms = 0

    def topologies(self) -> Iterator[Row]:
        """Yield the topologies."""
        for row in self._bundle.topologies():
            self.forms += 1
            yield row

    def trials(self, uid: str) -> list[Row]:
        """Return the trials of a search."""
        found = self._bundle.trials(uid)
        self.counted += len(found)
        self.reports += sum(len(trial["reports"]) for trial in found)
        return found
