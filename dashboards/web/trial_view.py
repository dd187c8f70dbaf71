"""What the pages of one trial, and of two compared, show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from detol.dashboards.web import figures
from detol.errors import DetolError
from detol.graph.cost import Cost, node_costs
from detol.graph.difference import difference
from detol.graph.draw import svg
from detol.graph.topology import Topology
from detol.results.query import Found, Query
from detol.search.records import Trial

_FACTS = (
    "state",
    "origin",
    "note",
    "epoch",
    "epochs",
    "attempt",
    "width",
    "seed",
    "seconds",
    "weights",
    "created",
    "ended",
)
SIMILAR = 8
"""Similar topologies that are shown."""
_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")


@dataclass(frozen=True)
class NodeCost:
    """A row of the table of costs: a node, what it is, what it costs, and its shares of the whole."""

    node: str
    what: str
    cost: Cost
    params: float
    multiply_adds: float


def trial_view(query: Query, ref: str) -> dict[str, Any]:
    """Return the page of one trial.

    Raises:
        ResultsError: no such trial, or several that could be meant.
    """
    found = query.resolve(ref)
    shown = query.show(found.ref)
    topology, number = found.trial.candidate.topology, found.trial.number
    shape, outputs = query.sample_of(found)
    costs, problem = _costs(topology, shape, outputs)
    total = query.status(found.search).trials
    return {
        "found": found,
        "trial": found.trial,
        "shown": shown,
        "facts": [(key, shown[key]) for key in _FACTS if shown[key] not in ("", None)],
        "charts": figures.trial_charts(query.curve(found.ref), shown["metric"]),
        "drawing": drawing(topology, () if problem else shape),
        "costs": costs,
        "problem": problem,
        "parents": query.some(found.search, found.trial.candidate.parents),
        "children": query.children(found.search, number),
        "lineage": query.lineage(found.ref)[1:],
        "similar": query.similar(found.ref, SIMILAR),
        "before": number - 1 if number else None,
        "after": number + 1 if number + 1 < total else None,
        "log": _log(found.trial),
        "live": not found.trial.state.final,
    }


def drawing(topology: Topology, shape: Sequence[int], **options: Any) -> Markup:
    """Return the drawing of a topology for a page that holds the style sheet of drawings."""
    return Markup(svg(topology, shape or None, style=False, **options))  # noqa: S704  draw escapes all text


def _costs(topology: Topology, shape: Sequence[int], outputs: int | None) -> tuple[list[NodeCost], str]:
    """Return the cost of each node, or why there is none to give."""
    if not shape or outputs is None:
        return [], "the shape of the data is not known"
    try:
        found = node_costs(topology, shape, outputs)
    except DetolError as error:
        return [], str(error)
    params = sum(cost.params for cost in found.values()) or 1
    adds = sum(cost.multiply_adds for cost in found.values()) or 1
    return [
        NodeCost(name, _what(topology, name), cost, cost.params / params, cost.multiply_adds / adds)
        for name, cost in found.items()
    ], ""


def _what(topology: Topology, name: str) -> str:
    node = topology.nodes.get(name)
    if node is None:
        return "the head" if name == "head" else "projection"
    return f"cell of {len(node.nodes)} nodes" if isinstance(node, Topology) else str(node)


def _log(trial: Trial) -> list[tuple[str, str]]:
    """Return what is recorded of how the trial went: the reason of its end, and further facts."""
    costs = {*_COSTS, "memory"}
    lines = [("ended", trial.reason)] if trial.reason else []
    if trial.reused:
        lines.append(("answered by", trial.reused))
    return lines + [(key.replace("_", " "), str(value)) for key, value in trial.extra.items() if key not in costs]


def compare_view(query: Query, first: str, second: str) -> dict[str, Any]:
    """Return the page that compares two trials.

    Raises:
        ResultsError: no such trial, or several that could be meant.
    """
    both = [query.resolve(ref) for ref in (first, second)]
    shown = [query.show(found.ref) for found in both]
    one, two = (found.trial.candidate.topology for found in both)
    differs = difference(one, two)
    shapes = [_drawable(query, found) for found in both]
    curves = [query.curve(found.ref) for found in both]
    same_metric = shown[0]["metric"] == shown[1]["metric"]
    return {
        "refs": [found.ref for found in both],
        "shown": shown,
        "same": both[0].trial.digest == both[1].trial.digest,
        "differs": differs,
        "drawings": [drawing(one, shapes[0], marks=differs.first), drawing(two, shapes[1], marks=differs.second)],
        "facts": _facts(shown),
        "decisions": _decisions(shown),
        "curves": figures.two_curves([found.ref for found in both], curves, shown[0]["metric"]) if same_metric else "",
    }


def _drawable(query: Query, found: Found) -> tuple[int, ...]:
    """Return the shape of a sample, if the topology fits it."""
    shape, outputs = query.sample_of(found)
    return () if _costs(found.trial.candidate.topology, shape, outputs)[1] else shape


def _facts(shown: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any], float | None]]:
    """Return rows of (name, the two values, relative change where both are numbers)."""
    rows: list[tuple[str, list[Any], float | None]] = []
    values: dict[str, list[Any]] = {shown[0]["metric"]: [part["value"] for part in shown]}
    values |= {name: [(part["cost"] or {}).get(name) for part in shown] for name in _COSTS}
    values |= {name: [part[name] for part in shown] for name in ("seconds", "epoch", "state", "origin")}
    for name, pair in values.items():
        change = None
        if all(isinstance(value, int | float) for value in pair) and pair[0]:
            change = (pair[1] - pair[0]) / abs(pair[0])
        rows.append((name, pair, change))
    return rows


def _decisions(shown: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the decisions that differ, by name."""
    names = dict.fromkeys([*shown[0]["decisions"], *shown[1]["decisions"]])
    pairs = [(name, [part["decisions"].get(name) for part in shown]) for name in names]
    return [(name, pair) for name, pair in pairs if pair[0] != pair[1]]
