"""Importing a table of published results into the results database: the file, the space and the database together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol import wire
from detol.bench.keys import code_of, row_decisions
from detol.bench.table import Column as Figures
from detol.bench.table import figures, read_table
from detol.errors import UsageError
from detol.results.exchange.admit import Outcome, admit, check_source
from detol.results.exchange.check import check
from detol.results.published import Column, Table, published
from detol.search.records import Objective, parse_objective
from detol.spaces import catalogue


def import_table(
    db: str,
    path: Path,
    space: str,
    objectives: Sequence[str],
    *,
    recipe: str,
    source: str,
    epochs: int,
    key: str = "",
    costs: Sequence[str] = (),
    params: str = "",
    metric: str = "",
    name: str = "",
) -> Outcome:
    """Import each column of scores as a search of its own.

    Args:
        db: path or URL of the results database; empty: the usual one.
        path: of the CSV file, compressed or not; it need not hold all topologies of the space.
        space: name or file of the space.
        objectives: ``[DATA=]COLUMN[:min|max][*FACTOR]`` each; DATA is the name of its data set (by default the
            column's), or the digest of one that the database knows.
        recipe: name of how the networks were trained.
        source: who published it.
        epochs: of each training.
        key: column that names the topology; empty: a column for each decision.
        costs: ``[DATA=]COLUMN[*FACTOR]``: seconds of each training; without DATA of all of them.
        params: ``COLUMN[*FACTOR]``: parameters of each network.
        metric: what the scores are called here; by default as their column.
        name: of the search; several get the data set's name behind it.

    Raises:
        UsageError: a column, row or value against its rule; nothing is written then.
    """
    check_source(source)
    if not objectives:
        raise UsageError("a table needs a column of scores: --objective COLUMN")
    where, frame, opened = str(path), read_table(path), catalogue.load(space)
    decisions = row_decisions(frame, opened, where, key=key, code=code_of(opened) if key else None)
    asked = [_named(text) for text in objectives]
    timed = dict(_named(text) if "=" in text else ("", text) for text in costs)
    for data in timed.keys() - {data for data, _ in asked} - {""}:
        raise UsageError(f"--cost {data}=...: no --objective has a data set {data!r}")
    sized = _scaled(frame, params, "params", where) if params else None
    columns = []
    for data, text in asked:
        objective, values = _scores(frame, text, metric, where)
        spent = timed.get(data, timed.get("", ""))
        stem = name or path.name.partition(".")[0]
        columns.append(
            Column(
                data,
                name if name and len(asked) == 1 else f"{stem}-{data}",
                objective,
                values.tolist(),
                _scaled(frame, spent, "cost", where).tolist() if spent else None,
                None if sized is None else sized.tolist(),
            )
        )
    table = Table(where, opened.name, recipe, source, epochs, decisions, [opened.decode(each) for each in decisions])
    with wire.database(db) as database:
        bundle = published(table, columns, database.data_rows())
        checked = {row["key"]: row["digest"] for row in bundle.topologies()}
        check(bundle, checked.get)
        return admit(database, bundle, source)


def _named(text: str) -> tuple[str, str]:
    """Return the data set and the rest of ``[DATA=]COLUMN...``; without DATA it is named as the column."""
    data, equals, column = text.rpartition("=")
    return (data if equals else Figures.parse(column).name.partition(":")[0]), column


def _scores(frame: Any, text: str, metric: str, where: str) -> tuple[Objective, NDArray[np.float64]]:
    column = Figures.parse(text)
    objective = parse_objective(column.name)
    values = column.factor * figures(frame, objective.metric, "objective", where)
    return Objective(metric or objective.metric, objective.minimise), values


def _scaled(frame: Any, text: str, role: str, where: str) -> NDArray[np.float64]:
    column = Figures.parse(text)
    values = column.factor * figures(frame, column.name, role, where)
    if (values < 0).any():
        raise UsageError(f"table {where}: column {column.name!r} holds figures >= 0, got {values.min():g}")
    return values
