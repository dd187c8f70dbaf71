"""Exports of a real database (that of schema 0001) and ways to damage them."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from detol.results.exchange.transfer import export
from detol.results.store import Database

DUMP = Path(__file__).parents[1] / "data" / "schema_0001.sql.gz"
KINDS = ("x.json", "x.json.gz", "x.parquet", "folder")


@pytest.fixture(scope="session")
def first_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of schema 0001, brought up to date: eight searches of the digits, 52 trials."""
    path = tmp_path_factory.mktemp("first") / "first.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(gzip.decompress(DUMP.read_bytes()).decode())
        raw.commit()
    Database(path).close()
    return path


@pytest.fixture(scope="session")
def exports(first_database: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("exports")
    with Database(first_database) as database:
        for kind in KINDS:
            export(database, folder / kind)
    return {kind: folder / kind for kind in KINDS}


@pytest.fixture
def given(first_database: Path, tmp_path: Path) -> Path:
    """A copy of the first database."""
    with closing(sqlite3.connect(first_database)) as raw, closing(sqlite3.connect(tmp_path / "given.db")) as copy:
        raw.backup(copy)
    return tmp_path / "given.db"


@pytest.fixture
def edited(exports: dict[str, Path], tmp_path: Path) -> Callable[[Callable[[Any], object]], Path]:
    """Write the JSON export again after a change to its document."""

    def edit(change: Callable[[Any], object]) -> Path:
        document = json.loads(exports["x.json"].read_text())
        change(document)
        (tmp_path / "edited.json").write_text(json.dumps(document))
        return tmp_path / "edited.json"

    return edit


@pytest.fixture
def copied(exports: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    def copy(kind: str) -> Path:
        source = exports[kind]
        to = tmp_path / "copied" / kind
        to.parent.mkdir(exist_ok=True)
        return Path(shutil.copytree(source, to) if source.is_dir() else shutil.copy(source, to))

    return copy
