"""A whole comparison, as ``detol bench`` prints it."""

import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from detol.bench.compare import Entry, Make, Progress, Warm, compare, quiet
from detol.bench.keys import code_of
from detol.bench.run import Protocol
from detol.bench.table import BenchTable, Column
from detol.errors import UsageError
from detol.search.protocols import SearchSpace
from detol.search.records import Objective

VERSIONS = ("detol", "numpy", "scipy", "scikit-learn", "optuna")


def open_table(
    path: str | Path,
    space: SearchSpace,
    objective: Objective,
    *,
    key: str = "",
    tests: Sequence[str] = (),
    cost: str = "",
) -> BenchTable:
    """Return the table of a space, its key read by the space's ``code`` function where it has one.

    Raises:
        UsageError: as for :class:`detol.bench.table.BenchTable` and :meth:`detol.bench.table.Column.parse`.
    """
    column = Column.parse(cost) if cost else None
    return BenchTable(path, space, objective, key=key, code=code_of(space) if key else None, tests=tests, cost=column)


def answer(
    table: BenchTable,
    protocol: Protocol,
    entries: Sequence[Entry],
    make: Make,
    *,
    seeds: int = 100,
    processes: int = 0,
    progress: Progress = quiet,
    warm: Warm | None = None,
) -> dict[str, Any]:
    """Return a comparison and all that it needs to be told: table, protocol, device, versions, seconds.

    Raises:
        UsageError: as for :func:`detol.bench.compare.compare`, or no strategies.
    """
    if not entries:
        raise UsageError("a bench compares at least one --strategy")
    start = time.perf_counter()
    found = compare(table, protocol, entries, make, seeds=seeds, processes=processes, progress=progress, warm=warm)
    return {
        "strategies": found,
        "space": table.space.name,
        "table": table.path,
        "rows": len(table),
        "objective": str(table.objective),
        "best": table.objective.score(float(table.scores[table.best])),
        "seeds": seeds,
        "protocol": {
            "name": protocol.name,
            "trials": finite(protocol.trials),
            "seconds": finite(protocol.seconds),
            "workers": protocol.workers,
            "identity": protocol.identity,
            "charged": protocol.charge,
            "until_best": protocol.until_best,
        },
        "device": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "versions": versions(),
        "seconds": time.perf_counter() - start,
    }


def finite(value: float) -> float | None:
    """Return a bound, or ``None`` where there is none."""
    return None if value == float("inf") else value


def versions() -> Mapping[str, str]:
    """Return the versions of what the figures depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
