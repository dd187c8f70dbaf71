"""Pictures of the trials of a search: the front, their learning curves, and where the winner comes from."""

import math
from collections.abc import Mapping, Sequence

from detol.dashboards.report.facts import Curves, Facts, look_of
from detol.dashboards.report.picture import Axis, Dots, Line, Mark, Picture
from detol.dashboards.web.axis import short
from detol.dashboards.web.figures import better_way, name_of
from detol.results.query import LineRow, Record
from detol.search.records import Objective, State, parse_objective

CURVES = 300
"""Learning curves that are drawn: the best ones."""
CHANGES = 6
"""Changed decisions that are told at an ancestor."""


def front(facts: Facts) -> Picture:
    """Return the picture of the front: the primary objective against the second one, or against parameters."""
    first, second = facts.first, second_of(facts)
    both = [record for record in facts.scored if second.metric in record.values]
    kept = on_front(facts)
    numbers = {record.number for record in kept}
    amounts = [record.values[second.metric] for record in both]
    log = bool(amounts) and min(amounts) > 0 and max(amounts) / min(amounts) > 10
    marks: list[Mark] = []
    groups: dict[str, list[Record]] = {}
    for record in both:
        if record.number not in numbers:
            groups.setdefault(look_of(record), []).append(record)
    for look, records in groups.items():
        marks.append(_dots(facts, records, second, look, look))
    marks.append(
        Line(
            [record.values[second.metric] for record in kept],
            [record.values[first.metric] for record in kept],
            "front",
            steps=True,
        )
    )
    marks.append(_dots(facts, kept, second, "front", "front"))
    references = [record for record in both if record.origin == "reference" and record.note]
    if references:
        marks.append(_dots(facts, references, second, "reference", "reference"))
    return Picture(
        key="front",
        title=f"{name_of(first.metric)} against {name_of(second.metric)}",
        x=Axis(name_of(second.metric) + (" (log)" if log else ""), log=log),
        y=Axis(better_way(first)),
        marks=marks,
        note="On the front lie the trials that trained to their end and that none beats in both at once.",
        empty="" if both else f"no trial has both a score and a known {name_of(second.metric)}",
    )


def second_of(facts: Facts) -> Objective:
    """Return the second objective of the front: the search's own, or parameters."""
    return facts.objectives[1] if len(facts.objectives) > 1 else parse_objective("params")


def on_front(facts: Facts) -> list[Record]:
    """Return the trials on the front, by the second objective, the least first."""
    first, second = facts.first, second_of(facts)
    done = [record for record in facts.completed if second.metric in record.values]
    done.sort(
        key=lambda r: (-first.score(r.values[first.metric]), -second.score(r.values[second.metric]), r.number),
    )
    kept: list[Record] = []
    for record in done:  # by the first objective: only a better second one is unbeaten
        if not kept or second.score(record.values[second.metric]) > second.score(kept[-1].values[second.metric]):
            kept.append(record)
    return sorted(kept, key=lambda record: record.values[second.metric])


def _dots(facts: Facts, records: Sequence[Record], second: Objective, look: str, name: str) -> Dots:
    return Dots(
        [record.values[second.metric] for record in records],
        [record.values[facts.first.metric] for record in records],
        look,
        name,
        [facts.say(record) for record in records],
        [record.number for record in records],
    )


def curves(facts: Facts) -> Picture:
    """Return the picture of the learning curves, with a mark where a trial was stopped, or rests.

    Those that were trained here, of many the best ``CURVES``; and the winner's.
    """
    records = {record.number: record for record in facts.records}
    winner, known = facts.winner.number, facts.curves
    trained = [record for record in facts.records if known.get(record.number) and not record.reused]
    trained.sort(key=lambda r: -math.inf if r.value is None else facts.first.score(r.value), reverse=True)
    shown = sorted({*(record.number for record in trained[:CURVES]), *([winner] if winner in known else [])})
    drawn = {number: known[number] for number in shown}
    thin = [number for number in drawn if number != winner]
    done = [number for number in thin if records[number].state is State.COMPLETED]
    cut = [number for number in thin if records[number].state is not State.COMPLETED]
    marks: list[Mark] = [
        _joined(facts, records, drawn, cut, "dim", "ended early"),
        _joined(facts, records, drawn, done, "curve", "trained to the end"),
    ]
    ends = _ends(records, drawn)
    for look, name in (("stopped", "stopped"), ("paused", "rested"), ("running", "runs"), ("failed", "failed")):
        if ends.get(look):
            at = ends[look]
            say = [facts.say(records[number], records[number].reason) for number, _, _ in at]
            marks.append(Dots([e for _, e, _ in at], [v for _, _, v in at], look, name, say, [n for n, _, _ in at]))
    if winner in drawn:
        marks.append(_joined(facts, records, drawn, [winner], "best", f"the winner, trial {winner}"))
    more = f" The best {len(drawn)} of {len(trained)} are drawn." if len(drawn) < len(trained) else ""
    return Picture(
        key="curves",
        title=f"{name_of(facts.first.metric)} after each epoch",
        x=Axis("epoch", whole=True),
        y=Axis(better_way(facts.first)),
        marks=[mark for mark in marks if mark.x],  # type: ignore[union-attr]
        note="A ring ends a curve that was stopped; a square marks where a trial rested, for good if no line goes on."
        + more,
        empty="" if trained else "every trial was answered from the database: nothing was trained here",
    )


