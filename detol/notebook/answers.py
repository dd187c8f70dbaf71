"""What a search in a notebook can be asked, and what it gives away: all of it read from the results database."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol import wire
from detol.config import Settings
from detol.errors import UsageError
from detol.notebook import frames
from detol.notebook.figures import Figures
from detol.notebook.trial import TrialView
from detol.results.query import Query, SearchRow
from detol.search.records import Objective, parse_objective

if TYPE_CHECKING:
    import pandas as pd


class Answers(Figures):
    """Answers about the search ``_name`` of the database that ``_settings`` name, as soon as it is ``_written``.

    Every answer is a state of the search at one moment; while it runs, the next one may differ.
    """

    _settings: Settings
    _name: str
    _written: bool

    @property
    def status(self) -> SearchRow:
        """Its figures so far, as ``detol status NAME`` shows them."""
        with self._asked() as query:
            return query.status(self._name)

    @property
    def trials(self) -> "pd.DataFrame":
        """All trials by number: state, origin, objectives, epochs, costs, seconds, reason."""
        with self._asked() as query:
            return frames.trials(query, self._name, self._objectives(query))

    @property
    def decisions(self) -> "pd.DataFrame":
        """The decisions of all trials by number, a column for each."""
        with self._asked() as query:
            return frames.decisions(query.decisions(self._name))

    def results(self, limit: int = 10, metric: str | None = None) -> "pd.DataFrame":
        """Return the leaderboard: the best trial of each topology.

        Args:
            limit: rows at most.
            metric: ``METRIC[:min|max]`` to rank by; the primary objective by default.
        """
        with self._asked() as query:
            return frames.rows_frame(query.top(search=self._name, limit=limit, metric=metric))

    def front(self, *objectives: str) -> "pd.DataFrame":
        """Return the trials that none beats in all objectives at once (default: ``score`` and ``params``)."""
        with self._asked() as query:
            return frames.rows_frame(query.front(objectives or ("score", "params"), search=self._name))

    def curves(self, *numbers: int) -> "pd.DataFrame":
        """Return the learning curves of some trials, or of all: trial, epoch, value of the primary objective."""
        with self._asked() as query:
            wanted = numbers or [point.number for point in query.points(self._name)]
            metric = self._objectives(query)[0].metric
            return frames.curves(query.curves(self._name, wanted), metric)

    @property
    def best(self) -> TrialView:
        """The best trial: it shows itself with its topology drawn.

        Raises:
            ResultsError: no trial has a score yet.
        """
        return self.trial()

    def trial(self, number: int | None = None) -> TrialView:
        """Return one trial, or the best one."""
        with self._asked() as query:
            return TrialView.read(query, self._name if number is None else f"{self._name}/{number}")

    def similar(self, trial: int | None = None, *, limit: int = 10, by: str = "features") -> "pd.DataFrame":
        """Return the scored topologies of the whole database that are nearest to one; what ``results similar`` does.

        Args:
            trial: number of the trial; by default the best.
            limit: rows at most.
            by: what is compared: ``features``, read from the graph, or ``svge``, a learned encoder.
        """
        from detol.embedding.embedders import embedder
        from detol.results.similarity import similar

        self._check_started()
        ref = self._name if trial is None else f"{self._name}/{trial}"
        with wire.database(self._settings.db, create=False) as database:
            return frames.rows_frame(similar(database, ref, embedder(by), limit=limit))

    # -- to take away

    def export(
        self,
        to: "str | PathLike[str]",
        formats: Sequence[str] = (),
        *,
        trial: int | None = None,
        retrain: int = 0,
        with_data: bool = False,
    ) -> Mapping[str, Any]:
        """Export the best trial, or one; return the certificate. What ``detol export`` does.

        Args:
            to: directory to write; new, or empty.
            formats: some of ``onnx``, ``torch``, ``python``, ``mlflow``; the first three by default.
            trial: number of the trial; by default the best.
            retrain: also train it from scratch on train plus validation with so many seeds.
            with_data: whether the data are written too.

        Raises:
            UsageError: no such trial, one without weights, or a destination that is not free.
        """
        from detol import handover

        self._check_started()
        ref = self._name if trial is None else f"{self._name}/{trial}"
        return handover.export_trial(ref, Path(to), formats, db=self._settings.db, retrain=retrain, with_data=with_data)

    def report(
        self, to: "str | PathLike[str]", *, png: "str | PathLike[str] | None" = None, force: bool = False
    ) -> Mapping[str, Any]:
        """Write the report, one HTML file; return where it is and how large. What ``detol report`` does.

        Args:
            to: the file.
            png: where the pictures go as PNG too: a directory, or one file.
            force: whether what is there is replaced.

        Raises:
            UsageError: no trial with a score, or a destination that is taken.
        """
        from detol import reproduce
        from detol.dashboards.report.writer import write_report

        with self._asked() as query:
            command = reproduce.of_search(query, self._name)
            return write_report(
                query, self._name, Path(to), png=Path(png) if png else None, command=command, force=force
            )

    @contextmanager
    def _asked(self) -> Iterator[Query]:
        self._check_started()
        with wire.database(self._settings.db, create=False) as database:
            yield Query(database)

    def _objectives(self, query: Query) -> tuple[Objective, ...]:
        return tuple(map(parse_objective, query.settings(self._name)["objectives"]))

    def _check_started(self) -> None:
        if not self._written:
            raise UsageError("this search has not been started: .run(), or .start() in the background")
