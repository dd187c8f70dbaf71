"""What is true of every record: checked before another person's results come in, and when a database is verified."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from detol.errors import TopologyError, UsageError
from detol.graph import codec
from detol.graph.digest import digest
from detol.results.describe import check_name
from detol.results.rows import Row, from_text
from detol.search.recipe import Recipe
from detol.search.records import Objective, Origin, State, parse_objective
from detol.spaces.decisions import Decisions

PUBLISHED = "p1"
"""Version of the digest of a recipe that somebody else trained by: of its name and source."""

_RANGES = (("accuracy", 0.0, 1.0), ("r2", -math.inf, 1.0), ("loss", 0.0, math.inf), ("mse", 0.0, math.inf))
_SLACK = 1e-6
"""Beyond a bound that rounding explains."""
_SEARCH_TEXTS: tuple[tuple[str, type], ...] = (
    *(("options", dict), ("objectives", list), ("settings", dict), ("versions", dict)),
    ("provenance", dict),
)
_SETTINGS = ("settings", "recipe", "options", "summary")
"""Of the settings of a search: what holds settings itself."""
DATA_TEXTS = ("digest", "name", "kind", "task")
"""Columns of a data set that people are shown."""
_SHOWN = ("space", "strategy", "stopper", "objective", "seed", "config_digest", "created", "ended", "source")
_TRIAL_SHOWN = ("digest", "reason", "note", "reused", "inherited", "created", "ended")
_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
_STATES = frozenset(map(str, State))
_ORIGINS = frozenset(map(str, Origin))


def published_digest(settings: Mapping[str, Any]) -> str:
    """Return ``p1:`` and 16 hexadecimal digits: of a recipe that is known by name and source alone."""
    text = json.dumps([settings.get("name"), settings.get("source")])
    return f"{PUBLISHED}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def recipe_faults(row: Row) -> Iterator[str]:
    """Yield what is wrong with a recipe: settings against their rules, or another digest than theirs."""
    try:
        settings = from_text(row["settings"])
        published = str(row["digest"]).startswith(f"{PUBLISHED}:")
        true = published_digest(settings) if published else Recipe(**settings).digest
    except (ValueError, TypeError, AttributeError, OverflowError, UsageError) as error:
        yield f"its settings are none of a recipe ({_line(error)})"
        return
    if true != row["digest"]:
        yield f"its settings have digest {true}"


def topology_faults(row: Row) -> Iterator[str]:
    """Yield what is wrong with a topology: an unknown operation, or another key or digest than its body has."""
    try:
        topology = codec.from_json(row["body"])
        true = digest(topology)
    except (TopologyError, RecursionError) as error:
        yield f"its body is no topology ({_line(error)})"
        return
    key = hashlib.sha256(row["body"].encode()).hexdigest()[:32]
    if key != row["key"]:
        yield f"its body has key {key}"
    if true != row["digest"]:
        yield f"its body has digest {true}"


def data_faults(row: Row) -> Iterator[str]:
    """Yield what is wrong with a data set."""
    if not row["digest"]:
        yield "a data set has a digest"
    if not _is_shape(_json(row["shape"])):
        yield f"shape is a list of whole numbers >= 1, got {_cut(row['shape'])}"
    if row["outputs"] is not None and not whole(row["outputs"], 1):
        yield f"outputs is a whole number >= 1, got {_cut(row['outputs'])}"
    described = _json(row["description"])
    if not isinstance(described, dict):
        yield "description is no JSON dict"
        return
    for name, (rule, fits) in _DESCRIBED.items():
        if name in described and not fits(described[name]):
            yield f"{name} of its description is {rule}, got {_cut(described[name])}"


def text_faults(row: Row, names: Sequence[str]) -> Iterator[str]:
    """Yield which columns hold characters that a terminal would obey, or that end a line."""
    for name in names:
        odd = next((each for each in row[name] if not each.isprintable()), None)
        if odd is not None:
            yield f"{name} has printable characters alone, got {odd!r} in {row[name][:60]!r}"


def search_faults(row: Row) -> Iterator[str]:
    """Yield what is wrong with a search, its trials apart."""
    try:
        check_name(row["name"])
    except UsageError as error:
        yield _line(error)
    if not row["uid"] or len(row["uid"]) > 100 or not row["uid"].isprintable():
        yield f"a search has a uid of 1 to 100 printable characters, got {row['uid'][:40]!r}"
    if row["state"] not in ("running", "finished", "interrupted"):
        yield f"its state is running, finished or interrupted, got {row['state'][:40]!r}"
    if not 0 <= row["consumed"] < math.inf:
        yield f"it consumed seconds >= 0, got {row['consumed']}"
    try:
        objective_of(row)
    except UsageError as error:
        yield _line(error)
    if not _ours(row):
        yield from text_faults(row, _SHOWN)
    found = {name: _json(row[name]) for name, _ in _SEARCH_TEXTS}
    wrong = [name for name, kind in _SEARCH_TEXTS if not isinstance(found[name], kind)]
    yield from (f"{name} is no JSON {kind.__name__}" for name, kind in _SEARCH_TEXTS if name in wrong)
    if not wrong:
        yield from _objective_faults("objectives", found["objectives"])
        yield from _section_faults("options", found["options"])
        yield from _settings_faults(found["settings"])


def _ours(search: Row) -> bool:
    """Return whether a search ran in the database it is read from: its texts may hold what a library's error said."""
    return "id" in search and not search["source"]


