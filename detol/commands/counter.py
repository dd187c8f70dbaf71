"""How far long work without a search is: a bar in a terminal, a line every ten seconds elsewhere."""

import math
import sys
import time
from types import TracebackType
from typing import Any

LINE_SECONDS = 10.0


class Counter:
    """Shows how much is done, at what rate, and how long it will take; called with (done, total). On standard error.

    Args:
        what: is done, e.g. ``packing``.
        unit: of the numbers, e.g. ``samples``.
    """

    def __init__(self, what: str, unit: str) -> None:
        self._what, self._unit = what, unit
        self._began = self._told = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Counter":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            rate = TextColumn("{task.fields[rate]}")
            columns = (TextColumn(self._what), BarColumn(), rate, TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=None, rate="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that so much of it is done."""
        now = time.monotonic()
        rate = done / (now - self._began) if now > self._began else math.inf
        text = f"{done:,}/{total:,} {self._unit} · {rate:,.0f}/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, rate=text)
        elif now - self._told >= LINE_SECONDS:
            self._told = now
            left = (total - done) / rate if rate else math.inf
            print(f"{self._what} · {text} · {left:.0f} s left", file=sys.stderr)  # noqa: T201
