"""``detol export``: the best network, to take away."""

from pathlib import Path
from typing import Annotated

import typer

from detol.commands.common import Db, Json, print_json


def export(
    ref: Annotated[
        str, typer.Argument(metavar="NAME|TRIAL|DIGEST", help="SEARCH/NUMBER; or a search or digest: its best.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Directory to write; new, or empty.")],
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="onnx, torch; repeat, or join by commas.")
    ] = None,
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Export a trained network: weights, topology (JSON, SVG), ONNX checked against torch on real inputs."""
    from detol import handover

    names = [part for given in formats or () for part in given.split(",") if part]
    say = lambda text: typer.echo(text, err=True)  # noqa: E731  a short name for a long call
    manifest = handover.export_trial(ref, to, names, db=db, say=say)
    if as_json:
        print_json(manifest)
        return
    typer.echo(f"{ref} ({manifest['digest'][:19]}) exported to {to}:")
    for path in sorted(to.rglob("*")):
        if path.is_file():
            typer.echo(f"  {path.relative_to(to)}  {path.stat().st_size:,} bytes")
    checks = manifest["checks"]
    if "onnx" in checks:
        typer.echo(
            f"onnxruntime against torch on {checks['samples']} validation samples: "
            f"largest difference {checks['onnx']['max_difference']:.1e} (tolerance {checks['tolerance']:.0e})"
        )
