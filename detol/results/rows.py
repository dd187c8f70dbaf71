"""Trials as rows of the database, and back, without loss."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from detol.graph import codec
from detol.graph.topology import Topology
from detol.search.protocols import Telling
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions

Row = Mapping[Any, Any]
"""A row by the names of its columns."""

_FLOAT = "$float"


def to_text(value: object) -> str:
    """Return a value as strict JSON; a non-finite number becomes ``{"$float": "nan"}`` (or ``inf``, ``-inf``).

    Tuples become lists, paths text, and numpy's scalars numbers.
    """
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_marked(value), allow_nan=False, default=_plain)


def from_text(text: str) -> Any:
    """Invert :func:`to_text`."""
    return json.loads(text, object_hook=_unmark if _FLOAT in text else None)


def _plain(value: object) -> object:
    item = getattr(value, "item", None)
    if callable(item):
        return item()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"the results database keeps numbers, text, lists and mappings, got {type(value).__name__}")


def _marked(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _marked(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(v) for v in value]
    if value is None or isinstance(value, str | int | float):
        return {_FLOAT: str(float(value))} if isinstance(value, float) and not math.isfinite(value) else value
    return _marked(_plain(value))


def _unmark(mapping: dict[str, Any]) -> object:
    return float(mapping[_FLOAT]) if mapping.keys() == {_FLOAT} else mapping


def tellings(told: Sequence[Telling]) -> tuple[Telling, ...]:
    """Return what a strategy was told as the log holds it: numbers, and pairs (number, epoch), lists in JSON."""
    return tuple((int(each[0]), int(each[1])) if isinstance(each, Sequence) else int(each) for each in told)


def now() -> str:
    """Return the present moment: UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clean(text: str) -> str:
    """Return text that every database can hold: NUL and lone surrogates (of odd file names) are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def real(value: float) -> float | None:
    """Return a number for a column of its own: NaN is NULL there."""
    return None if math.isnan(value) else float(value)


def unreal(value: float | None) -> float:
    """Invert :func:`real`."""
    return math.nan if value is None else value


def topology_row(topology: Topology, digest: str) -> dict[str, str]:
    """Return the row of a topology in its exact form; its ``key`` is the hash of that form."""
    body = codec.to_json(topology)
    return {"key": hashlib.sha256(body.encode()).hexdigest()[:32], "digest": digest, "body": body}


def trial_state(trial: Trial) -> dict[str, Any]:
    """Return the columns of a trial that change while it runs."""
    return {
        "state": str(trial.state),
        "epochs": trial.epochs,
        "epoch": trial.epoch,
        "seed": trial.seed,
        "width": trial.width,
        "score": trial.score if math.isfinite(trial.score) else None,
        "scores": None if trial.scores is None else to_text(list(trial.scores)),
        "reason": clean(trial.reason),
        "attempt": trial.attempt,
        "seconds": real(trial.seconds),
        "reused": trial.reused,
        "weights": clean(trial.weights),
        "extra": to_text(dict(trial.extra)),
        "ended": now() if trial.state.final else "",
        "inherited": clean(trial.inherited),
    }


def trial_birth(trial: Trial) -> dict[str, Any]:
    """Return the columns of a trial that never change."""
    candidate = trial.candidate
    return {
        "digest": candidate.digest,
        "decisions": to_text(dict(candidate.decisions)),
        "origin": str(candidate.origin),
        "note": clean(candidate.note),
        "created": now(),
    }


def report_rows(trial: Trial, start: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a trial's reports from position ``start`` on."""
    pairs = list(zip(trial.reports, trial.curve, strict=True))[start:]
    return [
        {
            "epoch": report.epoch,
            "score": real(score),
            "metrics": to_text(dict(report.metrics)),
            "seconds": real(report.seconds),
        }
        for report, score in pairs
    ]


def to_report(row: Row) -> Report:
    """Return the report of a row."""
    return Report(row["epoch"], from_text(row["metrics"]), unreal(row["seconds"]))


def to_trial(row: Row, parents: Sequence[int], reports: Sequence[Row]) -> Trial:
    """Return the trial of a row that is joined with its topology's ``body``, and of its reports by epoch."""
    candidate = Candidate(
        decisions=Decisions(from_text(row["decisions"])),
        topology=codec.from_json(row["body"]),
        origin=Origin(row["origin"]),
        parents=tuple(parents),
        note=row["note"],
    )
    candidate.__dict__["digest"] = row["digest"]  # fills the cached property: the database knows it already
    return Trial(
        number=row["number"],
        candidate=candidate,
        state=State(row["state"]),
        epochs=row["epochs"],
        seed=row["seed"],
        width=row["width"],
        reports=tuple(to_report(report) for report in reports),
        curve=tuple(unreal(report["score"]) for report in reports),
        scores=None if row["scores"] is None else tuple(from_text(row["scores"])),
        reason=row["reason"],
        attempt=row["attempt"],
        seconds=unreal(row["seconds"]),
        reused=row["reused"],
        weights=row["weights"],
        extra=from_text(row["extra"]),
    )
