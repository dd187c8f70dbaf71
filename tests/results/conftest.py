"""A results database in a file, and trials to put into it."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.store import Database, SearchStore
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty results database to copy: running the migrations for each test would take most of the time."""
    path = tmp_path_factory.mktemp("results") / "empty.db"
    Database(path).close()
    return path


@pytest.fixture
def sqlite(empty_database: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(empty_database, tmp_path / "results.db"))


@pytest.fixture
def database(sqlite: Path) -> Iterator[Database]:
    with Database(sqlite) as opened:
        yield opened


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty schema on the server of ``DETOL_TEST_POSTGRES``; without one the test is skipped."""
    server = os.environ.get("DETOL_TEST_POSTGRES")
    if not server:
        pytest.skip("set DETOL_TEST_POSTGRES to the URL of a PostgreSQL database to run this")
    schema = f"detol_{uuid.uuid4().hex}"
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    yield f"{server}?options=-csearch_path%3D{schema}"
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    admin.dispose()


@pytest.fixture
def make_trial() -> MakeTrial:
    """Make a trial of a small network: ``width`` channels; trained to the end when it has scores."""

    def make(number: int, *scores: float, width: int = 8, parents: tuple[int, ...] = (), **changes: object) -> Trial:
        topology = chain(op("conv", channels=width), op("conv", kernel=5))
        candidate = Candidate(Decisions(width=width), topology, Origin.SAMPLE, parents)
        made = Trial(number, candidate, State.COMPLETED if scores else State.RUNNING, epochs=3, seed=number)
        if scores:
            reports = tuple(Report(n, {"val_accuracy": s, "val_loss": 1 - s}, 0.5) for n, s in enumerate(scores, 1))
            made = replace(made, reports=reports, curve=scores, scores=(scores[-1],), seconds=len(scores) / 2)
        return replace(made, **changes)

    return make


@pytest.fixture
def make_search(database: Database) -> MakeSearch:
    """Make a search on the digits that holds these trials, committed."""

    def make(name: str, *trials: Trial, data: str = "digits", **settings: object) -> SearchStore:
        described = {"digest": f"x1:{data}", "name": data, "shape": [1, 8, 8], "outputs": 10}
        given = {"space": "tiny", "objectives": ["val_accuracy"], "seed": 0, **settings}
        store = database.create_search(name, given, described, Recipe())
        for trial in trials:
            store.add(trial)
        store.commit()
        return store

    return make
