"""``detol report``: one search as a self-contained HTML file, and its pictures as PNG."""

import time
from pathlib import Path
from typing import Annotated

import typer

from detol.commands.common import Db, Json, print_json, query


def report(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the search.")],
    to: Annotated[Path, typer.Option("--to", help="HTML file to write.")],
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="DIR|FILE", help="Also write the pictures as PNG: into DIR, or on one FILE.png."),
    ] = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Also put it among the search's artifacts in MLflow, as report.html.")
    ] = False,
    tracking: Annotated[
        str, typer.Option("--tracking", help="MLflow address for --attach (default: the search's).")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Write the report of a search: one HTML file that needs no network.

    Front with topologies, best so far beside random search, learning curves, which decisions matter, lineage, workers,
    savings, and what it takes to do the search again.
    """
    from detol import handover, reproduce
    from detol.dashboards.report.writer import write_report

    began = time.perf_counter()
    with query(db) as asked:
        written = write_report(asked, name, to, png=png, command=reproduce.of_search(asked, name), force=force)
    if attach:
        written = {**written, "attached": handover.attach_report(name, Path(written["path"]), db=db, tracking=tracking)}
    seconds = time.perf_counter() - began
    if as_json:
        print_json({**written, "seconds": round(seconds, 3)})
        return
    pictures = written["pictures"]
    more = f", and {len(pictures)} picture{'s' * (len(pictures) > 1)} in {png}" if pictures else ""
    typer.echo(f"report of {name}: {written['path']} ({written['bytes'] / 1e6:.1f} MB, {seconds:.1f} s){more}")
