"""``detol.Search``: a search as an object that runs, shows itself, and answers questions."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol import config, wire
from detol.api import settled
from detol.config import Settings
from detol.errors import UsageError
from detol.notebook.answers import Answers
from detol.notebook.background import Background
from detol.notebook.progress import ended, progress
from detol.notebook.trial import TrialView
from detol.results.query import Query
from detol.run import SearchInterrupted
from detol.run import resume as run_resume
from detol.run import search as run_search
from detol.search.protocols import SearchSpace, Strategy

if TYPE_CHECKING:
    from detol.result import SearchResult
    from detol.watch import Watcher


class Search(Answers):
    """A search: settings that are checked at once, then a run, then answers.

    ::

        search = detol.Search(data="digits", space="image_cell", trials=20).run()
        search.results()                # the leaderboard, a DataFrame
        search.best                     # the winner, drawn
        search.plot_progress()          # a plotly figure
        search.export("best/")

    Whatever is asked is read from the results database, so it is there while the search runs (:meth:`start`), in
    another session (:meth:`open`), and for searches that the command line started. Tables are pandas DataFrames;
    values of metrics are in their natural direction.

    Args:
        data: a built-in name or a path.
        space: a name, a file, an object that keeps the protocol, or ``auto``.
        strategy: a name, or an object that keeps the protocol.
        file: a TOML file of settings; arguments win over it.
        options: by section (``strategy``, ``stop``, ``recipe``, ``data``), settings of their own.
        settings: any other setting of :class:`detol.config.Settings` (trials, epochs, workers, seed, name, ...).

    Raises:
        UsageError: input against a rule.
    """

    def __init__(
        self,
        data: "str | PathLike[str] | None" = None,
        space: "str | PathLike[str] | SearchSpace | None" = None,
        strategy: str | Strategy | None = None,
        *,
        file: "str | PathLike[str] | None" = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        made, self._space, self._strategy = settled(
            data, space, strategy, file=file, options=options, **{**settings, "db": _fixed(settings.get("db"))}
        )
        self._set_up(made, written=False)

    def _set_up(self, settings: Settings, *, written: bool) -> None:
        self._settings, self._name, self._written = settings, settings.name, written
        self._running: Background | None = None

    @classmethod
    def open(
        cls,
        name: str,
        *,
        db: "str | PathLike[str]" = "",
        space: SearchSpace | None = None,
        strategy: Strategy | None = None,
    ) -> "Search":
        """Return a search of the results database, whoever started it.

        Args:
            name: of the search.
            db: URL or path of the results database.
            space: the object it was started with, if it was started with one and shall be resumed.
            strategy: likewise.

        Raises:
            ResultsError: no such search, or no such database.
        """
        made = cls.__new__(cls)
        made._space, made._strategy = space, strategy
        where = _fixed(db)
        with wire.database(where, create=False) as database:
            stored = Query(database).settings(name)["settings"]
        made._set_up(Settings.from_dict({**stored, "name": name, "db": where}), written=True)
        return made

    # -- running

    def run(self) -> "Search":
        """Search to the end, and return this object. Ctrl-C (a notebook's stop) ends the search, everything saved.

        Raises:
            UsageError: input against a rule, or a search that was started before.
            SearchInterrupted: Ctrl-C; :meth:`resume` goes on.
        """
        return self.start()._to_its_end()

    def start(self) -> "Search":
        """Begin to search in the background, and return this object; see :meth:`wait` and :meth:`stop`."""
        self._check_idle()
        if self._written:
            raise UsageError(f"search {self._name!r} was started before: .resume() goes on, .resume(trials=N) further")
        return self._begin(
            lambda watcher: run_search(
                self._settings, watcher, space=self._space, strategy=self._strategy, named=self._named
            )
        )

    def resume(self, *, wait: bool = True, **changes: Any) -> "Search":
        """Go on where the search stands, and return this object.

        Args:
            wait: until it has ended, as :meth:`run`; otherwise as :meth:`start`.
            changes: settings to change from now on: trials, hours, workers, tracking, ray.

        Raises:
            UsageError: never started, runs already, or data that have changed since.
        """
        self._check_idle()
        self._check_started()
        given = config.typed(changes)
        self._begin(
            lambda watcher: run_resume(
                self._name, watcher, db=self._settings.db, space=self._space, strategy=self._strategy, **given
            )
        )
        return self._to_its_end() if wait else self

    def wait(self, seconds: float | None = None) -> "Search":
        """Wait until a search in the background has ended, at most so many seconds, and return this object.

        Ctrl-C ends the waiting, not the search.

        Raises:
            DetolError: what the search ended with, when it went wrong.
        """
        if self._running and self._running.wait(seconds):
            error = self._running.error
            if error is not None and not isinstance(error, SearchInterrupted):
                raise error
        return self

    def stop(self) -> "Search":
        """End a search in the background at its next turn, everything saved, and return this object."""
        if self._running:
            self._running.stop()
            self.wait()
        return self

    def _to_its_end(self) -> "Search":
        try:
            return self.wait()
        except KeyboardInterrupt:
            assert self._running
            self._running.stop()
            self.wait()
            raise self._running.error or KeyboardInterrupt from None

    def _begin(self, work: "Callable[[Watcher], SearchResult]") -> "Search":
        shown = progress()

        def end(result: "SearchResult | None", error: BaseException | None) -> None:
            shown.end(ended(result.summary, result.name) if result else str(error))

        self._running = Background(work, shown, end)
        return self

    def _named(self, name: str) -> None:
        self._name, self._written = name, True

    def _check_idle(self) -> None:
        if self._running and self._running.alive:
            raise UsageError(f"search {self._name or '(preparing)'!r} runs already: .wait() or .stop() first")

    def _check_started(self) -> None:
        if not self._written and self._running and self._running.alive:
            raise UsageError("this search is being prepared, its data are read: try again in a moment")
        super()._check_started()

    # -- standing

    @property
    def name(self) -> str:
        """Name of the search; empty as long as it has none."""
        return self._name

    @property
    def state(self) -> str:
        """Where it stands: new, preparing, running, finished, interrupted or failed."""
        running = self._running
        if running and not running.alive and running.error and not isinstance(running.error, SearchInterrupted):
            return "failed"
        if not self._written:
            return "preparing" if running else "new"
        return self.status.state

    @property
    def result(self) -> "SearchResult | None":
        """What this session's run returned (also the test of the winner); ``None`` until it has ended."""
        return self._running.result if self._running else None

    # -- showing itself

    def __repr__(self) -> str:
        """Return e.g. ``Search('digits-1', finished, 30 trials, best val_accuracy 0.9965)``."""
        if not self._written:
            return f"Search({self._settings.data!r}, {self.state})"
        row = self.status
        best = "" if row.value is None else f", best {row.objective.partition(':')[0]} {row.value:.4f}"
        return f"Search({self._name!r}, {self.state}, {row.trials} trials{best})"

    def _repr_html_(self) -> str:
        from detol.notebook import card

        error = str(self._running.error) if self.state == "failed" and self._running else ""
        if not self._written:
            shown = {"data": self._settings.data, "space": self._settings.space, "strategy": self._settings.strategy}
            return card.card("a search", self.state, "", shown, "", error=error)
        with self._asked() as query:
            row = query.status(self._name)
            rows = query.top(search=self._name, limit=card.TOP) if row.value is not None else []
            drawing = TrialView.read(query, self._name).drawing if row.value is not None else None
        return card.search_card(row, rows, drawing, state=self.state, error=error)


def _fixed(db: Any) -> Any:
    """Return where a results database is, whatever the working directory becomes."""
    if db is None or db == "":
        return str((config.runs_directory() / "results.db").absolute())
    if not isinstance(db, str | PathLike):
        return db  # refused with the other settings
    where = str(db)
    return where if "://" in where else str(Path(where).expanduser().absolute())
