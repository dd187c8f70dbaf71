"""Live progress of a search in a terminal, and plain lines where there is none."""

import math
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from detol.search.controller import Controller
from detol.search.records import Objective, Trial

REDRAW_SECONDS = 0.25
LINE_SECONDS = 10.0
RUNNING_SHOWN = 8


class SearchProgress:
    """Draws a running search: trials done, running, reused, failed; best so far; rate; time left.

    Called by the controller once a turn; it redraws at most four times a second, and outside a terminal prints a line
    every ten seconds.

    Args:
        console: where to draw, usually standard error.
        objective: the primary one, so that scores are shown in its natural direction.
        now: seconds of a clock that never falls.
    """

    COLUMNS = ("trial", "epoch", "score", "origin", "topology")

    def __init__(self, console: Console, objective: Objective, now: Callable[[], float] = time.monotonic) -> None:
        self._console, self._objective, self._now = console, objective, now
        self._start: float | None = None
        self._done_before = 0
        self._drawn = -math.inf
        self._live: Live | None = None

    def __call__(self, search: Controller) -> None:
        """Show where the search stands, if it is time to."""
        now = self._now()
        if self._start is None:
            self._start, self._done_before = now, _started(search)
            if self._console.is_terminal:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
        if now - self._drawn < (REDRAW_SECONDS if self._live else LINE_SECONDS):
            return
        self._drawn = now
        if self._live:
            self._live.update(self._picture(search), refresh=True)
        else:
            self._console.print(self.line(search), highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the picture away."""
        if self._live:
            self._live.stop()
            self._live = None

    def line(self, search: Controller) -> str:
        """Return e.g. ``12/30 trials · 2 running · 3 reused ... · 14.2 trials/min · 1:05 left``."""
        tally, limit = search.tally, search.task.limits.trials
        total = f"/{limit:g}" if math.isfinite(limit) else ""
        parts = [f"{_started(search)}{total} trials", f"{len(search.running)} running"]
        parts += [f"{count} {what}" for what, count in self._counts(search) if count]
        if tally.best:
            best = self._objective.score(tally.best.score)
            inherited = f", weights of trial {tally.best.inherited}" if tally.best.inherited else ""
            parts.append(f"best {self._objective.metric} {best:.4f} (trial {tally.best.number}{inherited})")
        rate, left = self._rate(search)
        if rate:
            parts.append(f"{rate * 60:.1f} trials/min")
        if math.isfinite(left):
            parts.append(f"{clock(left)} left")
        return " · ".join(parts)

    def _counts(self, search: Controller) -> list[tuple[str, int]]:
        tally = search.tally
        return [
            ("resting", tally.paused),
            ("awaited from other searches", tally.awaited),
            ("reused", tally.reused),
            ("stopped early", tally.stopped),
            ("failed", tally.failed),
            ("refused", tally.refused),
            ("retrained", tally.retrained),
        ]

    def _rate(self, search: Controller) -> tuple[float, float]:
        """Return trials per second of this run, and seconds left (infinite when not known yet)."""
        if self._start is None:
            self._start, self._done_before = self._now(), _started(search)
        elapsed = self._now() - self._start
        done = _started(search) - self._done_before
        rate = done / elapsed if elapsed > 0 else 0.0
        by_trials = (search.task.limits.trials - _started(search)) / rate if rate else math.inf
        return rate, min(by_trials, max(0.0, search.task.limits.seconds - search.seconds))

    def _picture(self, search: Controller) -> RenderableType:
        limit = search.task.limits.trials
        total = limit if math.isfinite(limit) else None
        bar = Padding(ProgressBar(total=total, completed=_started(search), width=50))  # alone it ends no line
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in self.COLUMNS:
            table.add_column(column, justify="right" if column in ("trial", "epoch", "score") else "left")
        for row in self.rows(search):
            table.add_row(*row)
        return Group(Text(self.line(search)), bar, table)

    def rows(self, search: Controller, most: int = RUNNING_SHOWN) -> list[tuple[str, ...]]:
        """Return what is shown of the trials that run, in the order of ``COLUMNS``; of the first ``most`` of them."""
        return [self._row(trial) for trial in list(search.running.values())[:most]]

    def _row(self, trial: Trial) -> tuple[str, ...]:
        score = f"{self._objective.score(trial.curve[-1]):.4f}" if trial.curve else "-"
        size = trial.extra.get("params")
        shown = f"{float(size):,.0f} parameters" if size else trial.digest[:15]
        return str(trial.number), f"{trial.epoch}/{trial.epochs}", score, str(trial.candidate.origin), shown


def _started(search: Controller) -> int:
    """Return how many of the trials wanted have ended or rest: most of those that rest never go on.

    A winner that was trained from scratch once more is none of them.
    """
    return search.tally.trials - search.tally.retrained + search.tally.paused


def clock(seconds: float) -> str:
    """Return seconds as ``m:ss`` or ``h:mm:ss``."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
