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
    """Print rows (all with the same keys) as a table; numbers to the right, text as it is, never as markup."""
    if not rows:
        console.print(escape(empty))
        return
    table = Table(title=escape(title) or None, box=SIMPLE_HEAD, title_justify="left", header_style="bold")
    for key in rows[0]:
        number = all(isinstance(row[key], int | float) or row[key] is None for row in rows)
        table.add_column(escape(key.replace("_", " ")), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(value)) for value in row.values()))
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
