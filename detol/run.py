"""Running a search from its settings to its result: start or resume, the test of the winner, the summary."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from detol import wire
from detol.config import Settings
from detol.errors import UsageError
from detol.handover import exported, test_of, weights_of
from detol.prepare import Prepared, prepare
from detol.result import SearchResult
from detol.result import conclude as summed_up
from detol.results.weights import NoWeights, WeightsFolder
from detol.search.clock import RealClock
from detol.search.controller import Controller
from detol.search.history import History
from detol.search.protocols import Executor, Keeper, SearchSpace, Stopper, Strategy, Tracker
from detol.search.task import Task
from detol.watch import Quiet, Watcher

if TYPE_CHECKING:
    from detol.results.memory import MemoryStore
    from detol.results.store import SearchStore


def search(
    settings: Settings,
    watcher: Watcher | None = None,
    *,
    space: SearchSpace | None = None,
    strategy: Strategy | None = None,
) -> SearchResult:
    """Start a new search and run it to its end.

    Args:
        settings: of the search.
        watcher: shows it.
        space: an object in place of the name in the settings (such a search can't be resumed from the shell).
        strategy: likewise.

    Raises:
        UsageError: input against a rule; nothing has been written then.
        KeyboardInterrupt: it was interrupted; everything is saved.
    """
    prepared = prepare(settings, space=space, strategy=strategy)
    with wire.database(settings.db) as database:
        name = settings.name or _free_name(prepared.dataset.name, database.names())
        settings = replace(settings, name=name)
        store = database.create_search(
            name,
            {
                **settings.as_dict(),
                "space": prepared.task.space.name,
                "objectives": list(map(str, prepared.task.objectives)),
                "settings": settings.as_dict(),
                "recipe": asdict(prepared.task.recipe),
            },
            prepared.dataset.describe(),
            prepared.task.recipe,
            config_digest=prepared.identity,
        )
        return _run(replace(prepared, settings=settings), store, watcher or Quiet())


def resume(name: str, watcher: Watcher | None = None, *, db: str = "", **changes: Any) -> SearchResult:
    """Go on with a search where it stands, whatever ended it.

    Args:
        name: of the search.
        watcher: shows it.
        db: URL or path of the results database.
        changes: settings to change: budget, workers, addresses.

    Raises:
        UsageError: no such search, one that still runs, or data that have changed since.
    """
    with wire.database(db, create=False) as database:
        store = database.open_search(name, lock=False)
        settings = Settings.from_dict({**store.settings["settings"], **changes, "db": db})
        prepared = prepare(settings)
        if prepared.task.data != store.data:
            raise UsageError(
                f"the data at {settings.data} have changed since search {name!r} started: start a new search"
            )
        return _run(prepared, database.open_search(name), watcher or Quiet())


def _run(prepared: Prepared, store: "SearchStore", watcher: Watcher) -> SearchResult:
    """Run a search of real training, then test its winner and mirror the end."""
    settings, task = prepared.settings, prepared.task
    home, known = wire.home(settings.db), tuple(store.trials())
    tracker = wire.tracker(settings, task, f"{settings.name}@{store.created}", watcher.say)

    def conclude(result: SearchResult) -> SearchResult:
        best = result.best
        weights = weights_of(best, prepared.dataset, task.recipe, home) if best else b""
        test = test_of(best, weights, prepared.dataset) if best else {}
        result = replace(result, test=test, summary={**result.summary, "test": test or None})
        store.amend(summary=result.summary)
        mirrored = settings.tracking != "off"
        with exported(result, weights, prepared, wanted=mirrored, say=watcher.say) as files:
            tracker.finish(best, result.summary, files)
            tracker.close()
        return result

    return run_parts(
        task,
        name=settings.name,
        strategy=prepared.strategy,
        stopper=prepared.stopper,
        executor=wire.executor(settings, prepared.dataset, prepared.workers),
        store=store,
        tracker=tracker,
        keeper=WeightsFolder(home, settings.name, known=known),
        watcher=watcher,
        twin=None if known else _twin(store, prepared.identity),
        conclude=conclude,
    )


def run_parts(
    task: Task,
    *,
    name: str,
    strategy: Strategy,
    stopper: Stopper,
    executor: Executor,
    store: "SearchStore | MemoryStore",
    tracker: Tracker,
    keeper: Keeper | None = None,
    watcher: Watcher | None = None,
    twin: History | None = None,
    conclude: Callable[[SearchResult], SearchResult] = lambda result: result,
) -> SearchResult:
    """Run the controller over its running parts, and close them whatever happens.

    Args:
        task: what is searched for.
        name: of the search.
        strategy: proposes.
        stopper: judges after each report.
        executor: runs the trials; closed here.
        store: records the search.
        tracker: mirrors it; closed here.
        keeper: keeps weights.
        watcher: shows the search.
        twin: history of an identical search.
        conclude: called with the result once the executor is closed; returns it completed.

    Raises:
        KeyboardInterrupt: it was interrupted; everything is saved.
    """
    watcher = watcher or Quiet()
    state = "interrupted"
    try:
        controller = Controller(
            task,
            strategy=strategy,
            stopper=stopper,
            executor=executor,
            store=store,
            tracker=tracker,
            keeper=keeper or NoWeights(),
            clock=RealClock(),
            consumed=store.consumed,
            twin=twin,
            watch=watcher,
            warn=watcher.say,
        )
        watcher.started(controller, task.objectives[0])
        outcome = controller.run()
        if outcome.interrupted:
            raise KeyboardInterrupt
        executor.close()
        result = conclude(summed_up(name, task, outcome, store.trials()))
        state = "finished"
        return result
    finally:
        executor.close()
        watcher.close()
        store.finish(state)
        tracker.close()


def _twin(store: "SearchStore", identity: str) -> History | None:
    """Return the history of the longest other search that does the same, if there is one."""
    twin = store.twin(identity)
    if twin is None:
        return None
    return History(twin.name, twin.steps(), {trial.number: trial for trial in twin.trials()})


def _free_name(base: str, taken: Sequence[str]) -> str:
    clean = "".join(c if c.isalnum() or c in "._-" else "-" for c in base).strip("-._") or "search"
    number = 1
    while f"{clean[:60]}-{number}" in taken:
        number += 1
    return f"{clean[:60]}-{number}"
