"""The charts of a search and of a trial."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from detol.dashboards.web.axis import Axis, short
from detol.dashboards.web.chart import Dot, Line, chart
from detol.dashboards.web.links import trial_url
from detol.results.query import CurveRow, Point, front_of
from detol.search.records import Objective, parse_objective

RUNNING_SHOWN, BEST_CURVES, OTHER_CURVES = 24, 6, 48
_NAMES = {
    "params": "parameters",
    "multiply_adds": "multiply-adds",
    "activation_bytes": "activation bytes of a sample",
    "depth": "depth (operations)",
    "seconds": "training seconds",
}
_ORDER = ("completed", "stopped", "paused")


@dataclass(frozen=True)
class Figures:
    """The charts of one search, and what can stand against the objective in the first one."""

    front: Markup
    progress: Markup
    against: str
    choices: tuple[tuple[str, str], ...]


def name_of(metric: str) -> str:
    """Return what a metric or a cost is called."""
    return _NAMES.get(metric, metric.replace("_", " "))


def better_way(objective: Objective) -> str:
    """Return the label of an objective's axis, with the direction in which it is better."""
    return f"{name_of(objective.metric)} ({'lower' if objective.minimise else 'higher'} is better)"


def figures(search: str, found: Sequence[Point], objectives: Sequence[Objective], against: str = "") -> Figures:
    """Return the charts of a search; ``against``: the second objective, or a cost (default: parameters)."""
    first = objectives[0]
    names = [*(objective.metric for objective in objectives[1:]), *_NAMES]
    present = {name for point in found for name in point.values}
    choices = tuple((name, name_of(name)) for name in dict.fromkeys(names) if name in present)
    known = [name for name, _ in choices]
    against = against if against in known else known[0] if known else "params"
    given = {objective.metric: objective for objective in objectives}
    second = given.get(against) or Objective(against, minimise=against == "depth" or parse_objective(against).minimise)
    return Figures(_front(search, found, first, second), _progress(search, found, first), against, choices)


def _say(point: Point, metrics: Sequence[str]) -> str:
    values = ", ".join(f"{name_of(name)} {short(point.values[name])}" for name in metrics if name in point.values)
    return f"trial {point.number}: {values}; {point.origin}, {point.state} at epoch {point.epoch}"


def _told(search: str, point: Point, metrics: Sequence[str], more: str = "") -> Callable[[], tuple[str, str]]:
    """Return what a dot says and leads to, made only when it is drawn: most of 10,000 lie on one another."""
    return lambda: (_say(point, metrics) + more, trial_url(search, point.number))


def _look(point: Point) -> str:
    return "reused" if point.reused else point.state


def _front(search: str, found: Sequence[Point], first: Objective, second: Objective) -> Markup:
    both = [p for p in found if first.metric in p.values and second.metric in p.values]
    kept = front_of(both, first, second)
    on_front = {point.number for point in kept}
    amounts = [point.values[second.metric] for point in both]
    log = bool(amounts) and min(amounts) > 0 and max(amounts) / min(amounts) > 10
    metrics = (first.metric, second.metric)
    dots = [
        Dot(
            point.values[second.metric],
            point.values[first.metric],
            "best" if point.number in on_front else _look(point),
            _told(search, point, metrics, ", on the front" if point.number in on_front else ""),
            key=point.number in on_front,
        )
        for point in both
    ]
    line = Line([(p.values[second.metric], p.values[first.metric]) for p in kept[::-1]], "front", steps=True)
    return chart(
        f"{name_of(first.metric)} against {name_of(second.metric)}, the front marked",
        Axis.around(amounts, name_of(second.metric) + (" (log)" if log else ""), log=log),
        Axis.around([point.values[first.metric] for point in both], better_way(first)),
        lines=[line],
        dots=dots,
        empty="no trial has a score yet",
    )


def _progress(search: str, found: Sequence[Point], first: Objective) -> Markup:
    scored = [point for point in found if first.metric in point.values]
    values = [point.values[first.metric] for point in scored]
    y = Axis.around(values, better_way(first))
    best: list[tuple[float, float]] = []
    for point in scored:
        value = point.values[first.metric]
        if point.state == "completed" and (not best or first.score(value) > first.score(best[-1][1])):
            best.append((point.number, value))
    last = max((point.number for point in found), default=0)
    if best:
        best.append((last, best[-1][1]))
    dots = [Dot(p.number, p.values[first.metric], _look(p), _told(search, p, (first.metric, "params"))) for p in scored]
    without = [p for p in found if first.metric not in p.values and p.state not in ("running", "paused")]
    dots += [
        Dot(
            p.number,
            y.low,
            "refused" if p.state == "refused" else "failed",
            _told(search, p, ("params",)),
        )
        for p in without
    ]
    return chart(
        f"{name_of(first.metric)} of each trial, and the best so far",
        Axis.around([0, last or 1], "trial", whole=True),
        y,
        lines=[Line(best, "front", steps=True)],
        dots=dots,
        empty="no trial has a score yet",
    )


