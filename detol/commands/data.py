"""``detol data``: what is understood of a data set."""

import json
from typing import Annotated

import typer

from detol.commands.common import Header, Json, Resize, Variables, data_options, print_json

app = typer.Typer(help="Look at data sets.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Look at data sets."""


@app.command("describe")
def describe(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A built-in name or a path.")],
    target: Annotated[str | None, typer.Option("--target", help="Column that is predicted: a name, or last.")] = None,
    header: Header = None,
    resize: Resize = None,
    variables: Variables = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="data.KEY=VALUE, e.g. data.kind=signal.")] = None,
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
    if as_json:
        print_json(described)
        return
    for key, value in described.items():
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