def _joined(
    facts: Facts, records: Mapping[int, Record], drawn: Curves, numbers: Sequence[int], look: str, name: str
) -> Line:
    """Return several curves as one line with gaps, which draws quicker than many lines."""
    x: list[float | None] = []
    y: list[float | None] = []
    say: list[str] = []
    trials: list[int] = []
    for number in numbers:
        text = facts.say(records[number])
        for epoch, value in drawn[number]:
            x.append(float(epoch))
            y.append(value)
            say.append(f"epoch {epoch}: {short(value)}\n{text}")
        x.append(None)
        y.append(None)
        say.append("")
        trials += [number] * (len(drawn[number]) + 1)
    return Line(x, y, look, name, say, trials)


def _ends(records: Mapping[int, Record], drawn: Curves) -> dict[str, list[tuple[int, float, float]]]:
    """Return (number, epoch, value) of what is marked on curves, by look."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for number, curve in drawn.items():
        record = records[number]
        by_epoch = dict(curve)
        if record.rest in by_epoch:
            found.setdefault("paused", []).append((number, float(record.rest), by_epoch[record.rest]))
        last, value = curve[-1]
        resting = record.rest == last and (record.state is State.PAUSED or record.reason.startswith("rested"))
        if record.state is not State.COMPLETED and not resting:
            found.setdefault(look_of(record), []).append((number, float(last), value))
    return found


def lineage(facts: Facts) -> Picture:
    """Return the picture of the winner's ancestors: generations from left to right, the value upwards."""
    rows = [row for row in facts.lineage if row.value is not None and math.isfinite(row.value)]
    places = {row.trial: row for row in rows}
    records = {f"{facts.row.name}/{record.number}": record for record in facts.records}
    links: tuple[list[float | None], list[float | None]] = ([], [])
    for row in rows:
        for parent in row.parents:
            if parent in places:
                links[0].extend((float(places[parent].generation), float(row.generation), None))
                links[1].extend((places[parent].value, row.value, None))
    groups: dict[str, list[LineRow]] = {}
    for row in rows:
        look = "best" if row.generation == 0 else look_of(records[row.trial])
        groups.setdefault(look, []).append(row)
    marks: list[Mark] = [Line(links[0], links[1], "link", "")]
    for look, group in groups.items():
        marks.append(
            Dots(
                [float(row.generation) for row in group],
                [row.value or 0.0 for row in group],
                look,
                "the winner" if look == "best" else look,
                [facts.say(records[row.trial], *changes(row, places)) for row in group],
                [records[row.trial].number for row in group],
            )
        )
    winner = facts.winner
    alone = f"the winner has no ancestors: it is a {winner.origin}" + (f" ({winner.note})" if winner.note else "")
    return Picture(
        key="lineage",
        title="ancestors of the winner",
        x=Axis("generations before the winner", falling=True, whole=True),
        y=Axis(better_way(facts.first)),
        marks=marks,
        note="Each line joins a trial to one that was made from it; what was changed stands at the point.",
        empty="" if len(rows) > 1 else alone,
    )


def changes(row: LineRow, places: Mapping[str, LineRow]) -> list[str]:
    """Return in lines what a trial's decisions changed of its first parent's."""
    parent = places.get(row.parents[0]) if row.parents else None
    if parent is None:
        return []
    names = dict.fromkeys([*parent.decisions, *row.decisions])
    gone = "\u2013"
    found = [
        f"{name}: {parent.decisions.get(name, gone)} \u2192 {row.decisions.get(name, gone)}"
        for name in names
        if parent.decisions.get(name) != row.decisions.get(name)
    ]
    more = [f"and {len(found) - CHANGES} more"] if len(found) > CHANGES else []
    return [line[:90] for line in found[:CHANGES]] + more
