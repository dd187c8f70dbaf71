"""The pictures of a report as plotly figures, one at a time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from detol.errors import unknown
from detol.results.query import Query

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from detol.dashboards.report.facts import Facts
    from detol.dashboards.report.picture import Picture

RESAMPLES = 100
"""Bootstrap samples behind the intervals of :meth:`Figures.plot_importance`: enough to look at, in some seconds."""


class Figures:
    """Figures of the search ``_name``, read from what ``_asked`` opens.

    What there is nothing to draw of is an empty figure that says so.
    """

    _name: str
    _asked: Callable[[], AbstractContextManager[Query]]

    def plot_progress(self, against: str = "trials") -> "Figure":
        """Return the best so far, beside what random search reaches where one is in the database.

        Args:
            against: ``trials``, ``epochs`` or ``time``.
        """
        from detol.dashboards.report import progress

        if against not in progress.WAYS:
            raise unknown("budget to plot against", against, progress.WAYS)
        way = progress.WAYS.index(against)
        return self._figure(lambda facts: progress.pictures(facts)[way])

    def plot_front(self) -> "Figure":
        """Return the primary objective against the second one, or against parameters, the front marked."""
        from detol.dashboards.report import trials

        return self._figure(trials.front)

    def plot_curves(self) -> "Figure":
        """Return the learning curves, with a mark where a trial was stopped or rests; the winner stands out."""
        from detol.dashboards.report import trials

        return self._figure(trials.curves)

    def plot_importance(self, *, options: bool = False, resamples: int = RESAMPLES) -> "Figure":
        """Return which decisions matter, with intervals.

        Args:
            options: what the options of the most important ones are worth, in their place.
            resamples: bootstrap samples behind the intervals; more take longer.
        """
        from detol.dashboards.report import choices

        place = -1 if options else 0
        return self._figure(lambda facts: choices.pictures(facts, choices.answer(facts, resamples))[place])

    def plot_lineage(self) -> "Figure":
        """Return where the winner comes from."""
        from detol.dashboards.report import trials

        return self._figure(trials.lineage)

    def plot_workers(self) -> "Figure":
        """Return how many workers trained at which time."""
        from detol.dashboards.report import workers

        return self._figure(workers.busy_picture)

    def _figure(self, draw: "Callable[[Facts], Picture]") -> "Figure":
        from detol.dashboards.report.facts import read
        from detol.dashboards.report.interactive import escape, figure

        with self._asked() as query:
            picture = draw(read(query, self._name))
        made = figure(picture)
        if picture.empty:
            made.add_annotation(text=escape(picture.empty), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
            made.update_xaxes(visible=False)
            made.update_yaxes(visible=False)
        return made
