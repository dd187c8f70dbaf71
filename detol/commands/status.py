"""``detol status``: where searches stand."""

from typing import Annotated, Any

import typer

from detol.commands.common import Csv, Db, Json, print_json, print_rows, query

COLUMNS = (
    "name",
    "state",
    "data",
    "space",
    "strategy",
    "trials",
    "budget",
    "trained",
    "reused",
    "paused",
    "value",
    "seconds",
    "created",
)


def status(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One search; otherwise all.")] = "",
    db: Db = "",
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show where all searches stand, or one."""
    with query(db) as asked:
        rows = [asked.status(name)] if name else asked.searches()
    if not name or as_csv:
        print_rows(
            rows, as_json=as_json, as_csv=as_csv, columns=COLUMNS, empty="no search yet: detol search --data digits"
        )
    elif as_json:
        print_json(rows[0])
    else:
        facts: list[dict[str, Any]] = [
            {"": key.replace("_", " "), "value": value}
            for key, value in vars(rows[0]).items()
            if value not in ("", None)
        ]
        print_rows(facts, as_json=False)
        if rows[0].state == "interrupted":
            typer.echo(f"go on with: detol resume {name}{f' --db {db}' if db else ''}")
