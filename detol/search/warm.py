"""What a search may know of other data sets before its first trial: scored topologies, frozen when it starts."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detol.graph.topology import Topology
from detol.spaces.decisions import Decisions


@dataclass(frozen=True, slots=True)
class WarmRecord:
    """One topology of another data set.

    Args:
        decisions: complete decisions of the space that is searched now.
        score: more is better; comparable within one source alone. Finite.
        trial: ``SEARCH/NUMBER`` of where it stands; empty for rows of a table.
    """

    decisions: Decisions
    score: float
    trial: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise ValueError(f"a warm start learns from finite scores, got {self.score} of {self.trial or 'a row'}")


@dataclass(frozen=True)
class WarmSource:
    """The records of one data set, under one recipe and one objective.

    Args:
        search: names of the searches they come from, joined by a comma; or of a table's column.
        data: digest of the data set.
        records: at least two, best first.
        weight: how much it is believed before anything is known, in (0, 1].
        facts: further facts (names, distance, agreement ...); JSON values.
    """

    search: str
    data: str
    records: tuple[WarmRecord, ...]
    weight: float = 1.0
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.records) < 2:
            raise ValueError(
                f"a source of a warm start has at least 2 records, {self.search!r} has {len(self.records)}"
            )
        if not 0 < self.weight <= 1:
            raise ValueError(f"a source's weight is in (0, 1], got {self.weight}")

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON holds and :meth:`from_dict` reads."""
        return {
            "search": self.search,
            "data": self.data,
            "weight": self.weight,
            "facts": dict(self.facts),
            "records": [[dict(record.decisions), record.score, record.trial] for record in self.records],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "WarmSource":
        """Read what :meth:`as_dict` returned."""
        records = tuple(
            WarmRecord(Decisions(taken), float(score), str(trial)) for taken, score, trial in values["records"]
        )
        return cls(
            str(values["search"]), str(values["data"]), records, float(values["weight"]), dict(values.get("facts", {}))
        )


def warm_digest(sources: Sequence[WarmSource]) -> str:
    """Return ``w1:`` and 16 hexadecimal digits of what a search learns from: decisions, scores and weights, in order.

    Empty without sources. What only says where a record stands (names, facts) does not count.
    """
    if not sources:
        return ""
    told = [
        [source.data, source.weight, [[dict(record.decisions), record.score] for record in source.records]]
        for source in sources
    ]
    text = json.dumps(told, sort_keys=True)
    return f"w1:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class PastTrial:
    """A scored trial of an earlier search.

    Args:
        trial: ``SEARCH/NUMBER``.
        digest: of its topology.
        decisions: of the space it came from.
        score: of the primary objective, more is better; finite.
        topology: the network, where the trial comes from another space than the one that is searched now.
    """

    trial: str
    digest: str
    decisions: Decisions
    score: float
    topology: Topology | None = None


@dataclass(frozen=True)
class Experience:
    """What is known of one data set under one recipe, schedule and objective, from one space.

    Args:
        data: digest of the data set.
        data_name: for people.
        searches: names of the searches the trials come from.
        space: of these.
        objective: the primary one, as text.
        recipe: digest of it.
        settings: of the recipe.
        epochs: of a training to its end.
        count: how many trials there are.
        trials: those that were read, best first.
    """

    data: str
    data_name: str
    searches: tuple[str, ...]
    space: str
    objective: str
    recipe: str
    settings: Mapping[str, Any]
    epochs: int
    count: int
    trials: tuple[PastTrial, ...] = ()
