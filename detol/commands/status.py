"""``detol status``: where searches stand."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detol.commands.common import Csv, Db, Json, print_json, print_rows, query

if TYPE_CHECKING:
    from detol.results.query import SearchRow

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


def _saved(row: "SearchRow") -> Iterator[str]:
    """Yield what reuse and early stopping saved, where they did."""
    if row.trainings_saved or row.continued:
        gone_on = f", {row.continued} more went on from a checkpoint" if row.continued else ""
        yield (
            f"reuse saved {row.trainings_saved} trainings{gone_on}: {row.epochs_saved} epochs, "
            f"{row.seconds_saved:,.1f} device seconds"
        )
    if row.trainings_spared:
        yield (
            f"early stopping ended {row.trainings_spared} trials: {row.epochs_spared} epochs left out, about "
            f"{row.seconds_spared:,.1f} device seconds"
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
        warm = asked.warm_sources(name) if name else []
    columns = (*COLUMNS, "source") if any(row.source for row in rows) else COLUMNS
    if not name or as_csv:
        print_rows(
            rows, as_json=as_json, as_csv=as_csv, columns=columns, empty="no search yet: detol search --data digits"
        )
    elif as_json:
        print_json({**vars(rows[0]), "warm_sources": warm})
    else:
        from detol.results.savings import Savings

        facts: list[dict[str, Any]] = [
            {"": key.replace("_", " "), "value": value}
            for key, value in vars(rows[0]).items()
            if value not in ("", None) and key not in vars(Savings())
        ]
        print_rows(facts, as_json=False)
        for line in _saved(rows[0]):
            typer.echo(line)
        for source in warm:
            typer.echo(
                f"began with {source['records']} records of {', '.join(source['searches'])} on "
                f"{source.get('data_name') or source['data']} (weight {source['weight']:.2f})"
            )
        if rows[0].state == "interrupted":
            typer.echo(f"go on with: detol resume {name}{f' --db {db}' if db else ''}")
