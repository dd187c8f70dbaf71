"""The contract of a store, run over the database (SQLite; PostgreSQL where there is one) and its double in memory.

Set ``DETOL_TEST_POSTGRES=postgresql+psycopg://USER@HOST/NAME`` to run it on PostgreSQL, too: each test makes a
schema of its own there, and drops it.
"""

import gc
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
import sqlalchemy as sa

from detol.errors import ResultsError, UsageError
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.results.leases import LEASE_SECONDS
from detol.results.memory import MemoryDatabase, MemoryStore
from detol.results.store import Database, SearchStore
from detol.search.protocols import Held, Store
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Origin, Report, Reported, State, Trial
from detol.spaces.decisions import Decisions

DATA = {"digest": "x1:digits", "name": "digits", "shape": [1, 8, 8], "outputs": 10, "kind": "image"}
RECIPE = Recipe()
AnyDatabase: TypeAlias = Database | MemoryDatabase
AnyStore: TypeAlias = SearchStore | MemoryStore


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty results database to copy: running the migrations for each test would take most of the time."""
    path = tmp_path_factory.mktemp("results") / "empty.db"
    Database(path).close()
    return path


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def reach(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> Iterator[Callable[[], AnyDatabase]]:
    """A function that opens the same database again and again, each time by a connection of its own."""
    opened: list[AnyDatabase] = []
    memory = MemoryDatabase()
    schema = f"detol_{uuid.uuid4().hex}"
    server = os.environ.get("DETOL_TEST_POSTGRES")
    if request.param == "sqlite":
        shutil.copy(empty_database, tmp_path / "results.db")
    if request.param == "postgresql" and not server:
        pytest.skip("set DETOL_TEST_POSTGRES to the URL of a PostgreSQL database to run this")

    def reach() -> AnyDatabase:
        if request.param == "memory":
            return memory
        path: str | Path = tmp_path / "results.db"
        if request.param == "postgresql":
            path = f"{server}?options=-csearch_path%3D{schema}"
        opened.append(Database(path))
        return opened[-1]

    if request.param == "postgresql":
        admin = sa.create_engine(str(server), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    yield reach
    for database in opened:
        database.close()
    if request.param == "postgresql":
        with admin.connect() as connection:
            connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
        admin.dispose()


def begin(database: AnyDatabase, name: str = "first", **settings: object) -> AnyStore:
    return database.create_search(name, settings, DATA, RECIPE)


def trial(number: int, *, width: int = 8, state: State = State.RUNNING, **changes: object) -> Trial:
    topology = chain(op("conv", channels=width), op("conv", kernel=5))
    candidate = Candidate(Decisions(width=width), topology, Origin.SAMPLE)
    return replace(Trial(number, candidate, state, epochs=3, seed=number), **changes)


def trained(running: Trial, *scores: float, state: State = State.COMPLETED) -> Trial:
    reports = tuple(Report(n, {"val_accuracy": s, "val_loss": 1 - s}, 0.5) for n, s in enumerate(scores, start=1))
    return replace(running, reports=reports, curve=scores, scores=(scores[-1],), state=state, seconds=len(scores) / 2)


def test_keeps_the_protocol(reach: Callable[[], AnyDatabase]) -> None:
    assert isinstance(begin(reach()), Store)


def test_a_trial_comes_back_as_it_was(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    first = trial(0)
    last = trained(
        trial(1, width=16, extra={"device": "cuda:0", "bytes": 7, "share": 0.5}),
        0.5,
        0.75,
        state=State.STOPPED,
    )
    last = replace(last, candidate=replace(last.candidate, parents=(0, 0), note="wide", origin=Origin.CROSS))
    store.add(first)
    store.add(last)
    assert list(store.trials()) == [first, last]
    store.commit()
    assert list(store.trials()) == [first, last]
    assert list(reach().open_search("first", lock=False).trials()) == [first, last]


def test_nothing_is_durable_before_commit(reach: Callable[[], AnyDatabase]) -> None:
    store, other = begin(reach()), reach()
    store.add(trial(0))
    store.step(1, [])
    store.spend(2.5)
    seen = other.open_search("first", lock=False)
    assert (list(seen.trials()), seen.steps(), seen.consumed) == ([], [], 0.0)
    store.commit()
    seen = other.open_search("first", lock=False)
    assert (list(seen.trials()), seen.steps(), seen.consumed) == ([trial(0)], [(1, ())], 2.5)


def test_a_crash_leaves_the_last_commit(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    store.add(trial(0))
    store.spend(1.0)
    store.commit()
    store.record(trained(trial(0), 0.9))
    store.add(trial(1))
    store.step(1, [0])
    store.spend(1.0)
    del store
    gc.collect()
    again = reach().open_search("first")
    assert (list(again.trials()), again.steps(), again.consumed) == ([trial(0)], [], 1.0)
    again.add(trial(1))
    again.commit()
    assert [t.number for t in again.trials()] == [0, 1]


def test_a_number_is_given_once(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    store.add(trial(4))
    with pytest.raises(ValueError, match="trial 4"):
        store.add(trial(4, width=16))
    store.commit()
    with pytest.raises(ValueError, match="never given again"):
        store.add(trial(4, width=16))
    store.close()
    again = reach().open_search("first")
    with pytest.raises(ValueError, match="never given again"):
        again.add(trial(4, width=16))
    again.add(trial(2))  # numbers need not rise
    again.commit()
    assert [t.number for t in again.trials()] == [2, 4]


def test_an_unknown_number_is_not_recorded(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    store.add(trial(4))
    store.commit()
    for number in (3, 5):
        with pytest.raises(ValueError, match="never added"):
            store.record(trial(number))


def test_a_curve_as_long_as_the_reports(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    with pytest.raises(ValueError, match="1 reports and 0 scores"):
        store.add(replace(trial(0), reports=(Report(1, {}),)))


def test_a_report_is_added_once(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    store.add(trial(0))
    store.commit()
    one = trained(trial(0), 0.5, state=State.RUNNING)
    two = trained(trial(0), 0.5, 0.75, state=State.RUNNING)
    for state in (one, one, two):
        store.record(state, Reported(0, state.reports[-1]))
        store.commit()
    end = replace(two, state=State.COMPLETED)
    for _ in range(2):  # late results are accepted again and again
        store.record(end, Ended(0, State.COMPLETED))
        store.commit()
    assert list(reach().open_search("first", lock=False).trials()) == [end]


def test_a_second_attempt_replaces_the_reports_of_the_first(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    store.add(trial(0))
    store.record(trained(trial(0), 0.5, 0.6, state=State.RUNNING))
    store.commit()
    lost = replace(trained(trial(0), 0.5, 0.6, state=State.LOST), scores=None, reason="its worker died")
    store.record(lost)
    store.commit()
    again = replace(trained(trial(0), 0.4, state=State.RUNNING), attempt=2)
    store.record(again)
    store.commit()
    assert list(reach().open_search("first", lock=False).trials()) == [again]


def test_reports_of_a_search_opened_again(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    store.add(trained(trial(0), 0.5, state=State.RUNNING))
    store.commit()
    store.close()
    again = reach().open_search("first")
    again.record(trained(trial(0), 0.5, 0.6, 0.7))
    again.commit()
    assert list(again.trials()) == [trained(trial(0), 0.5, 0.6, 0.7)]


def test_steps_replay_in_order(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    log = [(2, ()), (1, (1,)), (0, (0, 2)), (3, ())]
    for asked, told in log[:2]:
        store.step(asked, told)
    store.commit()
    store.step(*log[2])
    assert store.steps() == log[:3]
    store.commit()
    store.close()
    again = reach().open_search("first")
    again.step(*log[3])
    again.commit()
    assert reach().open_search("first", lock=False).steps() == log


def test_steps_hold_how_far_a_trial_that_rested_had_come(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    log = [(1, ()), (1, ((0, 1),)), (2, ((0, 3), (1, 1), 2)), (0, (0,))]
    for asked, told in log[:3]:
        store.step(asked, told)
    store.commit()
    store.step(*log[3])
    assert store.steps() == log
    store.commit()
    store.close()
    assert reach().open_search("first", lock=False).steps() == log


def test_a_resting_trial_goes_on_with_the_reports_it_had(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    rested = replace(trained(trial(0), 0.5, 0.6, state=State.PAUSED), weights="weights/first/0-2-00000000.checkpoint")
    store.add(trial(0, state=State.RUNNING))
    store.commit()
    store.record(rested)
    store.commit()
    store.close()
    again = reach().open_search("first")
    assert list(again.trials()) == [rested]
    assert again.known(rested.digest, again.recipe, again.data, rested.epochs) == []  # it may still come further
    again.record(replace(rested, state=State.RUNNING))
    again.record(trained(trial(0), 0.5, 0.6, 0.7, state=State.RUNNING))
    again.commit()
    again.record(trained(trial(0), 0.5, 0.6, 0.7))
    again.commit()
    assert list(reach().open_search("first", lock=False).trials()) == [trained(trial(0), 0.5, 0.6, 0.7)]


def test_settings_and_time(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach(), space="tiny", trials=5, nested={"rate": 0.5, "infinite": math.inf})
    assert store.settings == {"space": "tiny", "trials": 5, "nested": {"rate": 0.5, "infinite": math.inf}}
    assert (store.name, store.data, store.recipe) == ("first", DATA["digest"], RECIPE.digest)
    store.spend(1.5)
    store.amend(trials=9)
    store.spend(1.0)
    assert store.consumed == 2.5
    store.finish("interrupted")
    again = reach().open_search("first", lock=False)
    assert (again.consumed, again.state, again.settings["trials"]) == (2.5, "interrupted", 9)
    assert reach().open_search("first").state == "running"


def test_a_name_is_taken_once(reach: Callable[[], AnyDatabase]) -> None:
    begin(reach()).finish()
    with pytest.raises(UsageError, match="'first' exists already"):
        begin(reach())
    with pytest.raises(ResultsError, match=r"'frist'.*did you mean first\?"):
        reach().open_search("frist")


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\nb", "a\x00b", "x" * 201])
def test_a_name_that_cannot_be_one(reach: Callable[[], AnyDatabase], name: str) -> None:
    with pytest.raises(UsageError, match="name of a search"):
        begin(reach(), name)
    assert reach().names() == []


@pytest.mark.parametrize(
    "name", ["x'; DROP TABLE trials; --", '"; DELETE FROM searches; --', "%s :x {y} \\", "Größe ✓"]
)
def test_a_name_is_never_run(reach: Callable[[], AnyDatabase], name: str) -> None:
    begin(reach()).finish()
    store = begin(reach(), name)
    odd = replace(
        trial(0), reason=name, candidate=replace(trial(0).candidate, note=name, decisions=Decisions({name: name}))
    )
    store.add(odd)
    store.commit()
    assert list(reach().open_search(name, lock=False).trials()) == [odd]
    assert reach().names() == ["first", name]


def test_one_controller_at_a_time(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    with pytest.raises(ResultsError, match="is being run"):
        reach().open_search("first")
    store.finish()
    again = reach().open_search("first")
    with pytest.raises(ValueError, match="for reading only"):
        store.add(trial(0))
    again.close()
    again.close()


def test_known_answers_over_searches(reach: Callable[[], AnyDatabase]) -> None:
    first, second = begin(reach(), "first"), begin(reach(), "second")
    full = trained(trial(0), 0.5, 0.6, 0.7)
    stopped = trained(trial(1, seed=5), 0.5, 0.6, state=State.STOPPED)
    short = trained(trial(2, seed=6), 0.5, state=State.STOPPED)
    others = [
        trained(trial(3, width=16), 0.9),  # another topology
        trained(trial(4, epochs=9), 0.9),  # another fidelity
        replace(trained(trial(5), 0.9), state=State.FAILED, scores=None),
        replace(trained(trial(6), 0.9), reused="old/3"),  # an answer is no evidence of its own
        trained(trial(7), 0.9, state=State.RUNNING),
    ]
    for one in [short, stopped, full, *others]:
        first.add(one)
    asked = (full.digest, RECIPE.digest, str(DATA["digest"]), 3)
    expected = [replace(t, reused=f"first/{t.number}") for t in (full, stopped, short)]
    assert list(first.known(*asked)) == expected  # its own, before they are committed
    assert list(second.known(*asked)) == []
    first.commit()
    assert list(first.known(*asked)) == expected
    assert list(second.known(*asked)) == expected
    for place, other in ((0, "d1:00"), (1, "r1:00"), (2, "x1:00"), (3, 4)):
        assert list(second.known(*(other if n == place else value for n, value in enumerate(asked)))) == []


def test_a_collision_of_digests_answers_nothing(reach: Callable[[], AnyDatabase]) -> None:
    store = begin(reach())
    liar = trained(trial(0), 0.9)
    other = chain(op("conv", channels=9))
    liar.candidate.__dict__["digest"] = "d1:collision"
    store.add(liar)
    store.commit()
    asked = ("d1:collision", RECIPE.digest, str(DATA["digest"]), 3)
    assert len(store.known(*asked)) == 1
    assert len(store.known(*asked, topology=liar.candidate.topology)) == 1
    assert len(store.known(*asked, topology=renamed(liar.candidate.topology))) == 1
    assert len(store.known(*asked, topology=other)) == 0


def renamed(topology: Topology) -> Topology:
    """The same network under other names."""
    return Topology(
        {f"n{name}": node for name, node in reversed(topology.nodes.items())},
        [(f"n{a}", f"n{b}") for a, b in topology.edges],
    )


def test_the_twin_of_a_search(reach: Callable[[], AnyDatabase]) -> None:
    database = reach()
    settings = {"space": "tiny", "seed": 1}
    stores = [database.create_search(name, {**settings, "name": name}, DATA, RECIPE) for name in ("a", "b", "c", "d")]
    other = database.create_search("other", {**settings, "seed": 2}, DATA, RECIPE)
    assert len({store.config_digest for store in stores}) == 1
    assert other.twin(other.config_digest) is None
    stores[1].add(trial(0))
    stores[1].step(1, [])
    stores[1].commit()
    twin = stores[3].twin(stores[3].config_digest)
    assert twin is not None
    assert (twin.name, twin.steps(), list(twin.trials())) == ("b", [(1, ())], [trial(0)])
    newest = stores[1].twin(stores[1].config_digest)
    assert newest is not None
    assert newest.name == "d"


def test_two_searches_at_once_lose_nothing(reach: Callable[[], AnyDatabase]) -> None:
    stores = [begin(reach(), name) for name in ("first", "second")]
    for number in range(20):
        for store in stores:
            store.add(trial(number, width=8 + number % 3))
            store.step(1, [])
            store.commit()
            store.record(trained(trial(number, width=8 + number % 3), 0.5))
            store.commit()
    for name in ("first", "second"):
        found = reach().open_search(name, lock=False)
        assert [t.number for t in found.trials()] == list(range(20))
        assert all(t.state is State.COMPLETED and len(t.reports) == 1 for t in found.trials())
        assert len(found.steps()) == 20


def test_data_without_a_digest_are_refused(reach: Callable[[], AnyDatabase]) -> None:
    with pytest.raises(ValueError, match="digest"):
        reach().create_search("first", {}, {"name": "digits"}, RECIPE)


def test_what_rests_is_known_as_far_as_it_has_come_to_those_who_ask(reach: Callable[[], AnyDatabase]) -> None:
    first, second = begin(reach(), "first"), begin(reach(), "second")
    rests = trained(trial(0), 0.5, 0.6, state=State.PAUSED)
    told = replace(rests, number=1, extra={"known_epochs": 2, "spared_epochs": 2})  # by another's curve: no evidence
    short = trained(trial(2, seed=6), 0.5, state=State.STOPPED)
    for one in (short, rests, told):
        first.add(one)
    asked = (rests.digest, RECIPE.digest, str(DATA["digest"]), 3)
    expected = [replace(t, reused=f"first/{t.number}") for t in (rests, short)]
    assert list(first.known(*asked, unfinished=True)) == expected
    first.commit()
    for store in (first, second):
        assert list(store.known(*asked, unfinished=True)) == expected
        assert list(store.known(*asked)) == expected[1:]


def test_schedules_of_any_length_are_known_to_those_who_ask(reach: Callable[[], AnyDatabase]) -> None:
    first, second = begin(reach(), "first"), begin(reach(), "second")
    exact, longer = trained(trial(0), 0.5, 0.6, 0.7), trained(trial(1, epochs=9), 0.5, 0.6, state=State.STOPPED)
    for one in (exact, longer):
        first.add(one)
    asked = (exact.digest, RECIPE.digest, str(DATA["digest"]), 3)
    expected = [replace(t, reused=f"first/{t.number}") for t in (exact, longer)]
    assert list(first.known(*asked, any_length=True)) == expected
    first.commit()
    for store in (first, second):
        assert list(store.known(*asked, any_length=True)) == expected
        assert list(store.known(*asked)) == expected[:1]
        assert list(store.known(exact.digest, "r1:00", *asked[2:], any_length=True)) == []


def test_a_lease_is_held_until_the_result_is_there(reach: Callable[[], AnyDatabase]) -> None:
    first, second = begin(reach(), "first"), begin(reach(), "second")
    mine, theirs = trial(0, seed=7), trial(5, seed=8)
    assert first.lease(mine) is None
    assert first.lease(mine) is None  # again is no error
    assert second.lease(theirs) == Held("first", 7)
    assert second.lease(replace(theirs, epochs=9)) is None  # another training
    assert second.lease(trial(6, width=16)) is None
    first.add(mine)
    first.record(trained(mine, 0.5, 0.6, 0.7))
    first.release(mine)
    first.release(mine)
    assert second.lease(theirs) == Held("first", 7)
    first.commit()
    assert second.known(theirs.digest, RECIPE.digest, str(DATA["digest"]), 3)
    assert second.lease(theirs) is None
    first.release(mine)  # it is not its own any more
    first.spend(1.0)
    first.commit()
    assert first.lease(mine) == Held("second", 8)


def test_a_lease_is_of_one_recipe_and_data_set(reach: Callable[[], AnyDatabase]) -> None:
    first = begin(reach(), "first")
    other = reach().create_search("other", {}, {**DATA, "digest": "x1:other"}, RECIPE)
    slow = reach().create_search("slow", {}, DATA, replace(RECIPE, learning_rate=0.01))
    assert [store.lease(trial(0)) for store in (first, other, slow)] == [None] * 3


@pytest.mark.parametrize("end", ["finish", "close", "die"])
def test_a_search_that_ends_in_whatever_way_holds_no_lease(reach: Callable[[], AnyDatabase], end: str) -> None:
    first, second = begin(reach(), "first"), begin(reach(), "second")
    assert first.lease(trial(0)) is None
    assert second.lease(trial(0)) == Held("first", 0)
    if end == "die":
        del first
        gc.collect()
    else:
        getattr(first, end)()
    assert second.lease(trial(0)) is None
    again = reach().open_search("first")
    assert again.lease(trial(0)) == Held("second", 0)


def test_a_lease_that_nobody_renews_expires_and_commits_renew_it(
    reach: Callable[[], AnyDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begin(reach(), "first"), begin(reach(), "second")
    now, start = time.time(), time.time()
    monkeypatch.setattr("time.time", lambda: now)
    assert first.lease(trial(0)) is None
    for _ in range(3):
        now += 0.9 * LEASE_SECONDS
        assert second.lease(trial(0)) == Held("first", 0)
        first.commit()  # there is nothing to write: a heartbeat alone
    assert now > start + LEASE_SECONDS
    now += 1.1 * LEASE_SECONDS  # its controller hangs
    assert second.lease(trial(0)) is None
    first.spend(1.0)
    first.commit()  # it wakes up: what it lost stays lost
    assert first.lease(trial(0)) == Held("second", 0)
