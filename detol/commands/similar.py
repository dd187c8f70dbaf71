"""``detol results similar``: the tried topologies that are nearest to one."""

import sys
from typing import Annotated

import typer

from detol.commands.common import Csv, Db, Json, print_rows

SIMILAR = ("similarity", "digest", "trial", "metric", "value", "mean", "n", "state", "space", "data")


def similar(
    ref: Annotated[str, typer.Argument(metavar="DIGEST|TRIAL|NAME", help="A topology; or a search: its best.")],
    data: Annotated[str | None, typer.Option("--data", help="Only what was scored on this data set.")] = None,
    space: Annotated[str | None, typer.Option("--space", help="Only from this space.")] = None,
    by: Annotated[
        str, typer.Option("--by", help="What is compared: features (read from the graph) or svge (a learned encoder).")
    ] = "features",
    limit: Annotated[int, typer.Option("--limit", help="Topologies at most.")] = 10,
    db: Db = "",
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Print the scored topologies nearest to one, with their scores; 1 is the same, 0 has nothing in common."""
    from detol import wire
    from detol.embedding.embedders import embedder
    from detol.results.similarity import similar as nearest

    chosen = embedder(by)
    with wire.database(db, create=False) as database:
        rows = nearest(database, ref, chosen, data=data, space=space, limit=limit, progress=_progress)
    shown = rows
    if not (as_json or as_csv):
        shown = [{**vars(row), "digest": row.digest[:15], "similarity": round(row.similarity, 4)} for row in rows]  # type: ignore[misc]
    print_rows(shown, as_json=as_json, as_csv=as_csv, columns=SIMILAR, empty="no other topology has a score yet")


def _progress(done: int, of: int) -> None:
    if of > 1000 or sys.stderr.isatty():
        print(f"embedding topologies: {done:,} of {of:,}", end="\n" if done == of else "\r", file=sys.stderr)  # noqa: T201
