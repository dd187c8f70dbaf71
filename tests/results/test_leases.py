"""Leases when many ask at once: exactly one gets it, on both databases."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from detol.results.schema import leases
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Trial

ASKERS, TRAININGS = 6, 5


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.parametrize("before", ["nobody", "one that died"])
def test_of_many_that_ask_at_once_one_gets_it(
    where: str, before: str, request: pytest.FixtureRequest, make_trial: Callable[..., Trial]
) -> None:
    place: str | Path = request.getfixturevalue(where)
    wanted = [make_trial(number, width=8 + number) for number in range(TRAININGS)]
    with Database(place) as database:
        stores = [
            database.create_search(f"s{n}", {"name": f"s{n}"}, {"digest": "x1:0"}, Recipe()) for n in range(ASKERS)
        ]
        if before == "one that died":
            dead = database.create_search("dead", {}, {"digest": "x1:0"}, Recipe())
            assert [dead.lease(trial) for trial in wanted] == [None] * TRAININGS
            del dead
        gate, found = threading.Barrier(ASKERS), {}

        def ask(number: int) -> None:
            gate.wait()
            found[number] = [stores[number].lease(replace(trial, seed=number)) for trial in wanted]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(ASKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == ASKERS
        for place_ in range(TRAININGS):
            winners = [number for number in range(ASKERS) if found[number][place_] is None]
            assert len(winners) == 1
            for number in set(range(ASKERS)) - set(winners):
                held = found[number][place_]
                assert (held.search, held.seed) == (f"s{winners[0]}", winners[0])
        for store in stores:
            store.finish()
        with database.read() as connection:
            assert connection.scalar(sa.select(sa.func.count()).select_from(leases)) == 0
