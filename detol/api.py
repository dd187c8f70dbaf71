"""detol in Python: for notebooks and for other people's code."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from detol import config, wire
from detol.errors import UsageError
from detol.result import SearchResult
from detol.results.memory import MemoryDatabase
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
    data: "str | PathLike[str]",
    space: "str | PathLike[str] | SearchSpace" = "auto",
    strategy: str | Strategy = config.DEFAULT_STRATEGY,
    *,
    watcher: Watcher | None = None,
    file: Path | None = None,
    **settings: Any,
) -> SearchResult:
    """Search for the best topology on a data set, by real training; what the command line's ``detol search`` does.

    Args:
        data: a built-in name or a path.
        space: a name, a file, an object that keeps the protocol, or ``auto``: by the data's shape.
        strategy: a name, or an object that keeps the protocol.
        watcher: shows the running search.
        file: a TOML file of settings; arguments win over it.
        settings: any other setting of :class:`detol.config.Settings` (trials, epochs, workers, seed, name, ...).

    Returns:
        The trials in order of number, the best, and the winner's metrics on the test split.

    Raises:
        UsageError: input against a rule; nothing has been written then.
    """
    named = isinstance(space, str | PathLike)
    made = config.settings(
        file,
        settings.pop("options", None),
        data=str(data),
        space=str(space) if named else catalogue.load(space).name,
        strategy=strategy if isinstance(strategy, str) else type(strategy).__name__,
        **_checked(settings),
    )
    return run_search(
        made,
        watcher,
        space=None if named else catalogue.load(space),
        strategy=None if isinstance(strategy, str) else wire.strategy(strategy, catalogue.load("tiny")),
    )


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
    searched, options = catalogue.load(space), options or {}
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
        strategy=wire.strategy(strategy, searched, seed=seed, options=options.get("strategy")),
        stopper=wire.stopper(stop, epochs=epochs, options=options.get("stop")),
        executor=FunctionExecutor(evaluate, workers=workers),
        store=MemoryDatabase().create_search("optimize", {}, {"digest": DATA}, Recipe()),
        tracker=NullTracker(),
        watcher=watcher,
    )


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    if isinstance(settings.get("objective"), str):
        settings["objective"] = (settings["objective"],)
    return settings
