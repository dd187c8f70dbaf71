"""What commands share: options, and how they print."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from detol.results.query import Query

Db = Annotated[str, typer.Option("--db", help="Results database: a path or URL (default: ./detol-runs/results.db).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")]


Header = Annotated[str | None, typer.Option("--header", help="Of a CSV: auto, yes or none.")]
Resize = Annotated[str | None, typer.Option("--resize", help="HxW: bring the images of a folder to one size.")]
Variables = Annotated[
    list[str] | None, typer.Option("--variables", help="ROLE=NAME, e.g. x=images y=labels, of HDF5 and NetCDF; repeat.")
]


def data_options(header: str | None, resize: str | None, variables: list[str] | None) -> dict[str, Any]:
    """Return the ``data`` section of the settings from its flags.

    Raises:
        UsageError: a variable without a role.
    """
    from detol.errors import UsageError

    options: dict[str, Any] = {key: value for key, value in (("header", header), ("resize", resize)) if value}
    for pair in variables or ():
        role, equals, name = pair.partition("=")
        if not equals or not role or not name:
            raise UsageError(f"--variables takes ROLE=NAME, e.g. x=images, got {pair!r}")
        options.setdefault("variables", {})[role] = name
    return options


@contextmanager
def query(db: str) -> "Iterator[Query]":
    """Open the results database for questions; one that does not exist is an error, not made."""
    from detol import wire
    from detol.results.query import Query

    with wire.database(db, create=False) as database:
        yield Query(database)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output; numbers that JSON lacks become ``null``."""
    from detol.results.tables import plain

    print(json.dumps(plain(value), indent=2))  # noqa: T201


def print_rows(
    rows: Sequence[Any],
    *,
    as_json: bool,
    as_csv: bool = False,
    columns: Sequence[str] = (),
    title: str = "",
    empty: str = "nothing there",
) -> None:
    """Print rows (dataclasses or mappings, all alike) as a table, as JSON, or as CSV.

    ``columns`` are what the table shows; JSON and CSV hold everything.
    """
    if as_json:
        print_json(rows)
    elif as_csv:
        from detol.results.tables import to_csv

        sys.stdout.write(to_csv(rows))
    else:
        from detol.dashboards.tables import console as table_console
        from detol.dashboards.tables import show

        listed = [_mapping(row) for row in rows]
        show(table_console(), [{key: row[key] for key in columns or row} for row in listed], title=title, empty=empty)


def _mapping(row: Any) -> Mapping[str, Any]:
    return asdict(row) if is_dataclass(row) and not isinstance(row, type) else row
