"""How a search and what it found show themselves in a notebook: HTML in which everything is escaped.

Styles stand at the elements and borrow the colours of the page, so that the cards fit light and dark notebooks.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from detol.dashboards.progress import clock
from detol.search.records import State

if TYPE_CHECKING:
    from detol.notebook.drawing import Drawing
    from detol.result import SearchResult
    from detol.results.query import SearchRow, TopRow

TOP = 5
"""Rows of a card's leaderboard."""
PICTURE = 320
"""Height of a card's drawing, in pixels."""
_COLOURS = {
    "running": "#2563eb",
    "preparing": "#2563eb",
    "finished": "#15803d",
    "completed": "#15803d",
    "interrupted": "#b45309",
    "stopped": "#b45309",
    "paused": "#b45309",
    "failed": "#b91c1c",
}
_LINES = (*(str(state) for state in State if state is not State.RUNNING), "running")


def search_card(
    row: "SearchRow", rows: Sequence["TopRow"], drawing: "Drawing | None", *, state: str, error: str = ""
) -> str:
    """Return a search: where it stands, its leaderboard, and its best topology.

    Args:
        row: the search.
        rows: of its leaderboard.
        drawing: of its best topology.
        state: what is shown as its state.
        error: why it ended, when it went wrong.
    """
    counts = ", ".join(f"{row.states[name]} {words(name)}" for name in _LINES if row.states.get(name))
    budget = f" of {row.budget}" if row.budget else ""
    facts = {
        "data": row.data,
        "space": row.space,
        "strategy": row.strategy,
        "stop": row.stopper,
        "seed": row.seed,
        "trials": f"{row.trials}{budget}{f' ({counts})' if counts else ''}",
        "trained": f"{row.trained} ({row.epochs_trained} epochs), {row.reused} reused",
        "time": f"{clock(row.seconds)} min",
    }
    best = ""
    if row.value is not None:
        best = f"best {metric(row.objective)} <b>{number(row.value)}</b> (trial {escape(row.best.rpartition('/')[2])})"
    return card(row.name, state, best, facts, table(list(map(_line, rows))), drawing, error)


def result_card(result: "SearchResult") -> str:
    """Return what a search found: of ``detol.search``, ``detol.optimize`` and ``detol.resume``."""
    from detol.notebook.drawing import Drawing

    objective, best = result.objectives[0], result.best
    said, drawing, facts = "", None, {"ended": result.ended, "trials": str(len(result.trials))}
    if best is not None:
        value = number(objective.score(best.score))
        said = f"best {metric(objective.metric)} <b>{value}</b> (trial {best.number})"
        drawing = Drawing(best.candidate.topology, title=f"the topology of trial {best.number}")
    if result.test:
        facts["test"] = ", ".join(f"{name} {number(value)}" for name, value in result.test.items())
    if "seconds" in result.summary:
        facts["time"] = f"{clock(result.summary['seconds'])} min"
    scored = [trial for trial in result.trials if trial.state is State.COMPLETED and math.isfinite(trial.score)]
    scored = scored or [trial for trial in result.trials if math.isfinite(trial.score)]
    rows = [
        {
            "trial": str(trial.number),
            objective.metric: number(objective.score(trial.score)),
            "state": trial.state,
            "origin": trial.candidate.note or str(trial.candidate.origin),
        }
        for trial in sorted(scored, key=lambda trial: (-trial.score, -trial.tie_break))[:TOP]
    ]
    return card(result.name, "finished", said, facts, table(rows), drawing)


def trial_card(shown: Mapping[str, Any], drawing: "Drawing") -> str:
    """Return one trial, as ``detol results show`` tells it."""
    cost = shown["cost"] or {}
    parents = ", ".join(shown["parents"])
    facts = {
        "origin": " of ".join(filter(None, (shown["note"] or shown["origin"], parents))),
        "epochs": f"{shown['epoch']} of {shown['epochs']}",
        "parameters": amount(cost.get("params")),
        "multiply-adds": amount(cost.get("multiply_adds")),
        "time": f"{clock(shown['seconds'] or 0.0)} min",
        "reused": shown["reused"],
        "reason": shown["reason"],
        "digest": shown["digest"][:19],
        "decisions": ", ".join(f"{name}={value}" for name, value in shown["decisions"].items()),
    }
    said = "" if shown["value"] is None else f"{metric(shown['metric'])} <b>{number(shown['value'])}</b>"
    return card(shown["trial"], shown["state"], said, {key: fact for key, fact in facts.items() if fact}, "", drawing)


def card(
    title: str,
    state: str,
    said: str,
    facts: Mapping[str, str],
    body: str,
    drawing: "Drawing | None" = None,
    error: str = "",
) -> str:
    """Return a card. ``said`` and ``body`` are HTML, all else is text."""
    colour = _COLOURS.get(state, "#64748b")
    badge = (
        f'<span style="color:#fff;background:{colour};border-radius:9px;padding:1px 8px">{escape(words(state))}</span>'
    )
    wrong = f'<div style="color:{_COLOURS["failed"]}">{escape(error)}</div>' if error else ""
    listed = "".join(
        f'<div><span style="opacity:.65">{escape(name)}</span> {escape(str(fact))}</div>'
        for name, fact in facts.items()
        if fact
    )
    picture = f'<div style="text-align:center;min-width:0">{drawing.image(PICTURE)}</div>' if drawing else ""
    return (
        '<div style="font-size:13px;line-height:1.5;border:1px solid rgba(128,128,128,.4);border-radius:6px;'
        'padding:10px 14px;max-width:64em">'
        f'<div style="margin-bottom:6px"><b>{escape(title)}</b> {badge} {said}</div>{wrong}'
        '<div style="display:flex;flex-wrap:wrap;gap:8px 28px;align-items:flex-start">'
        f'<div style="flex:1 1 24em;min-width:0;overflow-wrap:anywhere">{listed}{body}</div>{picture}</div></div>'
    )


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table of text; empty without rows."""
    if not rows:
        return ""
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in rows[0])
    lines = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row.values()) + "</tr>"
        for row in rows
    )
    return f'<table style="margin:8px 0 0;font-size:13px"><tr>{head}</tr>{lines}</table>'


def words(name: str) -> str:
    """Return a name as people write it: ``out of memory``."""
    return name.replace("_", " ")


def metric(name: str) -> str:
    """Return the name of a metric, escaped."""
    return escape(name.partition(":")[0])


def number(value: float) -> str:
    """Return a metric with four digits behind the point, or in powers of ten where that would say nothing."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.4f}"
    return f"{value:.4g}"


def amount(value: Any) -> str:
    """Return a count with its thousands apart; empty where it is unknown."""
    return "" if value is None else f"{value:,}"


def _line(row: "TopRow") -> dict[str, str]:
    return {
        "trial": row.trial.rpartition("/")[2],
        row.metric: number(row.value),
        "parameters": amount(row.params),
        "epochs": f"{row.epoch} of {row.epochs}",
        "state": row.state,
        "origin": row.note or row.origin,
    }
