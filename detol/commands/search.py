"""``detol search`` and ``detol resume``."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detol.commands.common import Db, Header, Json, Resize, Variables, data_options, print_json

if TYPE_CHECKING:
    from detol.result import SearchResult
    from detol.search.controller import Controller
    from detol.search.records import Objective

Option = typer.Option
Trials = Annotated[
    int | None,
    Option("--trials", help="Trials of the search, reused ones included (default: 30, or what --hours allow)."),
]
Hours = Annotated[float | None, Option("--hours", help="Hours of consumed time (default: no bound).")]
Workers = Annotated[int | None, Option("--workers", help="Workers side by side (default: one a core or GPU).")]
Tracking = Annotated[str | None, Option("--tracking", help="MLflow URI, or off (default: ./detol-runs/mlflow.db).")]
Metrics = Annotated[str | None, Option("--metrics", help="[HOST:]PORT that serves Prometheus metrics (default: none).")]
Ray = Annotated[str | None, Option("--ray", help="Address of a Ray cluster (default: a local one).")]


def search(
    file: Annotated[Path | None, typer.Argument(metavar="[RUN.toml]", help="Settings; flags win over it.")] = None,
    data: Annotated[
        str | None, Option("--data", help="digits, or a path: npz, CSV, Parquet, HDF5, NetCDF, folder.")
    ] = None,
    target: Annotated[str | None, Option("--target", help="Column that is predicted: a name, or last.")] = None,
    header: Header = None,
    resize: Resize = None,
    variables: Variables = None,
    space: Annotated[str | None, Option("--space", help="Search space: a name, FILE.py, or auto.")] = None,
    strategy: Annotated[
        str | None, Option("--strategy", help="A name, FILE.py, optuna:SAMPLER, prune:edges|channels|neurons.")
    ] = None,
    start: Annotated[
        str | None, Option("--start", help="prune, grow: DIGEST, NAME of a search, largest or smallest.")
    ] = None,
    stop: Annotated[
        str | None, Option("--stop", help="Early stopping: promote, asha, curve, promote+curve, FILE.py, none ...")
    ] = None,
    trials: Trials = None,
    epochs: Annotated[
        int | None, Option("--epochs", help="Epochs of a training (default: 27, or what --hours allow).")
    ] = None,
    hours: Hours = None,
    trial_minutes: Annotated[float | None, Option("--trial-minutes", help="Longest time of one trial.")] = None,
    workers: Workers = None,
    ranks: Annotated[str | None, Option("--ranks", help="Workers that train one trial: N (1), or auto.")] = None,
    objective: Annotated[
        list[str] | None, Option("--objective", help="METRIC or METRIC:min; repeat for several.")
    ] = None,
    seed: Annotated[int | None, Option("--seed", help="Seed of the search (default: 0).")] = None,
    name: Annotated[str | None, Option("--name", help="Unique name (default: made from the data's).")] = None,
    db: Annotated[
        str | None, Option("--db", help="Results database: path or URL (default: ./detol-runs/results.db).")
    ] = None,
    tracking: Tracking = None,
    references: Annotated[
        bool | None, Option("--references/--no-references", help="Try reference topologies first.")
    ] = None,
    inherit: Annotated[
        str | None, Option("--inherit", help="Start from a parent's weights: off (default), match or morph.")
    ] = None,
    reuse: Annotated[
        str | None, Option("--reuse", help="What answers from other searches: always (default), same-seed, never.")
    ] = None,
    warm: Annotated[
        list[str] | None,
        Option("--warm", help="Begin with other data sets' results: auto (guided's default), off, or SEARCH; repeat."),
    ] = None,
    max_params: Annotated[float | None, Option("--max-params", help="Refuse candidates with more parameters.")] = None,
    device: Annotated[str | None, Option("--device", help="auto, cpu or cuda.")] = None,
    ray: Ray = None,
    executor: Annotated[
        str | None, Option("--executor", help="ray, or inline: in this process, for a debugger.")
    ] = None,
    metrics: Metrics = None,
    set_: Annotated[
        list[str] | None, Option("--set", help="SECTION.KEY=VALUE of strategy, stop, recipe or data.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Search for the best topology on a data set; finished results are reused, an interrupted search can be resumed."""
    from detol import config, run

    flags = {
        "data": data, "target": target, "space": space, "strategy": strategy, "start": start, "stop": stop,
        "trials": trials, "epochs": epochs, "hours": hours, "trial_minutes": trial_minutes,
        "workers": workers, "ranks": ranks, "objective": tuple(objective) if objective else None, "seed": seed,
        "name": name, "db": db, "tracking": tracking, "references": references, "inherit": inherit, "reuse": reuse,
        "warm": tuple(warm) if warm else None, "max_params": max_params, "device": device, "ray": ray,
        "executor": executor, "metrics": metrics,
    }  # fmt: skip
    options = config.parse_sets(set_ or [])
    options.setdefault("data", {}).update(data_options(header, resize, variables))
    settings = config.settings(file, options, **flags)
    _show(lambda terminal: run.search(settings, terminal), settings.db, as_json)


