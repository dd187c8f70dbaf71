"""What a search has changed since its last commit, and how that is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from detol.errors import TopologyError
from detol.graph.cost import cost
from detol.results.engine import insert_new
from detol.results.rows import report_rows, to_text, topology_row, trial_birth, trial_state
from detol.results.schema import costs, parents, reports, steps, topologies, trials
from detol.search.protocols import Telling
from detol.search.records import Report, Trial

_UPDATE = trials.update().where(trials.c.search == sa.bindparam("_search"), trials.c.number == sa.bindparam("_number"))
_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")


@dataclass(frozen=True)
class Place:
    """Where trials are written: the id of their search, the digests of its data and recipe, the data's form."""

    search: int
    data: str
    recipe: str
    shape: tuple[int, ...]
    outputs: int | None


@dataclass
class Changes:
    """The latest state of each trial that changed, the steps that were logged and the time that was spent.

    ``births`` are the numbers of new trials. ``written`` holds the reports and scores of running trials that the
    database has already; of trials that have ended it holds nothing, so that it does not grow.
    """

    births: set[int] = field(default_factory=set)
    trials: dict[int, Trial] = field(default_factory=dict)
    steps: list[tuple[int, tuple[Telling, ...]]] = field(default_factory=list)
    spent: float = 0.0
    written: dict[int, tuple[tuple[Report, float], ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        return bool(self.trials or self.steps or self.spent)

    def done(self) -> None:
        """Note that everything has been written."""
        for number, trial in self.trials.items():
            if trial.state.final:
                self.written.pop(number, None)
            else:
                self.written[number] = _curve(trial)
        self.forget()

    def forget(self) -> None:
        """Drop what has not been written."""
        self.births, self.trials, self.steps, self.spent = set(), {}, [], 0.0

    def write(self, connection: sa.Connection, place: Place, first_step: int) -> None:
        """Write all of it in the connection's transaction; the steps are numbered from ``first_step``."""
        new = [trial for number, trial in self.trials.items() if number in self.births]
        old = [trial for number, trial in self.trials.items() if number not in self.births]
        logged = [
            {"search": place.search, "number": number, "asked": asked, "told": to_text(list(told))}
            for number, (asked, told) in enumerate(self.steps, start=first_step)
        ]
        if new:
            _insert(connection, place, new)
        if old:
            keys = [{"_search": place.search, "_number": trial.number} for trial in old]
            connection.execute(_UPDATE, [{**key, **trial_state(trial)} for key, trial in zip(keys, old, strict=True)])
        curves = self._reports(connection, place.search)
        if curves:
            connection.execute(reports.insert(), curves)
        if logged:
            connection.execute(steps.insert(), logged)

    def _reports(self, connection: sa.Connection, search: int) -> list[dict[str, Any]]:
        """Return the rows of reports that the database has not; drop those there that are no longer true."""
        rows = []
        for number, trial in self.trials.items():
            start = 0
            if number not in self.births:
                before = self.written.get(number)
                if before is not None and _curve(trial)[: len(before)] == before:
                    start = len(before)
                else:  # another attempt, or a search that was opened again
                    mine = (reports.c.search == search, reports.c.number == number)
                    connection.execute(reports.delete().where(*mine))
            rows += [{"search": search, "number": number, **row} for row in report_rows(trial, start)]
        return rows


def _curve(trial: Trial) -> tuple[tuple[Report, float], ...]:
    return tuple(zip(trial.reports, trial.curve, strict=True))


def _insert(connection: sa.Connection, place: Place, new: list[Trial]) -> None:
    forms: dict[str, Mapping[str, Any]] = {}
    prices: dict[str, Mapping[str, Any]] = {}
    rows, lines = [], []
    for trial in new:
        form = topology_row(trial.candidate.topology, trial.digest)
        key = form["key"]
        forms[key] = form
        price = _price(trial, place)
        if price is not None:
            prices[key] = {"topology": key, "data": place.data, **price}
        of = {"search": place.search, "number": trial.number}
        stands = {"topology": key, "recipe": place.recipe, "data": place.data, **(price or dict.fromkeys(_COSTS))}
        rows.append({**of, **stands, **trial_birth(trial), **trial_state(trial)})
        lines += [{**of, "slot": slot, "parent": parent} for slot, parent in enumerate(trial.candidate.parents)]
    dialect = connection.dialect.name
    connection.execute(insert_new(topologies, dialect), list(forms.values()))
    if prices:
        connection.execute(insert_new(costs, dialect), list(prices.values()))
    connection.execute(trials.insert(), rows)
    if lines:
        connection.execute(parents.insert(), lines)


def _price(trial: Trial, place: Place) -> dict[str, int] | None:
    """Return what a topology costs on the search's data; ``None`` where that is not defined (tables, no data)."""
    if all(isinstance(trial.extra.get(name), int | float) for name in _COSTS):
        return {name: int(trial.extra[name]) for name in _COSTS}
    if not place.shape or place.outputs is None:
        return None
    try:
        found = cost(trial.candidate.topology, place.shape, place.outputs)
    except TopologyError:
        return None
    return {name: int(getattr(found, name)) for name in _COSTS}
