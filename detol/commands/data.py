"""``detol data``: what is understood of a data set, and packing it into one file."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from detol.commands.common import Header, Json, Resize, Variables, data_options, print_json

app = typer.Typer(help="Look at data sets, and pack them.", no_args_is_help=True)

Target = Annotated[str | None, typer.Option("--target", help="Column that is predicted: a name, or last.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="data.KEY=VALUE, e.g. data.kind=signal.")]


@app.callback()
def group() -> None:
    """Look at data sets, and pack them."""


@app.command("describe")
def describe(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A built-in name or a path.")],
    target: Target = None,
    header: Header = None,
    resize: Resize = None,
    variables: Variables = None,
    set_: Set = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also what data sets are compared by: figures, scores of probe networks.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what was understood: kind, shapes, classes, balance, missing values, splits, content hash."""
    from detol import config
    from detol.prepare import read_data

    options = config.parse_sets(set_ or [])
    options.setdefault("data", {}).update(data_options(header, resize, variables))
    dataset = read_data(config.settings(None, options, data=path, target=target))
    described = dataset.describe()
    if figures:
        from detol import warming

        found = warming.described(dataset)
        described |= {"figures": dict(found.figures), "probes": dict(found.probes)}
    _show(described, as_json)


@app.command("pack")
def pack(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder of images, HDF5, NetCDF, CSV, Parquet, npz.")],
    to: Annotated[Path, typer.Option("--to", help="The file to write, *.pack.")],
    target: Target = None,
    header: Header = None,
    resize: Resize = None,
    variables: Variables = None,
    set_: Set = None,
    encoded: Annotated[
        bool, typer.Option("--encoded", help="Keep images as they are in their files; decode them when read.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a data set, read and split, into one file that is mapped into memory: --data FILE.pack then reads it.

    Its digest is that of the source, so results are shared. Sources may be larger than memory: they are read block by
    block (a table: one column at a time). Splits, seed and sizes stay as they are here.
    """
    from detol import config
    from detol.commands.counter import Counter
    from detol.errors import UsageError
    from detol.workers.data.packed.make import pack as write

    options = config.parse_sets(set_ or [])
    strange = next((section for section in options if section != "data"), None)
    if strange is not None:
        raise UsageError(f"packing is set by data.KEY=VALUE alone, got {strange}.{next(iter(options[strange]))}")
    given: dict[str, Any] = {**options.get("data", {}), **data_options(header, resize, variables)}
    if target is not None:
        given["target"] = target
    with Counter("packing", "samples") as counter:
        made = write(path, to, encoded=encoded, replace=replace, progress=counter, **given)
    _show(_facts(made), as_json)


@app.command("verify")
def verify(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A packed file.")],
    quick: Annotated[bool, typer.Option("--quick", help="Do not decode images that stayed encoded.")] = False,
    as_json: Json = False,
) -> None:
    """Check the arrays of a packed file against their hashes, and its data set against its digest.

    A search checks the arrays too, once while a file stays the same.
    """
    from detol.commands.counter import Counter
    from detol.workers.data.packed.verify import verify as check

    with Counter("verifying", "bytes") as counter:
        _show(check(path, decode=not quick, progress=counter), as_json)


def _facts(made: Any) -> dict[str, Any]:
    dataset = made.dataset()
    return {
        "file": str(made.path),
        "bytes": made.path.stat().st_size,
        "hash": made.header.hash,
        "digest": dataset.digest,
        "kind": dataset.kind,
        "shape": list(dataset.shape),
        "splits": {name: len(part) for name, part in dataset.splits().items()},
        "encoded": made.header.images is not None,
    }


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        if value not in (None, [], {}, ""):
            typer.echo(f"{key.replace('_', ' ') + ':':<15}{_text(value)}")


def _text(value: object) -> str:
    if isinstance(value, dict):
        parts = [f"{key}: {_text(part)}" for key, part in value.items()]
        more = f" ... ({len(parts)} in all)" if len(parts) > 12 else ""
        return ", ".join(parts[:12]) + more
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], str) and len(value) > 2 and any(" " in str(part) for part in value):
            return "\n".join(map(str, value))
        return (
            " x ".join(map(str, value))
            if all(isinstance(part, int) for part in value)
            else ", ".join(map(_text, value))
        )
    return value if isinstance(value, str) else json.dumps(value)
