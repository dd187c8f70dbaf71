"""Searches as the database keeps them, written by hand so that every figure of a report is known."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from detol.dashboards.report.facts import Facts, read
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.query import Query
from detol.results.schema import searches, trials
from detol.results.store import Database, SearchStore
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions

ODD = (
    '<script>document.title="owned"</script> <b>bold</b> & "x" \'y\' ..%2f {{ 7*7 }} $x^2$ <img src=x onerror=alert(1)>'
)
NAME = ODD.replace("/", "|")  # the name of a search has no slash
EPOCHS = 9
WIDTHS, KERNELS, ACTIVATIONS = (4, 8, 16), (1, 3, 5), ("relu", "gelu")
DATA = {
    "digest": "x1:digits",
    "name": "digits",
    "kind": "image",
    "task": "classification",
    "shape": [1, 8, 8],
    "outputs": 10,
    "splits": {"train": 100, "validation": 20, "test": 30},
    "source": "digits",
}


def candidate(
    width: int, kernel: int, activation: str = "relu", idle: int = 0, *, origin: Origin = Origin.SAMPLE, **more: Any
) -> Candidate:
    decisions = Decisions(width=width, kernel=kernel, activation=activation, idle=idle)
    conv = op("conv", channels=width, kernel=kernel, activation=activation)
    return Candidate(decisions, chain(conv, op("pool")), origin, **more)


def trial(number: int, made: Candidate, level: float, *, last: int = EPOCHS, **changes: Any) -> Trial:
    """Make a trial whose curve rises to ``level`` at its end; stopped if it does not come to ``EPOCHS``."""
    curve = tuple(level * (0.5 + 0.5 * epoch / EPOCHS) for epoch in range(1, last + 1))
    reports = tuple(Report(e, {"val_accuracy": v, "val_loss": 1 - v}, 2.0) for e, v in enumerate(curve, start=1))
    whole = Trial(
        number,
        made,
        State.COMPLETED if last == EPOCHS else State.STOPPED,
        EPOCHS,
        seed=number,
        reports=reports,
        curve=curve,
        scores=(curve[-1],) if curve else None,
        seconds=2.0 * last,
        reason="" if last == EPOCHS else "Asha at epoch 3",
    )
    return replace(whole, **changes)


def create(database: Database, name: str, of: dict[str, Any] | None = None, **changes: Any) -> SearchStore:
    given = {"data": "digits", "space": "made", "strategy": "evolution", "stop": "asha", "trials": 60, "epochs": EPOCHS}
    stored = {**given, "seed": 7, "workers": 2, "objective": [], **changes}
    settings = {**stored, "objectives": ["val_accuracy"], "settings": stored}
    return database.create_search(name, settings, {**DATA, **(of or {})}, Recipe())


def timed(database: Database, name: str, spans: dict[int, tuple[float, float]]) -> None:
    """Write when trials were opened and ended, in seconds since the search began."""
    begin = "2026-01-01T00:00:00.000Z"

    def change(connection: sa.Connection) -> None:
        found = connection.scalar(sa.select(searches.c.id).where(searches.c.name == name))
        connection.execute(searches.update().where(searches.c.id == found).values(created=begin, consumed=200.0))
        for number, (opened, ended) in spans.items():
            which = sa.and_(trials.c.search == found, trials.c.number == number)
            moments = {"created": moment(opened), "ended": moment(ended)}
            connection.execute(trials.update().where(which).values(**moments))

    database.write(change)


def moment(seconds: float) -> str:
    """Return a moment of the first day of 2026."""
    whole = int(seconds)
    return f"2026-01-01T{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}.{round(seconds % 1 * 1000):03}Z"


def fill(database: Database, name: str, count: int, *, seed: int, **changes: Any) -> None:
    """Write a search of ``count`` trials: a reference, samples and mutants; every third one is stopped at epoch 3."""
    store = create(database, name, trials=count, **changes)
    rng = np.random.default_rng(seed)
    spans: dict[int, tuple[float, float]] = {}
    for number in range(count):
        width, kernel, activation = (str(rng.choice(each)) for each in (WIDTHS, KERNELS, ACTIVATIONS))
        more: dict[str, Any] = {"origin": Origin.SAMPLE}
        if number == 0:
            more = {"origin": Origin.REFERENCE, "note": "plain"}
        elif number % 2:
            more = {"origin": Origin.MUTATE, "parents": (int(rng.integers(number)),)}
        made = candidate(int(width), int(kernel), activation, int(rng.integers(9)), **more)
        level = 0.6 + 0.1 * WIDTHS.index(int(width)) + 0.02 * KERNELS.index(int(kernel)) + 0.01 * rng.random()
        last = 3 if number % 3 == 2 else EPOCHS
        store.add(trial(number, made, level, last=last))
        start = 20.0 * (number // 2)
        spans[number] = (start, start + 2.0 * last)
    store.commit()
    store.amend(summary={"ended": f"all {count} trials are done", "test": {"test_accuracy": 0.8125}})
    store.finish()
    timed(database, name, spans)


def kinds(database: Database) -> None:
    """Write the search ``kinds``: one trial of each kind there is."""
    store = create(database, "kinds")
    parts = [
        trial(0, candidate(8, 3, origin=Origin.REFERENCE, note="plain"), 0.7),
        trial(1, candidate(16, 3, origin=Origin.MUTATE, parents=(0,)), 0.9),
        trial(2, candidate(4, 1), 0.5, last=3),
        trial(3, candidate(4, 3), 0.6, last=3, reason="rested at epoch 3: not promoted", extra={"checkpoint_epoch": 3}),
        trial(4, candidate(16, 5), 0.85, extra={"checkpoint_epoch": 3}),
        trial(5, candidate(8, 5), 0.0, last=0, state=State.FAILED, reason="ValueError: boom", scores=None),
        trial(6, candidate(8, 1), 0.0, last=0, state=State.REFUSED, reason="over a limit", scores=None),
        trial(7, candidate(16, 1), 0.65, reused="first/1", seconds=0.0),
        trial(
            8,
            candidate(4, 5),
            0.62,
            seconds=12.0,
            extra={"continued_from": "first/2", "spared_epochs": 3, "spared_seconds": 6.0},
        ),
    ]
    for each in parts:
        store.add(each)
    store.commit()
    store.finish()
    spans = {0: (0, 18), 1: (0, 18), 2: (18, 24), 3: (18, 50), 4: (24, 60), 5: (50, 51), 7: (51, 51), 8: (51, 63)}
    timed(database, "kinds", {number: (float(a), float(b)) for number, (a, b) in spans.items()})


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database(tmp_path_factory.mktemp("report") / "results.db") as opened:
        fill(opened, "first", 48, seed=7)
        fill(opened, "chance", 30, seed=2, strategy="random")
        fill(opened, "elsewhere", 12, seed=3, strategy="random", space="other")
        kinds(opened)
        odd = create(opened, NAME, {"name": ODD, "source": ODD, "digest": "x1:odd"}, data=ODD, space=ODD)
        strange = Candidate(
            Decisions({ODD: ODD, "width": 8}), chain(op("conv", channels=8)), Origin.REFERENCE, note=ODD
        )
        odd.add(trial(0, strange, 0.8))
        odd.add(trial(1, candidate(8, 3, origin=Origin.MUTATE, parents=(0,)), 0.7, last=3, reason=ODD))
        odd.commit()
        odd.finish()
        none = create(opened, "none-yet")
        none.add(trial(0, candidate(8, 3), 0.0, last=0, state=State.FAILED, reason="boom", scores=None))
        none.commit()
        none.finish()
        yield opened


@pytest.fixture(scope="session")
def query(database: Database) -> Query:
    return Query(database)


@pytest.fixture(scope="session")
def first(query: Query) -> Facts:
    return read(query, "first")


@pytest.fixture(scope="session")
def every_kind(query: Query) -> Facts:
    return read(query, "kinds")


@pytest.fixture(scope="session")
def reported(query: Query, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of two searches: ``first.html`` and ``odd.html``."""
    from detol.dashboards.report.writer import write_report

    folder = tmp_path_factory.mktemp("reported")
    write_report(query, "first", folder / "first.html", command="detol search --data digits", resamples=10)
    write_report(query, NAME, folder / "odd.html", command=f"detol search --data '{ODD}'")
    return folder
