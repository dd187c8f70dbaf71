"""The text of a report: summary, references, costs, and what it takes to do the search again."""

from collections.abc import Mapping
from typing import Any

from detol.dashboards.report.facts import Facts, lasted
from detol.dashboards.report.trials import on_front, second_of
from detol.dashboards.report.workers import busy, device_seconds
from detol.dashboards.web.figures import better_way, name_of
from detol.dashboards.web.words import amount, duration, metric, moment, plain_value
from detol.results.query import Record
from detol.search.records import State

Pairs = list[tuple[str, str]]
_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")


def asked(facts: Facts) -> Pairs:
    """Return what the search was asked for."""
    row, described = facts.row, facts.identity.described
    splits = described.get("splits") or {}
    shape = "\u00d7".join(map(str, described.get("shape") or ()))
    data = row.data + (f" ({described['task']})" if described.get("task") else "")
    pairs = [("data", data)]
    if splits:
        pairs.append(("samples", ", ".join(f"{count:,} {name}" for name, count in splits.items())))
    if shape:
        pairs.append(("one sample", shape))
    pairs += [
        ("space", row.space),
        ("strategy", row.strategy),
        ("early stopping", row.stopper or "none"),
        ("objectives", "; ".join(better_way(objective) for objective in facts.objectives)),
        ("trials", "no bound" if row.budget is None else f"{row.budget:,}"),
        ("epochs of a training", "" if row.epochs is None else str(row.epochs)),
        ("hours", f"{facts.settings['hours']:g}" if facts.settings.get("hours") else ""),
        ("seed", row.seed),
    ]
    return [(name, value) for name, value in pairs if value]


def outcome(facts: Facts) -> Pairs:
    """Return what came of it."""
    row, seconds = facts.row, device_seconds(facts)
    states = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in sorted(row.states.items()))
    pairs = [
        ("trials", f"{row.trials:,} ({states})"),
        ("trained here", f"{row.trained:,}, for {row.epochs_trained:,} epochs"),
        ("answered from the database", f"{row.reused:,}" if row.reused else ""),
        ("gone on from another search", f"{row.continued:,}" if row.continued else ""),
        ("time", lasted(row.seconds)),
        ("device time", lasted(seconds) if seconds else ""),
        ("ended", str(facts.summary.get("ended") or row.state)),
        ("started", moment(row.created) + " UTC"),
    ]
    return [(name, value) for name, value in pairs if value]


def test(facts: Facts) -> Pairs:
    """Return the winner's metrics on the test split, which the search did not read."""
    return [(name_of(name), metric(value)) for name, value in (facts.summary.get("test") or {}).items()]


def rivals(facts: Facts) -> list[dict[str, Any]]:
    """Return the winner and the references beside it, the best one first."""
    winner = facts.winner
    references = [r for r in facts.scored if r.origin == "reference" and r.note and r.number != winner.number]
    references.sort(key=lambda r: (r.state is not State.COMPLETED, -facts.first.score(r.value or 0.0)))
    rows = []
    for record in [winner, *references]:
        made = "reference" if record.note and record.origin == "reference" else record.origin
        found = record.number == winner.number
        rows.append(
            {
                "number": record.number,
                "what": f"{record.note} ({made})" if record.note else f"found by {made}",
                "winner": found,
                "value": metric(record.value),
                "gain": "" if found else _gain(winner, record),
                "params": amount(_whole(record.values.get("params"))),
                "multiply_adds": amount(_whole(record.values.get("multiply_adds"))),
                "state": str(record.state).replace("_", " "),
                "epochs": f"{record.epoch} of {record.epochs}",
            }
        )
    return rows


def _gain(winner: Record, other: Record) -> str:
    if winner.value is None or other.value is None:
        return ""
    return f"{other.value - winner.value:+.4f}"


def front(facts: Facts) -> dict[str, Any]:
    """Return the table of the front."""
    second = second_of(facts)
    names = list(dict.fromkeys([facts.first.metric, second.metric, *_COSTS[:2]]))
    rows = [
        {
            "number": record.number,
            "cells": [_cell(record.values.get(name)) for name in names],
            "what": record.note or record.origin,
        }
        for record in on_front(facts)
    ]
    return {"names": [name_of(name) for name in names], "rows": rows}


