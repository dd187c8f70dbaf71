"""Running a search from its settings to its result: start or resume, the test of the winner, the summary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol import plugins, warming, wire
from detol.config import Settings
from detol.errors import DetolError, UsageError
from detol.handover import exported, reported, test_of, weights_of
from detol.metrics import Metrics
from detol.prepare import Prepared, prepare
from detol.result import SearchResult
from detol.result import conclude as summed_up
from detol.results.earlier import from_record, to_record
from detol.results.weights import RECENT, NoWeights, WeightsFolder
from detol.results.writer import foreign
from detol.search.clock import RealClock
from detol.search.controller import Controller
from detol.search.history import History
from detol.search.protocols import Executor, Keeper, SearchSpace, Stopper, Strategy, Tracker
from detol.search.recipe import make_recipe
from detol.search.task import Outcome, Task
from detol.watch import Quiet, Watcher

if TYPE_CHECKING:
    from detol.results.memory import MemoryStore
    from detol.results.store import Database, SearchStore


NOTES = 5
"""Of reading the data, that are said when a search starts; ``detol data describe`` says all."""


class SearchInterrupted(KeyboardInterrupt):
    """A search was interrupted, and everything is saved.

    Args:
        name: of the search: ``resume(name)`` goes on.
        summary: its figures so far.
    """

    def __init__(self, name: str, summary: Mapping[str, Any]) -> None:
        super().__init__(f"interrupted: go on with: detol resume {name}")
        self.name, self.summary = name, summary


def search(
    settings: Settings,
    watcher: Watcher | None = None,
    *,
    space: SearchSpace | None = None,
    strategy: Strategy | None = None,
    named: Callable[[str], None] = lambda _: None,
) -> SearchResult:
    """Start a new search and run it to its end.

    Args:
        settings: of the search.
        watcher: shows it.
        space: an object in place of the name in the settings (to be resumed, it has to be given again).
        strategy: likewise.
        named: called with the search's name once the search is written down.

    Raises:
        UsageError: input against a rule; nothing has been written then.
        SearchInterrupted: it was interrupted; everything is saved.
    """
    settings = replace(
        settings,
        data=_absolute(settings.data),
        space=_absolute(settings.space),
        strategy=plugins.absolute(settings.strategy),
        stop=plugins.absolute(settings.stop),
    )
    prepared = prepare(settings, space=space, strategy=strategy)
    objects = [kind for kind, given in (("space", space), ("strategy", strategy)) if given is not None]
    with Metrics(settings.metrics) as metrics, wire.database(settings.db) as database:
        prepared, store = _create(prepared, database, objects)
        named(prepared.settings.name)
        shown = metrics.around(watcher or Quiet(), prepared.settings.name)
        for line in _noted(prepared):
            shown.say(line)
        if prepared.warm.sources:
            shown.say(warming.said(prepared.warm.sources, prepared.task.known))
        if settings.inherit != "off" and getattr(prepared.strategy, "childless", False):
            called = settings.strategy if strategy is None else type(strategy).__name__
            shown.say(f"strategy {called} proposes no children: nothing is inherited")
        if caution := getattr(prepared.strategy, "caution", ""):
            shown.say(caution)
        return _left(_run(prepared, store, shown), prepared, database, shown)


def _noted(prepared: Prepared) -> list[str]:
    """Return what a person should know of how the data were read: what was left out, dropped, guessed."""
    notes = prepared.dataset.about.get("notes", [])
    more = [f"data: {len(notes) - NOTES} more notes, see detol data describe {prepared.settings.data}"]
    return [*(f"data: {note}" for note in notes[:NOTES]), *(more if len(notes) > NOTES else [])]


def resume(
    name: str,
    watcher: Watcher | None = None,
    *,
    db: str = "",
    space: SearchSpace | None = None,
    strategy: Strategy | None = None,
    **changes: Any,
) -> SearchResult:
    """Go on with a search where it stands, whatever ended it.

    Args:
        name: of the search.
        watcher: shows it.
        db: URL or path of the results database.
        space: the object it was started with, if it was started with one.
        strategy: likewise.
        changes: settings to change from now on: budget, workers, addresses.

    Raises:
        UsageError: no such search, one that still runs, or data that have changed since.
        SearchInterrupted: it was interrupted; everything is saved.
    """
    with wire.database(db, create=False) as database:
        before = database.open_search(name, lock=False)
        if before.source:
            raise foreign(name, before.source)
        for kind, given in (("space", space), ("strategy", strategy)):
            if kind in before.settings.get("objects", ()) and given is None:
                raise UsageError(f"search {name!r} was started with a {kind} object: give it to detol.resume in Python")
        settings = Settings.from_dict({**before.settings["settings"], **changes, "db": db})
        recipe = make_recipe(before.settings["recipe"])
        known = from_record(before.settings.get(wire.LEARNS, ()))  # not those that have come since: as it judged
        began = warming.Warm(warming.from_record(before.settings.get(warming.RECORD, ())))
        prepared = prepare(settings, space=space, strategy=strategy, recipe=recipe, earlier=known, warm=began)
        if prepared.task.data != before.data:
            raise UsageError(f"the data at {settings.data} have changed since {name!r} started: start a new search")
        with Metrics(settings.metrics) as metrics:
            store = database.open_search(name)
            store.amend(trials=settings.trials, settings=_stored(settings))
            shown = metrics.around(watcher or Quiet(), name)
            return _left(_run(prepared, store, shown), prepared, database, shown)


def _create(prepared: Prepared, database: "Database", objects: Sequence[str]) -> "tuple[Prepared, SearchStore]":
    """Write the search down; a name that nobody gave is the next that is free, also when others look for one too."""
    task, given = prepared.task, prepared.settings.name
    while True:
        name = given or _free_name(prepared.dataset.name, database.names())
        settings = replace(prepared.settings, name=name)
        stored = {
            **_stored(settings),
            "space": task.space.name,
            "objectives": list(map(str, task.objectives)),
            "settings": _stored(settings),
            "recipe": asdict(task.recipe),
            "objects": list(objects),
            **({wire.LEARNS: to_record(prepared.earlier)} if prepared.earlier else {}),
            **({warming.RECORD: [s.as_dict() for s in prepared.warm.sources]} if prepared.warm.sources else {}),
        }
        described = prepared.dataset.describe()
        try:
            store = database.create_search(name, stored, described, task.recipe, config_digest=prepared.identity)
        except UsageError:
            if given or name not in database.names():
                raise
            continue
        warming.note(database, name, prepared.warm)
        return replace(prepared, settings=settings), store


def _left(result: SearchResult, prepared: Prepared, database: "Database", watcher: Watcher) -> SearchResult:
    """Leave what searches to come can learn: how far sources helped, what the data are like. Failing is a warning."""
    try:
        warming.borne_out(database, prepared.settings.name, getattr(prepared.strategy, "trust", ()))
        warming.leave(database, prepared.dataset, sum(trial.scores is not None for trial in result.trials))
    except (DetolError, OSError, RuntimeError) as error:
        watcher.say(f"what later searches can learn of this one could not be written down: {error}")
    return result


def _stored(settings: Settings) -> dict[str, Any]:
    """Return settings as the database keeps them: without passwords."""
    from detol.tracking.uri import redact

    return {**settings.as_dict(), "tracking": redact(settings.tracking)}


def _absolute(place: str) -> str:
    """Return a path that exists as an absolute one, so that a resume from elsewhere finds it; else what was given."""
    path, colon, constant = place.partition(".py:")
    if colon:
        return f"{Path(path + '.py').resolve()}:{constant}" if Path(path + ".py").exists() else place
    return str(Path(place).resolve()) if place and Path(place).exists() and not _is_name(place) else place


def _is_name(place: str) -> bool:
    from detol.spaces import catalogue
    from detol.workers.data import BUILTIN

    return place in BUILTIN or place in catalogue.names()


def _run(prepared: Prepared, store: "SearchStore", watcher: Watcher) -> SearchResult:
    """Run a search of real training, then test its winner and mirror the end."""
    settings, task = prepared.settings, prepared.task
    home, known = wire.home(settings.db), tuple(store.trials())
    made = "".join(character for character in store.created if character.isdigit())
    inherits = settings.inherit != "off" or wire.own_start(prepared.strategy)
    recent = RECENT if inherits else 0  # any of them may become a parent
    tracker = wire.tracker(
        settings,
        task,
        f"{settings.name}@{store.created}",
        watcher.say,
        data=prepared.dataset.describe(),
        workers=prepared.workers,
    )
    return run_parts(
        task,
        name=settings.name,
        strategy=prepared.strategy,
        stopper=prepared.stopper,
        executor=wire.executor(settings, prepared.dataset, prepared.workers),
        store=store,
        tracker=tracker,
        keeper=WeightsFolder(home, f"{settings.name}-{made}", known=known, recent=recent, warn=watcher.say),
        watcher=watcher,
        twin=None if known or settings.reuse == "never" else _twin(store, prepared.identity),
        conclude=lambda result: _conclude(result, prepared, store, tracker, home, watcher),
    )


def _conclude(
    result: SearchResult, prepared: Prepared, store: "SearchStore", tracker: Tracker, home: Path, watcher: Watcher
) -> SearchResult:
    """Test the winner, keep the figures, and mirror both; what fails here costs a warning, not the search."""
    best, weights = result.best, b""
    result = replace(result, settings=prepared.settings)
    if best:
        try:
            weights = weights_of(best, prepared.dataset, prepared.task.recipe, home, watcher.say)
            test = test_of(best, weights, prepared.dataset)
            result = replace(result, test=test, summary={**result.summary, "test": test})
        except (DetolError, OSError, RuntimeError) as error:
            watcher.say(f"the winner could not be tested: {error}")
    store.amend(summary=result.summary)
    mirrored = prepared.settings.tracking != "off" and bool(weights)
    with (
        exported(result, weights, prepared, wanted=mirrored, say=watcher.say) as files,
        reported(result.name, prepared.settings.db, wanted=mirrored, say=watcher.say) as report,
    ):
        tracker.finish(best, result.summary, files, report)
        tracker.close()
    return result


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
        SearchInterrupted: it was interrupted; everything is saved.
    """
    watcher = watcher or Quiet()
    state = ""
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
        try:
            outcome = controller.run()
        except KeyboardInterrupt:  # a second one, in the middle of a turn: all up to the last one is saved
            outcome = Outcome(controller.tally, controller.seconds, "interrupted", interrupted=True)
            summary = summed_up(name, task, outcome, store.trials(), structural=wire.own_start(strategy)).summary
            raise SearchInterrupted(name, summary) from None
        state = "interrupted"  # whatever happens from here on, the record fits the log
        watcher.close()
        result = summed_up(name, task, outcome, store.trials(), structural=wire.own_start(strategy))
        try:
            executor.close()
            if outcome.interrupted:
                raise KeyboardInterrupt
            result = conclude(result)
        except KeyboardInterrupt:  # the search itself is done, or was interrupted: either way all of it is saved
            raise SearchInterrupted(name, result.summary) from None
        state = "finished"
        return result
    finally:
        watcher.close()
        executor.close()
        if state:
            store.finish(state)
        store.close()  # in the middle of a turn: back to the last one that was whole
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