def choose_curves(found: Sequence[Point], first: Objective) -> tuple[list[int], list[int], list[int]]:
    """Return the trials whose curves are drawn: the running ones, the best ones, and of the others evenly some."""
    running = [point.number for point in found if point.state == "running"][-RUNNING_SHOWN:]
    scored = [point for point in found if first.metric in point.values and point.state != "running"]
    scored.sort(key=lambda p: (p.state != "completed", -first.score(p.values[first.metric])))
    best = [point.number for point in scored[:BEST_CURVES]]
    others = sorted(point.number for point in scored[BEST_CURVES:])
    every = max(1, -(-len(others) // OTHER_CURVES))
    return running, best, others[::every]


def curves_chart(
    search: str,
    found: Sequence[Point],
    first: Objective,
    drawn: Mapping[int, Sequence[tuple[int, float]]],
    running: Sequence[int],
    best: Sequence[int],
) -> Markup:
    """Return the learning curves of a search: running ones and the best ones stand out; a dot where one was stopped."""
    states = {point.number: point.state for point in found}
    lines, dots = [], []
    for number, curve in sorted(drawn.items(), key=lambda pair: (pair[0] in running, pair[0] in best)):
        look = "now" if number in running else "front" if number in best else "faint"
        state = states.get(number, "")
        title = f"trial {number}: {first.metric} {short(curve[-1][1])} at epoch {curve[-1][0]}, {state}"
        url = trial_url(search, number)
        lines.append(Line([(float(epoch), value) for epoch, value in curve], look, title, url))
        if state in ("stopped", "paused", "running"):
            dots.append(Dot(float(curve[-1][0]), curve[-1][1], state, title, url))
    epochs = [float(epoch) for curve in drawn.values() for epoch, _ in curve]
    return chart(
        "learning curves",
        Axis.around([1.0, *epochs], "epoch", whole=True),
        Axis.around([value for curve in drawn.values() for _, value in curve], better_way(first)),
        lines=lines,
        dots=dots,
        empty="no report yet",
    )


def trial_charts(curve: Sequence[CurveRow], primary: str) -> list[tuple[str, Markup]]:
    """Return a chart for each metric of a trial's reports, the primary one first."""
    names = sorted({name for row in curve for name in row.metrics}, key=lambda name: (name != primary, name))
    return [(name, _metric(name, [(row.epoch, row.metrics.get(name)) for row in curve])) for name in names]


def _metric(name: str, pairs: Sequence[tuple[int, float | None]]) -> Markup:
    points = [(float(epoch), value) for epoch, value in pairs if value is not None and abs(value) < float("inf")]
    return chart(
        f"{name_of(name)} by epoch",
        Axis.around([1.0, *(float(epoch) for epoch, _ in pairs)], "epoch", whole=True),
        Axis.around([value for _, value in points], name_of(name)),
        lines=[Line(points, "front")],
        dots=[Dot(epoch, value, "best", f"epoch {epoch:g}: {name_of(name)} {short(value)}") for epoch, value in points],
        empty="no finite value",
    )


def two_curves(refs: Sequence[str], both: Sequence[Sequence[CurveRow]], metric: str) -> Markup:
    """Return the learning curves of two trials in one chart."""
    lines, dots = [], []
    for ref, curve, look in zip(refs, both, ("first", "second"), strict=True):
        points = [(float(row.epoch), row.value) for row in curve if abs(row.value) < float("inf")]
        lines.append(Line(points, look))
        dots += [Dot(epoch, value, look, f"{ref}, epoch {epoch:g}: {short(value)}") for epoch, value in points]
    return chart(
        f"learning curves of {' and '.join(refs)}",
        Axis.around([1.0, *(dot.x for dot in dots)], "epoch", whole=True),
        Axis.around([dot.y for dot in dots], name_of(metric)),
        lines=lines,
        dots=dots,
        empty="no report yet",
    )
