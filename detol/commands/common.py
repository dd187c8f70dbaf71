"""What commands share: options, and how they print."""

import csv
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

Db = Annotated[str, typer.Option("--db", help="Results database: a path or URL (default: ./detol-runs/results.db).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")]


def print_json(value: Any) -> None:
    """Print one JSON document on standard output; numbers that JSON lacks become ``null``."""
    print(json.dumps(finite(value), indent=2, default=str))  # noqa: T201


def finite(value: Any) -> Any:
    """Return a value with non-finite numbers replaced by ``None``: JSON has none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
    as_csv: bool = False,
    title: str = "",
    empty: str = "nothing there",
) -> None:
    """Print rows as a table, as JSON, or as CSV."""
    if as_json:
        print_json(list(rows))
    elif as_csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()} for row in rows
        )
        sys.stdout.write(text.getvalue())
    else:
        from rich.console import Console

        from detol.dashboards.tables import show

        show(Console(), rows, title=title, empty=empty)
