"""Tables of results for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

PIPE_WIDTH = 180
"""Characters of a line where no terminal says how wide it is."""


def console() -> Console:
    """Return standard output, wide enough for tables also where it is not a terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(width=PIPE_WIDTH, highlight=False)


def show(console: Console, rows: Sequence[Mapping[str, Any]], *, title: str = "", empty: str = "nothing there") -> None:
    """Print rows as a table, nothing where one lacks a key; numbers to the right, text as it is, never as markup."""
    if not rows:
        console.print(escape(empty))
        return
    table = Table(title=escape(title) or None, box=SIMPLE_HEAD, title_justify="left", header_style="bold")
    keys = list(dict.fromkeys(key for row in rows for key in row))
    for key in keys:
        number = all(isinstance(row.get(key), int | float | None) for row in rows)
        table.add_column(escape(key.replace("_", " ")), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(row.get(key))) for key in keys))
    console.print(table)


def cell(value: Any) -> str:
    """Return one value as a person reads it: four decimals, thousands apart, nothing for ``None``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 1e5 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={cell(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return str(value)
