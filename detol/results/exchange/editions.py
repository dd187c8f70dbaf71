"""Editions of a search: what of its trials is here, and where one that comes in belongs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from detol.results.exchange.bundle import Row
from detol.results.rows import from_text
from detol.search.records import State

KEY = ("digest", "recipe", "data", "epochs", "seed")
"""What makes two trainings the same one, so that they should have the same score."""


@dataclass
class Edition:
    """One edition of a search here; ``id`` 0: it is still to be made."""

    id: int
    name: str
    uid: str
    ours: bool
    trials: dict[int, Row]
    new: list[Row] = field(default_factory=list)
    newer: list[Row] = field(default_factory=list)


def judge(edition: Edition, trial: Row) -> str:
    """Say of a trial that comes in: ``known``, ``new``, ``newer``, or ``conflict`` with what has its number here."""
    here = edition.trials.get(trial["number"])
    if here is None:
        return "conflict" if edition.ours else "new"
    if _content(here) == _content(trial):
        return "known"
    if _goes_on(trial, here):
        return "known"  # ours is further
    if _goes_on(here, trial) and not edition.ours:
        return "newer"
    return "conflict"


def _content(trial: Row) -> tuple[Any, ...]:
    return (
        *(trial[name] for name in (*KEY, "state", "score")),
        None if trial["scores"] is None else from_text(trial["scores"]),
        bool(trial["reused"]),
        *_curve(trial),
    )


def _curve(trial: Mapping[str, Any]) -> tuple[Any, ...]:
    # The metrics as values: their text may be written in another way in a file. Times are no result.
    return tuple((r["epoch"], r["score"], repr(from_text(r["metrics"]))) for r in trial["reports"])


def _goes_on(early: Row, late: Row) -> bool:
    """Return whether one record of a trial may be an earlier one of the same trial: it had not ended then."""
    if State(early["state"]).final or any(early[name] != late[name] for name in KEY):
        return False
    begun = _curve(early)
    return late["attempt"] > early["attempt"] or _curve(late)[: len(begun)] == begun
