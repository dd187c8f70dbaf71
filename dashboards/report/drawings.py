"""The topologies that a report can draw, and what it says of each trial beside the drawing."""

from collections.abc import Sequence
from typing import Any

from detol.dashboards.report.facts import Facts, exact, lasted
from detol.dashboards.report.trials import on_front
from detol.dashboards.web.figures import name_of
from detol.dashboards.web.words import plain_value
from detol.errors import DetolError
from detol.graph.draw import svg
from detol.graph.topology import Topology
from detol.results.query import Query, Record

DRAWN = 200
"""Trials whose topologies are drawn at most, besides the front, the references and the winner's ancestors."""
TOLD = 5000
"""Trials of which the facts are told at most."""


def chosen(facts: Facts, most: int = DRAWN) -> list[int]:
    """Return the trials to draw: those that matter, then the best of the others, then the rest."""
    lines = [int(row.trial.rpartition("/")[2]) for row in facts.lineage]
    matter = [record.number for record in on_front(facts)]
    matter += [record.number for record in facts.records if record.origin == "reference" and record.note]
    ranked = sorted(facts.scored, key=lambda r: -facts.first.score(r.value or 0.0))
    others = [record.number for record in [*ranked, *facts.records]]
    first = list(dict.fromkeys([facts.winner.number, *matter, *lines]))
    return list(dict.fromkeys([*first, *others]))[: len(first) + most]


def drawing(topology: Topology, shape: Sequence[int], *, style: bool = False) -> str:
    """Return a topology as SVG, with the shapes of its tensors where it fits its data."""
    try:
        return svg(topology, shape or None, style=style)
    except DetolError:
        return svg(topology, None, style=style)


def drawings(query: Query, facts: Facts, most: int = DRAWN) -> dict[str, Any]:
    """Return ``svgs``, and ``of``: which of them shows the topology of a trial, by its number."""
    shape = tuple(facts.identity.described.get("shape") or ())
    svgs: list[str] = []
    places: dict[int, int] = {}
    of: dict[int, int] = {}
    for number, topology in sorted(query.drawn(facts.row.name, chosen(facts, most)).items()):
        if id(topology) not in places:
            places[id(topology)] = len(svgs)
            svgs.append(drawing(topology, shape))
        of[number] = places[id(topology)]
    return {"svgs": svgs, "of": of}


def told(facts: Facts) -> dict[int, dict[str, Any]]:
    """Return what is said of each trial, by number: ``title``, ``facts`` and ``decisions`` as pairs of text."""
    ranked = sorted(facts.records, key=lambda r: -facts.first.score(r.value) if r.value is not None else float("inf"))
    return {record.number: _told(facts, record) for record in ranked[:TOLD]}


def _told(facts: Facts, record: Record) -> dict[str, Any]:
    names = [objective.metric for objective in facts.objectives] + ["params", "multiply_adds", "depth"]
    pairs = [(name_of(name), exact(record.values[name])) for name in dict.fromkeys(names) if name in record.values]
    pairs.append(("epochs", f"{record.epoch} of {record.epochs}"))
    if record.seconds:
        pairs.append(
            ("trained for", lasted(record.seconds) + (f" on {record.width} ranks" if record.width > 1 else ""))
        )
    pairs += [("ranks lost", facts.lost[record.number])] if record.number in facts.lost else []
    origin = record.origin + (f" ({record.note})" if record.note else "")
    if record.parents:
        origin += " of " + ", ".join(f"trial {number}" for number in record.parents)
    pairs.append(("came about by", origin))
    pairs += [("answered by", record.reused)] if record.reused else []
    pairs += [("ended", record.reason)] if record.reason else []
    pairs.append(("digest", record.digest))
    return {
        "title": f"trial {record.number}, {str(record.state).replace('_', ' ')}",
        "facts": pairs,
        "decisions": [(name, plain_value(option)) for name, option in record.decisions.items()],
    }
