"""``detol track``: the MLflow mirror."""

from dataclasses import asdict
from typing import Annotated

import typer

from detol.commands.common import Db, Json, print_json

app = typer.Typer(help="The MLflow mirror of searches.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Look after the MLflow mirror of searches."""


@app.command("sync")
def sync(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the search.")],
    db: Db = "",
    tracking: Annotated[str, typer.Option("--tracking", help="MLflow URI (default: as the search had it).")] = "",
    as_json: Json = False,
) -> None:
    """Write to MLflow what is missing there of a search; doing it twice adds nothing."""
    from detol import handover

    say = lambda text: typer.echo(text, err=True)  # noqa: E731  a short name for a long call
    synced = handover.synchronise(name, db=db, tracking=tracking, say=say)
    if as_json:
        print_json(asdict(synced))
    else:
        behind = f", {synced.behind} could not be written: {synced.warning}" if synced.behind else ""
        typer.echo(f"{name}: {synced.added} runs added, {synced.complete} were complete{behind}")
    if synced.behind:
        raise typer.Exit(1)
