"""Published results as records: searches that somebody else made, known by their outcome alone.

Each column of scores becomes a search of its own, on a data set of its own. A row is a trial with one report, after the
last epoch. Rows that are equal networks (isomorphic cells) are separate observations of one topology, so each has the
number of its row as its seed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detol.errors import UsageError
from detol.graph.topology import Topology
from detol.results.describe import check_name
from detol.results.exchange.bundle import FORMAT, VERSION, ListBundle, Row
from detol.results.rows import now, to_text, topology_row
from detol.results.rules import published_digest
from detol.results.schema import REVISIONS
from detol.search.records import Candidate, Objective, Origin, State
from detol.spaces.decisions import Decisions

STRATEGY = "table"
"""What such a search has in place of a strategy."""


@dataclass(frozen=True)
class Column:
    """One column of scores.

    Args:
        data: name of its data set, or the digest of one that the database knows.
        name: of the search.
        objective: what the scores are.
        values: in natural units, one for each row, all finite.
        seconds: of each training; ``None``: unknown, written as 0.
        params: of each network; ``None``: unknown.
    """

    data: str
    name: str
    objective: Objective
    values: Sequence[float]
    seconds: Sequence[float] | None = None
    params: Sequence[float] | None = None


@dataclass(frozen=True)
class Table:
    """What all columns of a published table share.

    Args:
        where: the file.
        space: name of the space.
        recipe: name of how all networks were trained.
        source: who published it.
        epochs: of each training, >= 1.
        decisions: of each row.
        topologies: of each row.
    """

    where: str
    space: str
    recipe: str
    source: str
    epochs: int
    decisions: Sequence[Decisions]
    topologies: Sequence[Topology]


def published(table: Table, columns: Sequence[Column], known_data: Mapping[str, Row]) -> ListBundle:
    """Return the records of a table.

    Args:
        table: what its columns share.
        columns: of scores.
        known_data: rows of ``data_sets`` by digest that columns may name.

    Raises:
        UsageError: fewer than one epoch, a recipe without a name, or two columns on one data set.
    """
    if table.epochs < 1:
        raise UsageError(f"--epochs must be at least 1, got {table.epochs}")
    if not table.recipe.strip():
        raise UsageError("a recipe has a name: --recipe-name, e.g. nasbench201-200-epochs")
    settings = {"name": table.recipe, "source": table.source}
    recipe = {"digest": published_digest(settings), "settings": to_text(settings)}
    digests = [
        Candidate(taken, topology, Origin.SAMPLE).digest
        for taken, topology in zip(table.decisions, table.topologies, strict=True)
    ]
    forms = [topology_row(topology, digest) for topology, digest in zip(table.topologies, digests, strict=True)]
    birth = [
        {"topology": form["key"], "digest": form["digest"], "decisions": to_text(dict(taken))}
        for form, taken in zip(forms, table.decisions, strict=True)
    ]
    sets: dict[str, Row] = {}
    searches, of = [], {}
    for column in columns:
        check_name(column.name)
        data = known_data.get(column.data) or _data_row(column.data, table.source)
        if data["digest"] in sets:
            raise UsageError(f"each column of scores has a data set of its own, got {column.data!r} twice")
        sets[data["digest"]] = data
        search = _search_row(table, column, data, recipe)
        searches.append(search)
        of[search["uid"]] = [_trial(table, column, search, number, row) for number, row in enumerate(birth)]
    header = {"format": FORMAT, "version": VERSION, "schema": REVISIONS[-1], "exported": ""}
    unique = {form["key"]: form for form in forms}
    return ListBundle(table.where, header, list(sets.values()), [recipe], searches, list(unique.values()), of)


def _data_row(name: str, source: str) -> Row:
    """Return the row of a data set that nobody here has: known by name and source, not by its content."""
    digest = f"n1:{hashlib.sha256(json.dumps([name, source]).encode()).hexdigest()[:32]}"
    described = {"digest": digest, "name": name, "source": source}
    empty = {"kind": "", "task": "", "shape": "[]", "outputs": None}
    return {"digest": digest, "name": name, **empty, "description": to_text(described)}


def _search_row(table: Table, column: Column, data: Row, recipe: Row) -> Row:
    objective = str(column.objective)
    key = [table.source, table.space, recipe["digest"], data["digest"], objective, table.epochs]
    moment = now()
    return {
        "uid": hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32],
        "name": column.name,
        "data": data["digest"],
        "recipe": recipe["digest"],
        "space": table.space,
        "strategy": STRATEGY,
        "options": "{}",
        "stopper": "none",
        "objectives": to_text([objective]),
        "objective": objective,
        "seed": "",
        "trials": len(table.decisions),
        "epochs": table.epochs,
        "settings": to_text(
            {
                "objectives": [objective],
                "recipe": {"name": table.recipe, "source": table.source},
                "settings": {"data": data["name"], "space": table.space, "strategy": STRATEGY, "stop": "none"},
                "space": table.space,
                "table": table.where,
            }
        ),
        "config_digest": "",
        "versions": "{}",
        "state": "finished",
        "consumed": 0.0,
        "created": moment,
        "ended": moment,
        "source": "",
        "provenance": "{}",
        "steps": [],
    }


def _trial(table: Table, column: Column, search: Row, number: int, birth: Row) -> Row:
    value = float(column.values[number])
    score = column.objective.score(value)
    seconds = float(column.seconds[number]) if column.seconds is not None else 0.0
    metrics: dict[str, Any] = {column.objective.metric: value}
    report = {"epoch": table.epochs, "score": score, "metrics": to_text(metrics), "seconds": seconds}
    return {
        **birth,
        "number": number,
        "recipe": search["recipe"],
        "data": search["data"],
        "origin": str(Origin.SAMPLE),
        "note": "",
        "state": str(State.COMPLETED),
        "epochs": table.epochs,
        "epoch": table.epochs,
        "seed": number,
        "width": 1,
        "score": score,
        "scores": to_text([score]),
        "reason": "",
        "attempt": 1,
        "seconds": seconds,
        "reused": "",
        "extra": "{}",
        "created": search["created"],
        "ended": search["ended"],
        "inherited": "",
        "params": None if column.params is None else round(float(column.params[number])),
        "multiply_adds": None,
        "activation_bytes": None,
        "depth": None,
        "parents": [],
        "reports": [report],
    }