def _cell(value: float | None) -> str:
    return amount(_whole(value)) if value is not None and float(value).is_integer() and value > 1 else metric(value)


def _whole(value: float | None) -> Any:
    return int(value) if value is not None and float(value).is_integer() else value


def winner_facts(facts: Facts) -> Pairs:
    """Return what the winner is and costs."""
    winner = facts.winner
    pairs = [(name_of(name), f"{winner.values[name]:,.0f}") for name in _COSTS if name in winner.values]
    pairs += [
        ("epochs", f"{winner.epoch} of {winner.epochs}"),
        ("training time", duration(winner.seconds) if winner.seconds else ""),
        ("ranks lost", facts.lost.get(winner.number, "")),
        ("came about by", winner.origin + (f" ({winner.note})" if winner.note else "")),
        ("answered by", winner.reused),
        ("digest", winner.digest),
    ]
    return [(name, value) for name, value in pairs if value]


def spared(facts: Facts) -> list[tuple[str, str, str, str]]:
    """Return the table of savings: what, trials, epochs, device time."""
    row = facts.row
    known, saved = row.trainings_saved + row.continued, lasted(row.seconds_saved)
    rows = [
        ("trained", f"{row.trained:,}", f"{row.epochs_trained:,}", lasted(device_seconds(facts))),
        (
            "spared by ending trials early",
            f"{row.trainings_spared:,}",
            f"{row.epochs_spared:,}",
            f"about {lasted(row.seconds_spared)}",
        ),
    ]
    if known:
        name = "known from the database" + (f" ({row.continued:,} in part)" if row.continued else "")
        rows.append((name, f"{known:,}", f"{row.epochs_saved:,}", saved))
    return rows


def by_state(facts: Facts) -> list[tuple[str, str, str, str]]:
    """Return the table of costs: state, trials, epochs trained, device time."""
    rows = []
    for state in State:
        records = [record for record in facts.records if record.state is state]
        trained = [record for record in records if not record.reused]
        if records:
            seconds = sum(record.seconds * record.width for record in trained)
            epochs = sum(record.epoch - record.spared_epochs for record in trained)
            rows.append((str(state).replace("_", " "), f"{len(records):,}", f"{epochs:,}", lasted(seconds)))
    return rows


def reproduce(facts: Facts) -> Pairs:
    """Return what identifies the search: versions, seeds, digests."""
    found, used = facts.identity, busy(facts)
    described = found.described
    pairs = [
        ("versions", ", ".join(f"{name} {number}" for name, number in facts.versions.items())),
        ("seed of the search", facts.row.seed),
        ("seed of the winner", "from the search's seed and the topology's digest"),
        ("data", str(described.get("source") or facts.row.data)),
        ("digest of the data", found.data),
        ("digest of the recipe", found.recipe),
        ("digest of the search", found.config),
        ("digest of the winner", facts.winner.digest),
        ("workers", f"{used.workers}, busy {used.share:.0%} of the time" if used else ""),
        ("host", facts.row.host),
    ]
    return [(name, value) for name, value in pairs if value]


def recipe(facts: Facts) -> Pairs:
    """Return the settings of the recipe."""
    return _plain(facts.identity.recipe_settings)


def settings(facts: Facts) -> Pairs:
    """Return all settings of the search that were given a value."""
    apart = ("objectives", "settings", "recipe", "objects", "summary", "tracking", "db", "options")
    given = {key: value for key, value in facts.settings.items() if key not in apart}
    for section, options in (facts.settings.get("options") or {}).items():
        given |= {f"{section}.{key}": value for key, value in options.items()}
    return _plain({key: value for key, value in given.items() if value not in ("", None, [], {})})


def _plain(values: Mapping[str, Any]) -> Pairs:
    return [(name.replace("_", " "), plain_value(value)) for name, value in values.items()]
