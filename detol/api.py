"""detol in Python: for notebooks and for other people's code."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from detol import config, wire
from detol.config import Settings
from detol.errors import UsageError, unknown
from detol.result import SearchResult
from detol.results.memory import MemoryDatabase
from detol.run import resume as run_resume
from detol.run import run_parts
from detol.run import search as run_search
from detol.search.limits import Limits
from detol.search.protocols import SearchSpace, Stopper, Strategy
from detol.search.recipe import Recipe
from detol.search.records import Candidate, parse_objective
from detol.search.task import Task
from detol.spaces import catalogue
from detol.watch import Watcher

DATA = "function"
"""What stands for the content hash where a callable takes the place of data."""


def space(name: "str | PathLike[str] | SearchSpace") -> SearchSpace:
    """Return a search space: by name, from ``FILE.py``, or an object that keeps the protocol, as it is.

    Raises:
        SpaceError: unknown, or a file that fails.
    """
    return catalogue.load(name)


def search(
    data: "str | PathLike[str] | None" = None,
    space: "str | PathLike[str] | SearchSpace | None" = None,
    strategy: str | Strategy | None = None,
    *,
    watcher: Watcher | None = None,
    file: "str | PathLike[str] | None" = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> SearchResult:
    """Search for the best topology on a data set, by real training; what the command line's ``detol search`` does.

    Args:
        data: a built-in name or a path.
        space: a name, a file, an object that keeps the protocol, or ``auto`` (the default): by the data's shape.
        strategy: a name, or an object that keeps the protocol.
        watcher: shows the running search.
        file: a TOML file of settings; arguments win over it.
        options: by section (``strategy``, ``stop``, ``recipe``, ``data``), settings of their own.
        settings: any other setting of :class:`detol.config.Settings` (trials, epochs, workers, seed, name, ...).

    Returns:
        The trials in order of number, the best, and the winner's metrics on the test split.

    Raises:
        UsageError: input against a rule; nothing has been written then.
        SearchInterrupted: Ctrl-C; everything is saved, and ``detol.resume`` goes on.
    """
    made, searched, chosen = settled(data, space, strategy, file=file, options=options, **settings)
    return run_search(made, watcher, space=searched, strategy=chosen)


def settled(
    data: "str | PathLike[str] | None" = None,
    space: "str | PathLike[str] | SearchSpace | None" = None,
    strategy: str | Strategy | None = None,
    *,
    file: "str | PathLike[str] | None" = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> tuple[Settings, SearchSpace | None, Strategy | None]:
    """Return the settings that the arguments of :func:`search` make, and the space and the strategy given as objects.

    Raises:
        UsageError: input against a rule.
    """
    if data is not None and not isinstance(data, str | PathLike):
        raise UsageError(
            f"data must be a name or a path, got a {type(data).__name__}: save arrays with numpy.savez(file, x=x, y=y)"
        )
    searched, name = _object_or_name(space)
    chosen = strategy if strategy is None or isinstance(strategy, str) else _kept(strategy)
    given = {key: value for key, value in settings.items() if value is not None}
    made = config.settings(
        Path(file) if file else None,
        options,
        data=None if data is None else str(data),
        space=name,
        strategy=chosen if isinstance(chosen, str) or chosen is None else type(chosen).__name__,
        **config.typed(given),
    )
    return made, searched, None if isinstance(chosen, str) else chosen


def resume(
    name: str,
    *,
    db: str = "",
    space: SearchSpace | None = None,
    strategy: Strategy | None = None,
    watcher: Watcher | None = None,
    **changes: Any,
) -> SearchResult:
    """Go on with a search where it stands; what the command line's ``detol resume`` does.

    Args:
        name: of the search.
        db: results database.
        space: the object it was started with, if it was started with one.
        strategy: likewise.
        watcher: shows the running search.
        changes: settings to change from now on: trials, hours, workers, tracking, ray.

    Raises:
        UsageError: no such search, one that still runs, or data that have changed since.
    """
    return run_resume(name, watcher, db=db, space=space, strategy=strategy, **config.typed(changes))


def _object_or_name(space: Any) -> tuple[SearchSpace | None, str | None]:
    """Return a space as an object, or as the name or file that stands for it, and its name."""
    if space is None or isinstance(space, str | PathLike):
        return None, None if space is None else str(space)
    searched = catalogue.load(space)
    return searched, searched.name


def _kept(strategy: Any) -> Strategy:
    """Return a strategy object, checked to keep the protocol."""
    if not isinstance(strategy, Strategy):
        raise UsageError(f"a strategy has ask and tell, got {type(strategy).__name__}")
    return strategy


def optimize(
    space: "str | PathLike[str] | SearchSpace",
    evaluate: Callable[[Candidate], Any],
    strategy: str | Strategy = config.DEFAULT_STRATEGY,
    *,
    trials: int = 50,
    seed: int = 0,
    epochs: int = 1,
    stop: str | Stopper = "none",
    objective: "str | tuple[str, ...]" = "score",
    references: bool = False,
    workers: int = 1,
    options: dict[str, dict[str, Any]] | None = None,
    watcher: Watcher | None = None,
) -> SearchResult:
    """Search a space with a callable in place of training.

    Args:
        space: a name, a file, or an object that keeps the protocol.
        evaluate: takes a candidate; returns its score (more is better), or metrics by name, or yields one of them
            after each epoch. What it raises becomes a failed trial, what is not finite a diverged one.
        strategy: a name, or an object that keeps the protocol.
        trials: how many, >= 1.
        seed: of the search.
        epochs: how many results a generator yields at most.
        stop: rule for early stopping of generators.
        objective: metrics (``METRIC`` or ``METRIC:min``) where it returns several; a plain number is ``score``.
        references: whether the space's reference topologies are tried first.
        workers: how many evaluations run side by side, in threads.
        options: ``{"strategy": {...}, "stop": {...}}``: options of these.
        watcher: shows the running search.

    Returns:
        The trials in order of number, and the best. Nothing is written anywhere.

    Raises:
        UsageError: input against a rule.
    """
    from detol.execution.function import FunctionExecutor
    from detol.tracking.null import NullTracker

    if not callable(evaluate):
        raise UsageError(f"evaluate is a callable that takes a candidate, got {type(evaluate).__name__}")
    if epochs < 1:
        raise UsageError(f"epochs must be >= 1, got {epochs}")
    searched, options = catalogue.load(space), options or {}
    for section in options:
        if section not in ("strategy", "stop"):
            raise unknown("section of options", section, ("strategy", "stop"))
    names = (objective,) if isinstance(objective, str) else tuple(objective)
    task = Task(
        space=searched,
        recipe=Recipe(),
        data=DATA,
        epochs=epochs,
        objectives=tuple(map(parse_objective, names)),
        seed=seed,
        limits=Limits(trials=trials),
        references=references,
    )
    return run_parts(
        task,
        name="optimize",
        strategy=wire.strategy(strategy, searched, seed=seed, options=options.get("strategy"), objectives=len(names)),
        stopper=wire.stopper(
            stop,
            epochs=epochs,
            options=options.get("stop"),
            objectives=task.objectives,
            trials=trials,
            seed=seed,
            references=len(searched.references) if references else 0,
        ),
        executor=FunctionExecutor(evaluate, workers=workers),
        store=MemoryDatabase().create_search("optimize", {}, {"digest": DATA}, Recipe()),
        tracker=NullTracker(),
        watcher=watcher,
    )
