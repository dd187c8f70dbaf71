"""``detol export``: the best network, to take away."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from detol.commands.common import Db, Json, print_json


def export(
    ref: Annotated[
        str, typer.Argument(metavar="NAME|TRIAL|DIGEST", help="SEARCH/NUMBER; or a search or digest: its best.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Directory to write; new, or empty.")],
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="onnx, torch, python, mlflow; repeat, or join by commas. [onnx,torch,python]"),
    ] = None,
    retrain: Annotated[
        int | None,
        typer.Option(
            "--retrain",
            min=1,
            help="Also train it from scratch on train plus validation with N seeds: mean and spread on the test split.",
        ),
    ] = None,
    with_data: Annotated[bool, typer.Option("--with-data", help="Also write data.npz, which train.py reads.")] = False,
    register: Annotated[
        str, typer.Option("--register", metavar="MODEL", help="Register in MLflow under this name, alias `best`.")
    ] = "",
    tracking: Annotated[
        str, typer.Option("--tracking", help="MLflow address for --register (default: the search's).")
    ] = "",
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Export a trained network; each file is run again on real inputs, and certificate.json says what was found."""
    from detol import handover

    names = [part.strip() for given in formats or () for part in given.split(",") if part.strip()]
    say = lambda text: typer.echo(text, err=True)  # noqa: E731  a short name for a long call
    certificate = handover.export_trial(
        ref,
        to,
        names,
        db=db,
        say=say,
        retrain=retrain or 0,
        with_data=with_data,
        register=register,
        tracking=tracking,
    )
    if as_json:
        print_json(certificate)
        return
    typer.echo(f"{certificate['trial']} ({certificate['digest'][:19]}) exported to {to}:")
    for path in sorted(to.iterdir()):
        size = sum(part.stat().st_size for part in ([path] if path.is_file() else path.rglob("*")) if part.is_file())
        typer.echo(f"  {path.name}{'/' if path.is_dir() else ''}  {size:,} bytes")
    for line in _evidence(certificate):
        typer.echo(line)


def _evidence(certificate: Mapping[str, Any]) -> list[str]:
    """Return what was found when the files were run again, one line for each format."""
    splits = certificate["network"]
    rows = " and ".join(f"{certificate['data']['splits'][name]:,} {name}" for name in splits)
    lines = [f"run again on {rows} samples:"]
    shown = {"network": {**splits, "latency": None}, **certificate["formats"]}
    for name, entry in shown.items():
        scores = "  ".join(f"{split} {key} {entry[split][key]:.4f}" for split in splits for key in splits[split])
        line = f"  {name:8} {scores}"
        if entry["latency"]:
            worst = max(entry[split]["max_difference"] for split in splits)
            line += f"  largest difference {worst:.1e}  {entry['latency']['batch_1']['median_ms']:.3g} ms a sample"
        lines.append(line)
    if "retrained" in certificate:
        found = certificate["retrained"]
        spread = f" +- {found['std']:.4f}" if found["std"] is not None else ""
        lines.append(
            f"trained from scratch with {len(found['seeds'])} seeds: {found['metric']} {found['mean']:.4f}{spread}"
        )
    if "registered" in certificate:
        lines.append(f"registered in MLflow as {certificate['registered']['uri']}")
    return lines
