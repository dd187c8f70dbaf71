"""Two searches at once over one database: none trains what the other does, and none waits for ever."""

import gc
import math
import os
import threading
import uuid

import pytest
import sqlalchemy as sa

from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.leases import LEASE_SECONDS
from detol.results.memory import MemoryDatabase
from detol.results.weights import WeightsFolder
from detol.search import spared
from detol.search.controller import Controller
from detol.search.ledger import AWAITED
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Objective, Origin, State, Trial, Verdict
from detol.search.task import Task
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.stopping.promotion import PromotingAsha
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

SPACE = DecisionSpace(
    "layers",
    [Choice("width", (8, 16, 32, 64)), Choice("depth", (1, 2, 3)), Choice("kernel", (3, 5, 7))],
    build=lambda d: chain(*[op("conv", channels=d["width"], kernel=d["kernel"])] * d["depth"]),
)
EPOCHS = 9
TURNS = 5000


class Table:
    """Scores by decisions and epoch, a second each."""

    def answer(self, candidate):
        width, depth, kernel = candidate.decisions.values()
        high = (width * 7 + depth * 13 + kernel * 29) % 31 / 31
        curve = [{"val_accuracy": high * (1 - math.exp(-epoch * depth / 3))} for epoch in range(1, EPOCHS + 1)]
        return Answer({}, float(EPOCHS), curve)


class Never:
    def judge(self, trial, peers):
        return Verdict.CONTINUE


class Fixed(RandomSearch):
    """Proposes the candidates of these places of the space, in this order."""

    def __init__(self, places):
        super().__init__(SPACE, seed=0)
        every = list(SPACE.enumerate())
        self.queue = [every[place] for place in places]

    def ask(self, count):
        given, self.queue = self.queue[:count], self.queue[count:]
        return [Candidate(decisions, SPACE.decode(decisions), Origin.SAMPLE) for decisions in given]


class Watched(SimulatedExecutor):
    def __init__(self, *args, change=lambda job, event: event):
        super().__init__(*args)
        self.jobs, self.change = [], change

    def submit(self, job):
        self.jobs.append(job)
        super().submit(job)

    def poll(self, timeout):
        jobs = {job.number: job for job in self.jobs}
        return [self.change(jobs[event.number], event) for event in super().poll(timeout)]


class Search:
    """A search that can be run beside others, one turn of each in a row."""

    def __init__(
        self,
        home,
        database,
        name,
        strategy,
        *,
        stopper=None,
        slots=1,
        seed=0,
        reuse="always",
        limits=None,
        store=None,
        change=lambda job, event: event,
    ):
        self.name, self.database = name, database
        self.store = store or database.create_search(name, {}, {"digest": "x1:0"}, Recipe())
        clock = SimulatedClock()
        self.workers = Watched(Table(), clock, slots, change=change)
        self.controller = Controller(
            Task(
                SPACE,
                Recipe(),
                "x1:0",
                EPOCHS,
                [Objective("val_accuracy")],
                seed=seed,
                limits=limits or Limits(trials=30),
                references=False,
                reuse=reuse,
            ),
            strategy=strategy,
            stopper=stopper or Never(),
            executor=self.workers,
            store=self.store,
            tracker=NullTracker(),
            keeper=WeightsFolder(home, name, known=tuple(self.store.trials())),
            clock=clock,
            consumed=self.store.consumed,
        )
        self.found, self.error, self.turns = None, None, 0

    @property
    def trials(self):
        return self.database.open_search(self.name, lock=False).trials()


