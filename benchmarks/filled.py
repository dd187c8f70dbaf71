"""A results database of any size with made-up searches, written past the record of a search: that is not timed."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import sqlalchemy as sa

from detol.results.rows import now
from detol.results.schema import costs, data_sets, recipes, reports, searches, topologies, trials
from detol.results.store import Database
from detol.search.recipe import Recipe

DATA, SPACES, SEARCHES = 4, 3, 100
SEEDS = 0.2
"""Share of the trials that train a topology again with another seed."""
STOPPED = 0.3
_MOMENT = now()


def fill(database: Database, trial_count: int, epochs: int, *, seed: int = 0) -> int:
    """Fill an empty database; return how many reports it has.

    Accuracies at the end are normal around 0.9 for most topologies; curves rise to them; ``STOPPED`` of the trials
    end at a third of their epochs.
    """
    rng = np.random.default_rng(seed)
    recipe = Recipe()
    sets = [{"digest": f"x1:{n:032x}", "name": f"data-{n}", "shape": "[3, 32, 32]", "outputs": 10} for n in range(DATA)]
    _write(database, data_sets, iter(sets))
    _write(database, recipes, iter([{"digest": recipe.digest, "settings": json.dumps(asdict(recipe))}]))
    _write(database, searches, (_search(n, recipe) for n in range(SEARCHES)))
    fresh = int(trial_count * (1 - SEEDS))
    of = np.concatenate([np.arange(fresh), rng.integers(fresh, size=trial_count - fresh)])
    rng.shuffle(of)
    quality, params = rng.normal(0.9, 0.02, fresh).clip(0.1, 0.999), (10 ** rng.uniform(4, 7, fresh)).astype(int)
    body = json.dumps({"format": "made up", "nodes": "x" * 400})
    _write(database, topologies, ({"key": _key(n), "digest": f"d1:{_key(n)}", "body": body} for n in range(fresh)))
    where = rng.integers(SEARCHES, size=trial_count)
    pairs = sorted({(int(n), int(s) % DATA) for n, s in zip(of, where, strict=True)})
    _write(database, costs, (_cost(n, f"x1:{d:032x}", int(params[n])) for n, d in pairs))
    ends = np.where(rng.random(trial_count) < STOPPED, max(1, epochs // 3), epochs)
    curves = quality[of][:, None] * (1 - 0.5 ** np.arange(1, epochs + 1))
    curves += rng.normal(0, 0.005, curves.shape)
    curves = curves.clip(0, 1).round(6)
    numbers = _numbers(where)
    rows = zip(where, numbers, of, ends, curves, strict=True)
    _write(database, trials, (_trial(*row, recipe.digest, params, epochs) for row in rows))
    rows = zip(where, numbers, ends, curves, strict=True)
    _write(database, reports, (report for row in rows for report in _reports(*row)))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")  # as a database that has been in use for a while
    return int(ends.sum())


def _key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:40]


def _numbers(where: np.ndarray) -> list[int]:
    count: dict[int, int] = {}
    found = []
    for search in where.tolist():
        found.append(count.get(search, 0))
        count[search] = found[-1] + 1
    return found


def _search(number: int, recipe: Recipe) -> dict[str, Any]:
    return {
        "id": number + 1,
        "name": f"search-{number}",
        "data": f"x1:{number % DATA:032x}",
        "recipe": recipe.digest,
        "space": f"space-{number % SPACES}",
        "strategy": "guided",
        "objective": "val_accuracy",
        "objectives": '["val_accuracy"]',
        "config_digest": f"s1:{number}",
        "state": "finished",
        "created": _MOMENT,
        "uid": f"{number:032x}",
    }


def _cost(topology: int, data: str, params: int) -> dict[str, Any]:
    more = {"multiply_adds": 900 * params, "activation_bytes": 12 * params, "depth": 9}
    return {"topology": _key(topology), "data": data, "params": params, **more}


def _trial(
    search: int, number: int, topology: int, end: int, curve: np.ndarray, recipe: str, params: np.ndarray, epochs: int
) -> dict[str, Any]:
    data = f"x1:{int(search) % DATA:032x}"
    score = float(curve[end - 1])
    cost = _cost(int(topology), data, int(params[topology]))
    return {
        "search": int(search) + 1,
        "number": number,
        "digest": f"d1:{cost['topology']}",
        "recipe": recipe,
        "origin": "guided",
        "state": "completed" if end == epochs else "stopped",
        "epochs": epochs,
        "epoch": int(end),
        "seed": number,
        "score": score,
        "scores": json.dumps([score]),
        "seconds": float(end) * 2.5,
        "extra": '{"device": "cuda:0", "bytes": 123456}',
        "created": _MOMENT,
        "ended": _MOMENT,
        **cost,
    }


def _reports(search: int, number: int, end: int, curve: np.ndarray) -> Iterator[dict[str, Any]]:
    for epoch in range(1, int(end) + 1):
        score = float(curve[epoch - 1])
        metrics = {"val_accuracy": score, "val_balanced_accuracy": score, "val_log_loss": round(1 - score, 6)}
        place = {"search": int(search) + 1, "number": number, "epoch": epoch}
        yield {**place, "score": score, "metrics": json.dumps(metrics), "seconds": 2.5}


def _write(database: Database, table: sa.Table, rows: Iterator[dict[str, Any]]) -> None:
    raw = database.engine.raw_connection()
    try:
        cursor: Any = raw.cursor()
        first = next(rows)
        names, every = list(first), (tuple(row.values()) for row in _again(first, rows))
        columns = ", ".join(names)
        if database.sqlite:
            cursor.execute("BEGIN")
            marks = ", ".join("?" * len(names))
            cursor.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", every)
            cursor.execute("COMMIT")
        else:
            with cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
                for row in every:
                    copy.write_row(row)
            if table is searches:
                cursor.execute(f"SELECT setval(pg_get_serial_sequence('searches', 'id'), {SEARCHES})")
            raw.commit()
    finally:
        raw.close()


def _again(first: dict[str, Any], rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield first
    yield from rows