def _objective_faults(what: str, given: Sequence[object]) -> Iterator[str]:
    for text in given:
        try:
            fits = isinstance(text, str) and text.isprintable() and bool(parse_objective(text).metric.strip())
        except UsageError:
            fits = False
        if not fits:
            yield f"{what} are METRIC, METRIC:min or METRIC:max, got {_cut(text)}"


def _section_faults(what: str, options: Mapping[str, object]) -> Iterator[str]:
    for section, values in options.items():
        if not isinstance(values, dict):
            yield f"{section[:40]!r} of its {what} is an object, got {_cut(values)}"


def _settings_faults(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of the settings of a search would break those who read them."""
    given = settings.get("objectives") or []
    if isinstance(given, str | list):
        yield from _objective_faults("objectives of its settings", [given] if isinstance(given, str) else given)
    else:
        yield f"objectives of its settings is a list, got {_cut(given)}"
    apart = {name: settings[name] for name in _SETTINGS if settings.get(name) is not None}
    yield from _section_faults("settings", apart)
    inner = apart.get("settings")
    for holder in (settings, inner if isinstance(inner, dict) else {}):
        options, hours = holder.get("options"), holder.get("hours")
        if isinstance(options, dict):
            yield from _section_faults("options", options)
        if hours is not None and not (_is_number(hours) and _finite(hours)):
            yield f"hours of its settings is a number, got {_cut(hours)}"


def step_faults(row: Row) -> Iterator[str]:
    """Yield what is wrong with a step of a strategy: it was told numbers of trials, or pairs (number, epoch)."""
    told = _json(row["told"])
    numbers = isinstance(told, list) and all(
        all(map(whole, each)) and len(each) == 2 if isinstance(each, list) else whole(each) for each in told
    )
    if not numbers or row["asked"] < 0:
        yield f"a step asks for >= 0 candidates and tells numbers of trials, got {row['asked']}, {_cut(row['told'])}"


def objective_of(search: Row) -> Objective:
    """Return the primary objective of a search; ``UsageError`` when it is written wrongly."""
    return parse_objective(search["objective"]) if search["objective"] else Objective("score")


def trial_faults(trial: Row, reports: Sequence[Row], search: Row, digests: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with a trial: what it stands on, its state, its curve against its scores.

    Args:
        trial: row.
        reports: rows of its reports in the order of the epochs.
        search: row of its search.
        digests: of the topologies, by key.
    """
    if digests.get(trial["topology"]) != trial["digest"]:
        yield f"its topology has digest {digests.get(trial['topology'])}, not {trial['digest'][:60]!r}"
    if not _ours(search):
        yield from text_faults(trial, _TRIAL_SHOWN)
    for name in ("recipe", "data"):
        if trial[name] != search[name]:
            yield f"its {name} is not that of its search"
    yield from _figure_faults(trial)
    extra, decisions = _json(trial["extra"]), _json(trial["decisions"])
    if not isinstance(extra, dict):
        yield "its extra facts are no JSON object"
    try:
        Decisions(decisions)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        yield f"its decisions are none ({_line(error)})"
    yield from _curve_faults(trial, reports, objective_of(search))
    yield from _score_faults(trial, reports)


def _figure_faults(trial: Row) -> Iterator[str]:
    if trial["state"] not in _STATES:
        yield f"a state is one of {', '.join(sorted(_STATES))}, got {trial['state'][:40]!r}"
    if trial["origin"] not in _ORIGINS:
        yield f"an origin is one of {', '.join(sorted(_ORIGINS))}, got {trial['origin'][:40]!r}"
    for name, least in (("number", 0), ("epochs", 1), ("epoch", 0), ("width", 1), ("attempt", 1)):
        if trial[name] < least:
            yield f"{name} is at least {least}, got {trial[name]}"
    if trial["epoch"] > trial["epochs"]:
        yield f"it trained {trial['epoch']} of {trial['epochs']} epochs"
    for name in _COSTS:
        if trial[name] is not None and trial[name] < 0:
            yield f"{name} is at least 0, got {trial[name]}"
    seconds = trial["seconds"]
    if seconds is not None and not 0 <= seconds < math.inf:
        yield f"it took seconds >= 0, got {seconds}"


def _curve_faults(trial: Row, reports: Sequence[Row], objective: Objective) -> Iterator[str]:
    last = 0
    for report in reports:
        epoch = report["epoch"]
        if epoch <= last:
            yield f"its epochs rise from 1, got {epoch} after {last}"
        last = epoch
        metrics = _json(report["metrics"])
        if not isinstance(metrics, dict):
            yield f"the metrics of epoch {epoch} are no JSON object"
            continue
        for name, value in metrics.items():
            if name.isprintable():
                yield from _metric_faults(f"{name} of epoch {epoch}", name, value)
            else:
                yield f"a metric of epoch {epoch} has a printable name, got {name[:40]!r}"
        value = metrics.get(objective.metric)
        known = objective.metric in metrics and (value is None or _is_number(value))
        if known and not _equal(_natural(objective, value), report["score"]):
            yield f"the score of epoch {epoch} is {report['score']}, its {objective.metric} is {value}"
        yield from _metric_faults(f"the score of epoch {epoch}", objective.metric, _natural(objective, report["score"]))
    if last != trial["epoch"]:
        yield f"its last report is of epoch {last}, its epoch is {trial['epoch']}"


def _score_faults(trial: Row, reports: Sequence[Row]) -> Iterator[str]:
    score, scores = trial["score"], _json(trial["scores"]) if trial["scores"] is not None else None
    if trial["state"] not in _STATES:
        return
    state = State(trial["state"])
    if trial["scores"] is not None and not (
        isinstance(scores, list) and scores and all(_is_number(each) and _finite(each) for each in scores)
    ):
        yield f"scores are finite numbers, got {_cut(trial['scores'])}"
        return
    if score is not None and not _finite(score):
        yield f"a score is finite, got {score}"
    if scores and not state.scored and state is not State.RUNNING:
        yield f"a trial that is {state} has no score, got {scores[0]}"
    if state is State.COMPLETED and not scores:
        yield "a completed trial has a score"
    if (scores[0] if scores else None) != score:
        yield f"its score is {score}, the first of its scores {scores[0] if scores else None}"
    if scores and state.scored and reports and not _equal(reports[-1]["score"], scores[0]):
        yield f"its score is {scores[0]}, that of its last report {reports[-1]['score']}"


def _metric_faults(what: str, name: str, value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield f"{what} is a number, got {str(value)[:40]!r}"
        return
    if isinstance(value, int) and not _finite(value):
        yield f"{what} is a number that a float holds, got {str(value)[:40]}..."
        return
    for ending, least, most in _RANGES:
        if name.endswith(ending) and (value < least - _SLACK or value > most + _SLACK) and not math.isinf(value):
            rule = f"in [{least:g}, {most:g}]" if least > -math.inf and most < math.inf else f"at least {least:g}"
            yield f"{what} is {rule if least > -math.inf else f'at most {most:g}'}, got {value:g}"
            return


def _natural(objective: Objective, score: float | None) -> float | None:
    return None if score is None else objective.score(score)


def _equal(one: object, other: object) -> bool:
    """Return whether two scores are the same; what is not finite is NULL in the database."""
    values = [v if isinstance(v, int | float) and _finite(v) else None for v in (one, other)]
    return values[0] == values[1]


def _json(text: object) -> Any:
    try:
        return from_text(str(text))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def whole(value: object, least: int = 0) -> bool:
    """Return whether a value is a whole number that every database can hold, and at least so large."""
    return type(value) is int and least <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(whole(each, 1) for each in value)


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(whole, value.values()))


def _is_classes(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_counts, value.values()))


def _is_target(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


_DESCRIBED: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("name", "kind", "task", "source", "dtype"), ("text", _is_text)),
    "shape": ("a list of whole numbers >= 1", _is_shape),
    "splits": ("an object of whole numbers >= 0", _is_counts),
    "classes": ("an object of the rows of each split by class", _is_classes),
    "target": ("an object of numbers", _is_target),
    "balance": ("a number", _is_number),
}
"""What others read of ``Dataset.describe``, where it is there: the rule, and its test."""


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _cut(value: object) -> str:
    return repr(value)[:60]


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
