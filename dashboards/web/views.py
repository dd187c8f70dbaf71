"""What the pages of searches and of the database show, as their templates take it."""

from collections.abc import Mapping
from typing import Any

from detol.dashboards.web import figures
from detol.dashboards.web.chart import sparkline
from detol.dashboards.web.trial_view import SIMILAR
from detol.errors import ResultsError
from detol.results.query import Filter, Query
from detol.search.records import Objective, State, parse_objective

SEARCHES_PAGE = 50
TRIALS_PAGE = 50
COLUMNS = (
    ("number", "trial"),
    ("state", "state"),
    ("value", ""),
    ("epoch", "epoch"),
    ("params", "parameters"),
    ("multiply_adds", "multiply-adds"),
    ("seconds", "time"),
    ("origin", "origin"),
)
"""Columns of the table of trials that it can be sorted by, and their headings (empty: the objective)."""


def searches_view(query: Query, page: int) -> dict[str, Any]:
    """Return the page of all searches."""
    stats = query.stats()
    pages = max(1, -(-stats["searches"] // SEARCHES_PAGE))
    page = min(max(page, 1), pages)
    rows = query.searches(SEARCHES_PAGE, (page - 1) * SEARCHES_PAGE)
    return {"rows": rows, "stats": stats, "page": page, "pages": pages, "live": any(r.state == "running" for r in rows)}


def objectives_of(query: Query, name: str) -> list[Objective]:
    """Return the objectives of a search, the primary one first."""
    return [parse_objective(text) for text in query.settings(name)["objectives"]] or [Objective("score")]


def search_view(query: Query, name: str, options: Mapping[str, str], page: int) -> dict[str, Any]:
    """Return the page of one search.

    Args:
        query: of the database.
        name: of the search.
        options: ``state``, ``origin``, ``text`` filter the table; ``sort``, ``order`` (asc, desc) sort it; ``against``
            is the second axis of the front.
        page: of the table.

    Raises:
        ResultsError: no such search.
        UsageError: an unknown column to sort by.
    """
    row = query.status(name)
    objectives = objectives_of(query, name)
    first = objectives[0]
    sort = options.get("sort") or "number"
    falling = options["order"] == "desc" if options.get("order") else sort == "number"
    which = Filter(*(options.get(key, "") for key in ("state", "origin", "text")))
    found = query.points(name)
    counts = query.counts(name)
    running, best, others = figures.choose_curves(found, first)
    drawn = query.curves(name, [*running, *best, *others])
    now = query.some(name, running)
    return {
        "row": row,
        "objectives": objectives,
        "label": figures.name_of(first.metric),
        "counts": counts,
        "charts": figures.figures(name, found, objectives, options.get("against", "")),
        "curves": figures.curves_chart(name, found, first, drawn, running, best),
        "drawn": len(drawn),
        "alive": [
            (trial, sparkline([v for _, v in drawn.get(trial.number, [])]), _last(drawn, trial)) for trial in now
        ],
        "more_alive": max(0, counts["state"].get("running", 0) - len(running)),
        "resting": counts["state"].get("paused", 0),
        "table": query.trials(name, which, sort=sort, descending=falling, page=max(page, 1), size=TRIALS_PAGE),
        "columns": [(key, heading or figures.name_of(first.metric)) for key, heading in COLUMNS],
        "sort": sort,
        "falling": falling,
        "best_first": {"value": "asc" if first.minimise else "desc", "number": "desc", "epoch": "desc"},
        "options": {key: value for key, value in options.items() if value},
        "states": [str(state) for state in State],
        "live": row.state == "running",
    }


def _last(drawn: Mapping[int, Any], trial: Any) -> float | None:
    curve = drawn.get(trial.number)
    return curve[-1][1] if curve else None


def database_view(query: Query, data: str, metric: str) -> dict[str, Any]:
    """Return the page of the database: totals, data sets, spaces, and the best topologies on one data set.

    Raises:
        ResultsError: no such data set or metric.
    """
    sets, stats = query.data_sets(), query.stats()
    used = [row for row in sets if row["trials"]]
    if data and data not in {row["digest"] for row in sets} | {row["name"] for row in sets}:
        query.top(data=data, limit=1)  # raises with near names
    chosen = data or (used[0]["digest"] if used else "")
    try:
        top = query.top(data=chosen, metric=metric or None, limit=20) if chosen else []
    except ResultsError:
        if metric:
            raise
        top = []
    return {
        "stats": stats,
        "sets": sets,
        "spaces": query.spaces(),
        "top": top,
        "similar": query.similar(top[0].trial, SIMILAR) if top else [],
        "chosen": chosen,
        "metric": metric,
        "metrics": ("score", "params", "multiply_adds", "activation_bytes", "depth", "seconds"),
    }