def together(*searches, at=lambda search: None):
    """Run searches, a turn of each in a row, on one thread at a time; ``at`` is called before each turn."""
    baton, alive = threading.Condition(), list(searches)
    current = [alive[0]]

    def passed(search):
        after = alive.index(search) + 1
        current[0] = alive[after % len(alive)]
        baton.notify_all()

    def turn(search):
        def watch(_controller):
            search.turns += 1
            if search.turns > TURNS:
                raise AssertionError(f"{search.name} waits for ever")
            at(search)
            with baton:
                passed(search)
                baton.wait_for(lambda: current[0] is search)

        return watch

    def run(search):
        with baton:
            baton.wait_for(lambda: current[0] is search)
        try:
            search.found = search.controller.run()
            search.store.finish("interrupted" if search.found.interrupted else "finished")
        except BaseException as error:
            search.error = error
            search.store.close()
        finally:
            with baton:
                passed(search)
                alive.remove(search)

    threads = []
    for search in searches:
        search.controller._watch = turn(search)
        threads.append(threading.Thread(target=run, args=(search,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for search in searches:
        if isinstance(search.error, AssertionError):
            raise search.error


def first_of_space():
    """A trial of the first candidate of the space, about to run."""
    decisions = next(iter(SPACE.enumerate()))
    return Trial(0, Candidate(decisions, SPACE.decode(decisions), Origin.SAMPLE), State.RUNNING, EPOCHS, seed=3)


def trained(*searches):
    """How many epochs were trained of each digest, over all searches."""
    counts = {}
    for search in searches:
        for trial in search.trials:
            counts[trial.digest] = counts.get(trial.digest, 0) + spared.trained(trial)
    assert sum(counts.values()) == sum(search.workers.busy for search in searches)  # what was counted is what was done
    return counts


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def database(request, tmp_path):
    """Each kind of results database; PostgreSQL where there is one (see tests/contracts/test_store.py)."""
    if request.param == "memory":
        yield MemoryDatabase()
        return
    from detol.results.store import Database

    server = os.environ.get("DETOL_TEST_POSTGRES")
    if request.param == "sqlite":
        with Database(tmp_path / "results.db") as opened:
            yield opened
        return
    if not server:
        pytest.skip("set DETOL_TEST_POSTGRES to the URL of a PostgreSQL database to run this")
    schema = f"detol_{uuid.uuid4().hex}"
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    with Database(f"{server}?options=-csearch_path%3D{schema}") as opened:
        yield opened
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    admin.dispose()


@pytest.mark.parametrize("slots", [1, 3])
def test_two_that_propose_the_same_share_the_work(slots, tmp_path, database):
    a, b = (Search(tmp_path, database, name, Fixed(range(12)), slots=slots) for name in "ab")
    together(a, b)
    assert all(t.state is State.COMPLETED for s in (a, b) for t in s.trials)
    assert set(trained(a, b).values()) == {EPOCHS}
    assert a.workers.busy + b.workers.busy == 12 * EPOCHS
    assert min(a.workers.busy, b.workers.busy) >= 4 * EPOCHS  # neither only waits
    assert [t.digest for t in a.trials] == [t.digest for t in b.trials]
    for search, other in ((a, b), (b, a)):
        for trial in search.trials:
            assert AWAITED not in trial.extra
            assert trial.reused in ("", f"{other.name}/{trial.number}")


@pytest.mark.parametrize("slots", [(1, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("seeds", [(0, 0), (0, 1)])
def test_with_rungs_too_no_epoch_is_trained_twice(slots, seeds, tmp_path):
    database = MemoryDatabase()
    a, b = (
        Search(
            tmp_path,
            database,
            name,
            RandomSearch(SPACE, seed=number),
            stopper=PromotingAsha(epochs=EPOCHS),
            slots=slots[number],
            seed=seeds[number],
        )
        for number, name in enumerate("ab")
    )
    together(a, b)
    assert all(t.state.final for s in (a, b) for t in s.trials)
    shared = {t.digest for t in a.trials} & {t.digest for t in b.trials}
    assert len(shared) > 20
    furthest = {}
    for search in (a, b):
        for trial in search.trials:
            furthest[trial.digest] = max(furthest.get(trial.digest, 0), trial.epoch)
    assert trained(a, b) == furthest
    assert any(t.extra.get(spared.SPARED_EPOCHS) and not t.reused for s in (a, b) for t in s.trials)
    for search in (a, b):
        for trial in search.trials:
            whole = [metrics["val_accuracy"] for metrics in Table().answer(trial.candidate).curve]
            assert list(trial.curve) == whole[: trial.epoch]


def test_each_waits_for_what_the_other_trains_and_has_nothing_else_to_do(tmp_path):
    database = MemoryDatabase()
    a = Search(tmp_path, database, "a", Fixed([0, 1]), limits=Limits(trials=2))
    b = Search(tmp_path, database, "b", Fixed([1, 0]), limits=Limits(trials=2))
    waited = []

    def watch(search):
        if search.turns == 2:  # each trains its first one, and has a worker left
            search.workers._workers = 2
        waited.append({s.name: len(s.controller._ledger.awaited) for s in (a, b)})

    together(a, b, at=watch)
    assert {"a": 1, "b": 1} in waited
    assert [t.reused for t in a.trials] == ["", "b/0"]
    assert [t.reused for t in b.trials] == ["", "a/0"]


def test_two_whose_trials_rest_where_the_other_waits_do_not_lock_each_other(tmp_path):
    database = MemoryDatabase()
    for trials in (2, 3, 5):
        rule = PromotingAsha(epochs=EPOCHS)
        places = list(range(trials))
        a = Search(tmp_path, database, f"a{trials}", Fixed(places), stopper=rule, limits=Limits(trials=trials), slots=2)
        b = Search(
            tmp_path, database, f"b{trials}", Fixed(places[::-1]), stopper=rule, limits=Limits(trials=trials), slots=2
        )
        together(a, b)
        assert a.error is None
        assert b.error is None
        assert all(t.state.final for s in (a, b) for t in s.trials)


def test_while_it_waits_a_search_goes_on_with_other_candidates(tmp_path):
    database = MemoryDatabase()
    a = Search(tmp_path, database, "a", Fixed([0]), limits=Limits(trials=1))
    b = Search(tmp_path, database, "b", Fixed([0, 1, 2]), limits=Limits(trials=3))
    seen = []

    def watch(search):
        if search is b and search.controller._ledger.awaited:
            seen.append(tuple(search.controller.running))
            assert database.open_search("b", lock=False).trials()[0].extra.get(AWAITED, "a") == "a"

    together(a, b, at=watch)
    assert (1,) in seen
    assert [t.reused for t in b.trials] == ["a/0", "", ""]
    assert [t.number for t in b.trials] == [0, 1, 2]
    assert [job.number for job in b.workers.jobs] == [1, 2]


def dies(job, event):
    return Ended(job.number, State.FAILED, "boom")


def test_what_fails_there_is_tried_here(tmp_path):
    database = MemoryDatabase()
    a = Search(tmp_path, database, "a", Fixed([0]), limits=Limits(trials=1), change=dies)
    b = Search(tmp_path, database, "b", Fixed([0]), limits=Limits(trials=1))
    together(a, b)
    assert (a.trials[0].state, b.trials[0].state, b.trials[0].reused) == (State.FAILED, State.COMPLETED, "")


def test_when_the_other_controller_dies_its_lease_is_taken_over_at_once(tmp_path):
    class Killed(Exception):
        pass

    database = MemoryDatabase()
    a = Search(tmp_path, database, "a", Fixed([0]), limits=Limits(trials=1))
    b = Search(tmp_path, database, "b", Fixed([0]), limits=Limits(trials=1))

    def kill(search):
        if search is a and a.turns == 4:
            raise Killed

    together(a, b, at=kill)
    gc.collect()
    assert isinstance(a.error, Killed)
    assert (b.trials[0].state, b.trials[0].reused, b.workers.busy) == (State.COMPLETED, "", EPOCHS)


def test_one_that_hangs_holds_its_lease_until_it_expires(tmp_path):
    moment = [0.0]
    database = MemoryDatabase(clock=lambda: moment[0])
    hangs = database.create_search("hangs", {}, {"digest": "x1:0"}, Recipe())
    b = Search(tmp_path, database, "b", Fixed([0]), limits=Limits(trials=1))
    assert hangs.lease(first_of_space()) is None

    def later(search):
        moment[0] += 1.0
        if moment[0] < LEASE_SECONDS:
            assert search.workers.jobs == []

    together(b, at=later)
    assert moment[0] > LEASE_SECONDS
    assert (b.trials[0].state, b.workers.busy) == (State.COMPLETED, EPOCHS)


def test_an_interrupt_while_waiting_is_resumed_as_waiting(tmp_path):
    database = MemoryDatabase()
    hangs = database.create_search("hangs", {}, {"digest": "x1:0"}, Recipe())
    b = Search(tmp_path, database, "b", Fixed([0, 1]), limits=Limits(trials=2))
    assert hangs.lease(first_of_space()) is None
    together(b, at=lambda search: search.controller.interrupt() if search.turns == 30 else None)
    assert b.found.interrupted
    assert [(t.state, t.extra.get(AWAITED)) for t in b.trials] == [(State.RUNNING, "hangs"), (State.COMPLETED, None)]
    hangs.close()
    again = Search(tmp_path, database, "b", Fixed([0, 1]), limits=Limits(trials=2), store=database.open_search("b"))
    together(again)
    assert [(t.state, t.attempt, AWAITED in t.extra) for t in again.trials] == [(State.COMPLETED, 1, False)] * 2


def test_time_that_is_up_while_waiting_leaves_the_trial_to_a_longer_resume(tmp_path):
    database = MemoryDatabase()
    hangs = database.create_search("hangs", {}, {"digest": "x1:0"}, Recipe())
    assert hangs.lease(first_of_space()) is None
    b = Search(tmp_path, database, "b", Fixed([0]), limits=Limits(trials=1, seconds=20.0))
    together(b)
    assert "time is used up" in b.found.ended
    assert b.trials[0].state is State.RUNNING
    assert b.workers.jobs == []


@pytest.mark.parametrize(
    ("reuse", "seeds", "shared"),
    [("always", (0, 1), True), ("same-seed", (0, 0), True), ("same-seed", (0, 1), False), ("never", (0, 0), False)],
)
def test_nobody_waits_for_a_result_that_would_be_of_no_use(reuse, seeds, shared, tmp_path):
    database = MemoryDatabase()
    a = Search(tmp_path, database, "a", Fixed(range(4)), limits=Limits(trials=4), seed=seeds[0])
    b = Search(tmp_path, database, "b", Fixed(range(4)), limits=Limits(trials=4), seed=seeds[1], reuse=reuse)
    together(a, b)
    assert (b.workers.busy < 4 * EPOCHS) == shared
    if not shared:
        assert all(t.reused == "" for t in b.trials)


def test_leases_do_not_outlive_their_searches(tmp_path):
    database = MemoryDatabase()
    a = Search(tmp_path, database, "a", RandomSearch(SPACE, seed=1), stopper=PromotingAsha(epochs=EPOCHS), slots=3)
    held = []
    together(a, at=lambda search: held.append((len(database.leases), len(search.controller.running))))
    assert database.leases == {}
    assert max(count for count, _ in held) <= 2 * 3  # what runs, and what ended since the last commit
