"""``detol results``: questions to the results database."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from detol.commands import exchange, similar
from detol.commands.common import Csv, Db, Json, print_json, print_rows, query

app = typer.Typer(help="Ask the results database.", no_args_is_help=True)

Ref = Annotated[
    str, typer.Argument(metavar="NAME|TRIAL|DIGEST", help="SEARCH/NUMBER; or a search or digest: its best.")
]
Data = Annotated[str | None, typer.Option("--data", help="Only on this data set (name or digest).")]
Space = Annotated[str | None, typer.Option("--space", help="Only from this space.")]
Search = Annotated[str | None, typer.Option("--search", help="Only of this search.")]

TOP = (
    "trial",
    "value",
    "mean",
    "spread",
    "n",
    "source",
    "params",
    "multiply_adds",
    "epoch",
    "state",
    "origin",
    "inherited",
    "space",
    "data",
    "digest",
)
LINE = ("generation", "trial", "parents", "origin", "state", "value", "digest")


@app.command("top")
def top(
    data: Data = None,
    space: Space = None,
    search: Search = None,
    limit: Annotated[int, typer.Option("--limit", help="Rows at most.")] = 10,
    metric: Annotated[str | None, typer.Option("--metric", help="METRIC[:min|max] to rank by.")] = None,
    db: Db = "",
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Print the best trials: one row for each topology, recipe and data set.

    By the mean over the trainings (seeds) of each; the row names the best of them. ``spread``: standard deviation.
    """
    with query(db) as asked:
        rows = asked.top(data, space, search, limit, metric)
    shown = [{**vars(row), "digest": row.digest[:15]} for row in rows] if not (as_json or as_csv) else rows
    columns = _telling(TOP, rows)
    print_rows(shown, as_json=as_json, as_csv=as_csv, columns=columns, empty="no trial has a score yet")


@app.command("front")
def front(
    objective: Annotated[list[str] | None, typer.Option("--objective", help="METRIC[:min|max]; repeat.")] = None,
    data: Data = None,
    space: Space = None,
    search: Search = None,
    db: Db = "",
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Print the trials that none beats in all objectives at once (default: score and parameters)."""
    with query(db) as asked:
        rows = asked.front(objective or ("score", "params"), data, space, search)
    if as_json:
        print_json(rows)
        return
    shown = _telling(("spread", "n", "inherited", "source", "space", "data", "digest"), rows)
    flat = [{"trial": row.trial, **row.values, **{name: getattr(row, name) for name in shown}} for row in rows]
    print_rows(flat, as_json=False, as_csv=as_csv, empty="no trial has a score yet")


def _telling(columns: Sequence[str], rows: Sequence[Any]) -> tuple[str, ...]:
    """Return the columns without those that would say nothing: of seeds where each was trained once, and the like."""
    several = any(row.n > 1 for row in rows)
    silent = {"mean", "spread"} if not several else set()
    silent |= {name for name in ("inherited", "source") if not any(getattr(row, name) for row in rows)}
    return tuple(name for name in columns if name not in silent)


@app.command("curve")
def curve(ref: Ref, db: Db = "", as_json: Json = False, as_csv: Csv = False) -> None:
    """Print the learning curve of a trial."""
    with query(db) as asked:
        rows = asked.curve(ref)
    if as_json or as_csv:
        print_rows(rows, as_json=as_json, as_csv=as_csv)
        return
    flat = [{"epoch": row.epoch, **row.metrics, "seconds": row.seconds} for row in rows]
    print_rows(flat, as_json=False, title=ref, empty=f"{ref} has no reports yet")


@app.command("show")
def show(ref: Ref, data: Data = None, db: Db = "", as_json: Json = False, as_csv: Csv = False) -> None:
    """Print everything about a trial: decisions, cost, curve, recipe, other trainings of the same topology.

    As CSV: its facts in one row (for the curve see ``curve --csv``; the topology is in ``--json`` alone).
    """
    with query(db) as asked:
        shown = asked.show(ref, data)
    if as_json:
        print_json(shown)
        return
    if as_csv:
        print_rows([_flat(shown)], as_json=False, as_csv=True)
        return
    from detol.dashboards.tables import console
    from detol.dashboards.trial import show_trial

    show_trial(console(), {**shown, "width": _width(shown)})


def _width(shown: Mapping[str, Any]) -> Any:
    """Return the ranks of a trial, with those that died on the way."""
    from detol.results.browse import ranks_lost

    lost = ranks_lost(shown["extra"])
    told = [f"{name.replace('_', ' ')}: {value}" for name, value in lost.items() if value not in ("", None)]
    return f"{shown['width']} ({', '.join(told)})" if told else shown["width"]


def _flat(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a trial as one row: a column for each fact, nested ones as ``data_name`` ... .

    The columns are the same for all trials of a database; decisions differ by space and stay JSON in their cell.
    """
    from detol.results.rank import COSTS

    apart = ("cost", "curve", "data", "extra", "others", "recipe", "topology", "warm_sources")
    row = {key: value for key, value in shown.items() if key not in apart}
    cost = shown["cost"] or dict.fromkeys(COSTS)
    nested = (("cost", cost), ("data", shown["data"]), ("recipe", shown["recipe"]))
    return row | {f"{part}_{key}": value for part, facts in nested for key, value in facts.items()}


@app.command("lineage")
def lineage(ref: Ref, db: Db = "", as_json: Json = False, as_csv: Csv = False) -> None:
    """Print a trial and its ancestors."""
    with query(db) as asked:
        rows = asked.lineage(ref)
    print_rows(rows, as_json=as_json, as_csv=as_csv, columns=LINE)


@app.command("stats")
def stats(db: Db = "", as_json: Json = False, as_csv: Csv = False) -> None:
    """Print the totals of the database: trials by state, epochs, seconds, what reuse and stopping saved."""
    with query(db) as asked:
        totals = asked.stats()
    if as_json:
        print_json(totals)
    else:
        print_rows(
            [{"what": key.replace("_", " "), "value": value} for key, value in totals.items()],
            as_json=False,
            as_csv=as_csv,
        )


@app.command("audit")
def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the search.")],
    stop: Annotated[str | None, typer.Option("--stop", help="Another rule than the search had, with defaults.")] = None,
    orders: Annotated[int, typer.Option("--orders", help="Random orders of arrival to replay in.")] = 100,
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Replay the stopping rule of a search: what it saved, and what it cost (late bloomers)."""
    from detol import wire

    with wire.database(db, create=False) as database:
        found = wire.audit(database.open_search(name, lock=False), stop=stop, orders=orders)
    if as_json:
        print_json(found)
        return
    for line in found.lines():
        typer.echo(line)


@app.command("sql")
def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="One SQL statement that reads.")],
    db: Db = "",
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Run one read-only SQL statement."""
    with query(db) as asked:
        answer = asked.sql(statement)
    print_rows(answer.dicts(), as_json=as_json, as_csv=as_csv, empty="no rows")


app.command("similar")(similar.similar)
app.command("export")(exchange.export)
app.command("import")(exchange.import_)
app.command("merge")(exchange.merge)
app.command("import-table")(exchange.import_table)
app.command("verify")(exchange.verify)
