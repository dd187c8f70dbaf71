"""``detol results export|import|merge|import-table|verify``: results that travel, and whether they are sound."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detol.commands.common import Csv, Db, Json, print_json, print_rows

if TYPE_CHECKING:
    from detol.results.exchange.admit import Outcome

Source = Annotated[str, typer.Option("--source", help="Who the results are from; they are shown as theirs.")]
Option = typer.Option


def export(
    to: Annotated[Path, Option("--to", help="FILE.json[.gz], FILE.parquet, or a folder for Parquet files.")],
    search: Annotated[list[str] | None, Option("--search", help="Only this search; repeat.")] = None,
    data: Annotated[str | None, Option("--data", help="Only on this data set (name or digest).")] = None,
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Write results with all that they stand on: data sets, recipes, topologies, searches, trials, reports.

    Of other searches the trials that answered for these come along.
    """
    from detol import wire
    from detol.errors import UsageError
    from detol.results.exchange.select import Selection
    from detol.results.exchange.transfer import export as write

    if search and data:
        raise UsageError("results are chosen by --search or by --data, got both: give one of them")
    with wire.database(db, create=False) as database:
        done = write(database, to, Selection(tuple(search or ()), data))
    if as_json:
        print_json(done)
    else:
        typer.echo(
            f"{done.path}: {done.searches} searches, {done.trials} trials, {done.reports} reports, "
            f"{done.topologies} topologies, {done.bytes / 1e6:.1f} MB"
        )


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What detol results export wrote: a file or a folder.")],
    source: Source,
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Import another person's results: reused as your own, shown as theirs; again: only what is new."""
    from detol.results.exchange.transfer import import_file

    _tell(import_file(_place(db), path, source), as_json)


def merge(
    other: Annotated[str, typer.Argument(metavar="OTHER_DB", help="Path or URL of another results database.")],
    source: Annotated[str, Option("--source", help="Whose it is (default: its file's name).")] = "",
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Import all of another results database, which stays as it is."""
    from detol.results.exchange.transfer import merge as join

    _tell(join(_place(db), other, source), as_json)


def import_table(
    path: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV file with a row for each topology.")],
    space: Annotated[str, Option("--space", help="Search space: a name, or FILE.py that declares one.")],
    objective: Annotated[
        list[str], Option("--objective", help="[DATA=]COLUMN[:min][*FACTOR] of scores on a data set; repeat.")
    ],
    recipe: Annotated[str, Option("--recipe-name", help="Name of how the networks were trained.")],
    source: Annotated[str, Option("--source", help="Who published it.")],
    epochs: Annotated[int, Option("--epochs", help="Epochs of each training.")],
    key: Annotated[str, Option("--key", help="Column that names the topology (else one for each decision).")] = "",
    cost: Annotated[list[str] | None, Option("--cost", help="[DATA=]COLUMN[*FACTOR]: seconds of a training.")] = None,
    params: Annotated[str, Option("--params", help="COLUMN[*FACTOR]: parameters of the network.")] = "",
    metric: Annotated[str, Option("--metric", help="What the scores are called here (default: as COLUMN).")] = "",
    name: Annotated[str, Option("--name", help="Name of the search (default: of the file and the data set).")] = "",
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Import a table of published results: a search for each column of scores, a trial for each row."""
    from detol.published import import_table as read

    outcome = read(
        db, path, space, objective, recipe=recipe, source=source, epochs=epochs, key=key, costs=cost or (),
        params=params, metric=metric, name=name,
    )  # fmt: skip
    _tell(outcome, as_json)


def verify(db: Db = "", as_json: Json = False, as_csv: Csv = False) -> None:
    """Check the database: digests, keys, curves against scores. Exit code 1 when something is wrong."""
    from detol import wire
    from detol.results.verify import verify as check

    with wire.database(db, create=False) as database:
        found = check(database)
    if as_json:
        print_json({"checked": found.checked, "faults": found.faults})
    else:
        counted = ", ".join(f"{number} {what}" for what, number in found.checked.items())
        print_rows(found.faults, as_json=False, as_csv=as_csv, empty=f"all is sound: {counted}")
    if found.faults:
        raise typer.Exit(1)


def _place(db: str) -> str:
    from detol.config import runs_directory

    return db or str(runs_directory() / "results.db")


def _tell(outcome: "Outcome", as_json: bool) -> None:
    if as_json:
        print_json(outcome)
        return
    facts = asdict(outcome)
    typer.echo(
        f"from {facts['source']}: {facts['added']} trials added, {facts['updated']} brought up to date, "
        f"{facts['known']} were here; {facts['new_searches']} new searches, {facts['topologies']} new topologies"
    )
    if facts["conflicts"]:
        typer.echo(
            f"{facts['conflicts']} of them have another score than a training here with the same topology, recipe, "
            "data, epochs and seed: both are kept"
        )
    for name in facts["searches"]:
        typer.echo(f"  {name}")