def resume(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the search.")],
    trials: Trials = None,
    hours: Hours = None,
    workers: Workers = None,
    db: Db = "",
    tracking: Tracking = None,
    ray: Ray = None,
    metrics: Metrics = None,
    as_json: Json = False,
) -> None:
    """Go on with a search: finished trials are kept, lost ones tried again; a larger budget goes further."""
    from detol import run

    given = {"trials": trials, "hours": hours, "workers": workers, "tracking": tracking, "ray": ray, "metrics": metrics}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    _show(lambda terminal: run.resume(name, terminal, db=db, **changes), db, as_json)


class Terminal:
    """Shows a search on standard error, and turns Ctrl-C into a clean end; a second one ends at once."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._progress: Any = None
        self._search: Controller | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Terminal":
        """Take over the signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        self.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signature of handlers
        if self._search is None:
            raise KeyboardInterrupt
        self._search.interrupt()
        signal.signal(number, signal.default_int_handler)

    def started(self, search: "Controller", objective: "Objective") -> None:
        """Take note of the controller, so that a signal can end it."""
        from detol.dashboards.progress import SearchProgress

        self._search, self._progress = search, SearchProgress(self._console, objective)

    def __call__(self, search: "Controller") -> None:
        """Draw."""
        self._progress(search)

    def say(self, text: str) -> None:
        """Print one line above the progress."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the progress away; from now on a signal ends at once."""
        self._search = None
        if self._progress:
            self._progress.close()


def _show(run_search: "Callable[[Terminal], SearchResult]", db: str, as_json: bool) -> None:
    """Run a search under a terminal, and print how it ended: its summary, and what to do next."""
    from detol import run, wire
    from detol.tracking.uri import redact

    flag = f" --db {redact(db)}" if db else ""
    try:
        with Terminal() as terminal:
            result = run_search(terminal)
    except run.SearchInterrupted as interrupted:
        if as_json:
            print_json(interrupted.summary)
        typer.echo(f"interrupted, everything is saved; go on with: detol resume {interrupted.name}{flag}", err=True)
        raise
    if as_json:
        print_json(result.summary)
    else:
        from rich.console import Console

        from detol.dashboards.summary import summary

        console = Console(soft_wrap=True, highlight=False)
        summary(console, result.summary)
        settings = result.settings
        console.print(f"look:    {wire.ui_command(settings.tracking, settings.db)}", markup=False)
        console.print(f"ask:     detol results top --search {result.name}{flag}", markup=False)
        if result.best:
            console.print(f"export:  detol export {result.name} --to exports/{result.name}{flag}", markup=False)
        sys.stdout.flush()
    if result.best is None:
        typer.echo(
            f"detol: no trial of {result.name} ended with a score: see detol status {result.name}{flag}", err=True
        )
        raise typer.Exit(1)
