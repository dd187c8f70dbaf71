"""What travels between databases: searches with their trials and curves, and what those stand on.

A bundle is read search by search, so that no more than one search is held as rows at a time. Rows are dictionaries by
the names of the columns; structured values are JSON text as in the database. What belongs to one place alone does not
travel: ids, who runs a search, where its weights lie.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import sqlalchemy as sa

from detol.errors import ResultsError
from detol.results.rules import whole
from detol.results.schema import REVISIONS, data_sets, recipes, reports, searches, steps, topologies, trials

FORMAT = "detol-results"
VERSION = 1
MANIFEST = "manifest.json"
"""What a folder that holds an export is known by."""

Row: TypeAlias = dict[str, Any]

_LOCAL = {
    "searches": ("id", "host", "pid", "owner", "heartbeat"),
    "trials": ("search", "weights"),
    "reports": ("search", "number"),
    "steps": ("search", "number"),
}
COLUMNS: Mapping[str, tuple[sa.Column[Any], ...]] = {
    table.name: tuple(column for column in table.columns if column.name not in _LOCAL.get(table.name, ()))
    for table in (data_sets, recipes, topologies, searches, steps, trials, reports)
}
"""The columns of each table that travel, by its name."""

STRUCTURED = frozenset(
    {
        *("shape", "description", "body", "settings", "options", "objectives", "versions", "provenance"),
        *("decisions", "scores", "extra", "metrics", "told"),
    }
)
"""Columns whose text is JSON."""


class Bundle(Protocol):
    """Searches and what they stand on, from a file or a database."""

    @property
    def where(self) -> str:
        """What a person calls it."""
        ...

    @property
    def header(self) -> Mapping[str, Any]:
        """Format, version, schema, detol, exported (UTC)."""
        ...

    @property
    def data_sets(self) -> Sequence[Row]:
        """Rows."""
        ...

    @property
    def recipes(self) -> Sequence[Row]:
        """Rows."""
        ...

    @property
    def searches(self) -> Sequence[Row]:
        """Rows, each with ``steps`` (rows) beside its columns."""
        ...

    def topologies(self) -> Iterator[Row]:
        """Yield the topologies, each once."""
        ...

    def trials(self, uid: str) -> list[Row]:
        """Return the trials of a search, each with ``parents`` (numbers) and ``reports`` (rows) beside its columns."""
        ...


@dataclass(frozen=True)
class ListBundle:
    """A bundle in memory; ``of`` are the trials by the uid of their search."""

    where: str
    header: Mapping[str, Any]
    data_sets: Sequence[Row]
    recipes: Sequence[Row]
    searches: Sequence[Row]
    forms: Sequence[Row] = ()
    of: Mapping[str, list[Row]] = field(default_factory=dict)

    def topologies(self) -> Iterator[Row]:
        """Yield the topologies."""
        yield from self.forms

    def trials(self, uid: str) -> list[Row]:
        """Return the trials of a search."""
        return self.of.get(uid, [])


def check_header(header: object, where: str) -> Mapping[str, Any]:
    """Return the header of a file.

    Raises:
        ResultsError: it was not written by ``detol results export``, or by a later one, or with a schema of its own.
    """
    if not isinstance(header, Mapping) or header.get("format") != FORMAT:
        raise ResultsError(f"{where} is no export of results: write one with detol results export --to {where}")
    if header.get("version") != VERSION:
        raise ResultsError(
            f"{where} has version {header.get('version')!r} of the format, this detol reads {VERSION}: "
            f"update detol ({_written(header)})"
        )
    if header.get("schema") not in REVISIONS:
        raise ResultsError(
            f"{where} has schema {str(header.get('schema'))[:40]!r}, this detol knows up to {REVISIONS[-1]}: "
            f"update detol, or export it again ({_written(header)})"
        )
    return header


def _written(header: Mapping[str, Any]) -> str:
    return f"it was written by {escaped(str(header.get('detol') or 'an unknown one'))[:40]}"


def escaped(text: str) -> str:
    """Return text in one printable line: what is not printable (what a library's error said) as an escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def typed(row: object, table: str, where: str) -> Row:
    """Return the columns of a row that travel; one that is missing takes its default.

    Raises:
        ResultsError: no mapping, a column without a default that is missing, or a value of another type.
    """
    if not isinstance(row, Mapping):
        raise ResultsError(f"{where}: a row of {table} is an object, got {type(row).__name__}")
    found: Row = {}
    for column in COLUMNS[table]:
        value = row.get(column.name)
        if value is None:
            if not column.nullable:
                value = _default(column, table, where)
        elif not _fits(value, column):
            raise ResultsError(
                f"{where}: {table}.{column.name} is of type {column.type.python_type.__name__}, got {repr(value)[:60]}"
            )
        elif isinstance(value, str) and not _storable(value):
            raise ResultsError(f"{where}: {table}.{column.name} holds characters that no text has, got {value!r}"[:300])
        found[column.name] = value
    return found


def _storable(text: str) -> bool:
    """Return whether every database can hold a text: no NUL, no half of a surrogate pair."""
    return "\x00" not in text and (text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text))


def _default(column: sa.Column[Any], table: str, where: str) -> Any:
    given = column.server_default
    if not isinstance(given, sa.DefaultClause):
        raise ResultsError(f"{where}: a row of {table} has no {column.name!r}: the file is damaged, export it again")
    return column.type.python_type(str(given.arg))


def _fits(value: object, column: sa.Column[Any]) -> bool:
    kind = column.type.python_type
    if kind is float:
        return isinstance(value, float) or (
            isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
        )
    if kind is int:
        return whole(value, -(2**63))
    return isinstance(value, kind)
