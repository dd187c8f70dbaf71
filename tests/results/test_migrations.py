"""The migrations lead from nothing to the schema, and to nothing else."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import detol.results.migrations.env
from detol.errors import ResultsError
from detol.results.migrations import configuration
from detol.results.schema import REVISIONS, VERSION_TABLE, metadata
from detol.results.store import Database


def test_the_scripts_are_the_released_revisions() -> None:
    scripts = ScriptDirectory.from_config(configuration())
    walked = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(walked)) == REVISIONS
    assert scripts.get_current_head() == REVISIONS[-1]


def test_head_from_empty_equals_the_schema(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as database, database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert context.get_current_revision() == REVISIONS[-1]
        assert compare_metadata(context, metadata) == []


def test_the_statements_are_the_same_too(database: Database, tmp_path: Path) -> None:
    """Defaults, the order of columns and the names of constraints: what compare_metadata does not look at."""
    other = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    metadata.create_all(other)
    with database.read() as migrated, other.connect() as created:
        found, expected = statements(migrated), statements(created)
    other.dispose()
    assert found == expected


def statements(connection: sa.Connection) -> dict[str, object]:
    """Columns in order with types and defaults, names of constraints, indexes; the text itself depends on its past."""
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    found: dict[str, object] = {}
    for kind, name, text in rows:
        if name != VERSION_TABLE:
            columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({name})").all()
            keys = connection.exec_driver_sql(f"PRAGMA foreign_key_list({name})").all()
            named = sorted(re.findall(r"CONSTRAINT (\w+)", text))
            found[name] = text if kind == "index" else (columns, keys, named)
    return found


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path, create = tmp_path / "r.db", op.create_table

    def create_some(name: str, *columns: sa.Column[object], **options: object) -> object:
        if name == "trials":
            raise sqlite3.OperationalError("disk I/O error")
        return create(name, *columns, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op, "create_table", create_some)
        with pytest.raises(ResultsError, match="disk I/O error"):
            Database(path)
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == []
    Database(path).close()


def test_an_up_to_date_database_is_not_migrated(tmp_path: Path) -> None:
    Database(tmp_path / "r.db").close()
    before = (tmp_path / "r.db").read_bytes()
    Database(tmp_path / "r.db").close()
    assert (tmp_path / "r.db").read_bytes() == before


def test_the_environment_runs_for_alembic_alone() -> None:
    assert callable(detol.results.migrations.env.run)  # importing it has run nothing
