"""Progress of a search in a notebook: one output, brought up to date in place."""

import time
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Protocol

from detol.dashboards.progress import RUNNING_SHOWN, SearchProgress
from detol.search.controller import Controller
from detol.search.records import Objective
from detol.watch import Watcher

REDRAW_SECONDS = 0.5
LINES_SHOWN = 5


class Handle(Protocol):
    """An output that can be replaced; IPython's ``DisplayHandle`` is one."""

    def update(self, shown: Any, **_: Any) -> None:
        """Put something else in its place."""
        ...


class Ending(Watcher, Protocol):
    """A watcher that also says how a search ended."""

    def end(self, text: str) -> None:
        """Show the last line, in place of the progress."""
        ...


class NotebookProgress:
    """Shows a running search under the cell that started it; called in the search's own thread.

    Args:
        handle: the output.
        now: seconds of a clock that never falls.
    """

    def __init__(self, handle: Handle, now: Callable[[], float] = time.monotonic) -> None:
        self._handle, self._now = handle, now
        self._lines: list[str] = []
        self._picture, self._drawn = "preparing ...", float("-inf")
        self._progress: SearchProgress | None = None

    def started(self, search: Controller, objective: Objective) -> None:  # noqa: ARG002  the seam gives both
        """Begin to count."""
        from rich.console import Console

        self._progress = SearchProgress(Console(quiet=True), objective, self._now)

    def __call__(self, search: Controller) -> None:
        """Draw, if it is time to."""
        now = self._now()
        if self._progress is None or now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        self._picture = _picture(self._progress, search)
        self._show()

    def say(self, text: str) -> None:
        """Show one line below the progress; the last ones stay."""
        self._lines = [*self._lines, text][-LINES_SHOWN:]
        self._show()

    def close(self) -> None:
        """Leave the last picture."""

    def end(self, text: str) -> None:
        """Show the last line, in place of the progress."""
        self._picture = escape(text)
        self._show()

    def _show(self) -> None:
        said = "".join(f'<div style="opacity:.7">{escape(line)}</div>' for line in self._lines)
        self._handle.update(Html(f'<div style="font-size:13px">{self._picture}{said}</div>'))


class Html:
    """HTML that a notebook shows; what it holds is escaped already."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        """Return what a notebook without HTML shows."""
        return "<detol>"


class TerminalProgress:
    """Shows a search on standard error, where there is no notebook."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._progress: SearchProgress | None = None

    def started(self, search: Controller, objective: Objective) -> None:  # noqa: ARG002  the seam gives both
        """Begin to count."""
        self._progress = SearchProgress(self._console, objective)

    def __call__(self, search: Controller) -> None:
        """Draw, if it is time to."""
        if self._progress:
            self._progress(search)

    def say(self, text: str) -> None:
        """Print one line above the progress."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the progress away."""
        if self._progress:
            self._progress.close()

    def end(self, text: str) -> None:
        """Print the last line."""
        self.say(text)


def progress() -> Ending:
    """Return what shows a search here: in the output of this cell in a notebook, otherwise on standard error."""
    if not in_notebook():
        return TerminalProgress()
    from IPython.display import display

    return NotebookProgress(display(Html("preparing ..."), display_id=True))


def in_notebook() -> bool:
    """Return whether a kernel runs this code, whose outputs can be replaced."""
    import sys

    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def _picture(progress: SearchProgress, search: Controller) -> str:
    """Return the line of a terminal's progress, a bar, and the trials that run."""
    limit = search.task.limits.trials
    done = search.tally.trials - search.tally.retrained + search.tally.paused
    bar = f'<progress value="{done}" max="{limit:g}" style="width:24em"></progress>' if limit < float("inf") else ""
    rows = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in cells) + "</tr>"
        for cells in progress.rows(search, RUNNING_SHOWN)
    )
    head = "".join(f'<th style="text-align:left">{name}</th>' for name in progress.COLUMNS)
    table = f'<table style="margin:2px 0">{f"<tr>{head}</tr>{rows}"}</table>' if rows else ""
    return f"<div>{escape(progress.line(search))}</div>{bar}{table}"


def ended(summary: Mapping[str, Any], name: str) -> str:
    """Return how a search ended in one line."""
    from detol.dashboards.progress import clock

    return f"{name}: {summary['ended']}, {clock(summary['seconds'])} min"
