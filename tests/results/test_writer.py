"""What a search's record does when a commit is interrupted, and what it holds in memory."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from detol.results.store import Database, SearchStore
from detol.search.records import State, Trial

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


def test_an_interrupt_just_after_the_commit(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_search("a")
    store.add(make_trial(0))
    store.step(1, [])
    store.spend(1.0)
    write = database.write

    def interrupted(change: Callable[[sa.Connection], None]) -> None:
        write(change)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(database, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.commit()
    store.record(make_trial(0, 0.5))
    store.finish("interrupted")
    found = database.open_search("a", lock=False)
    assert (list(found.trials()), found.steps(), found.consumed) == ([make_trial(0, 0.5)], [(1, ())], 1.0)


def test_an_interrupt_before_the_commit(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_search("a")
    store.add(make_trial(0))
    store.spend(1.0)

    def interrupted(_: Callable[[sa.Connection], None]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(database, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.commit()
    store.finish("interrupted")
    found = database.open_search("a", lock=False)
    assert (list(found.trials()), found.consumed) == ([make_trial(0)], 1.0)


def test_a_connection_lost_at_the_commit_writes_once(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    """The transaction landed, its answer did not: it is tried again, and must not be written again."""
    store = make_search("a")
    store.add(make_trial(0))
    store.step(1, [])
    store.spend(1.0)
    lost = []

    def lose(connection: sa.Connection) -> None:
        if not lost:
            lost.append(1)
            connection.connection.driver_connection.commit()  # type: ignore[union-attr]
            raise OperationalError("COMMIT", {}, Exception("server closed the connection"), connection_invalidated=True)

    sa.event.listen(database.engine, "commit", lose)
    store.commit()
    assert lost
    found = database.open_search("a", lock=False)
    assert (list(found.trials()), found.steps(), found.consumed) == ([make_trial(0)], [(1, ())], 1.0)


def test_memory_does_not_grow_with_the_trials(make_search: MakeSearch, make_trial: MakeTrial) -> None:
    store = make_search("a")
    for number in range(50):
        store.add(make_trial(number))
        store.step(1, [])
        store.commit()
        store.record(make_trial(number, 0.5, 0.6))
        store.commit()
    store.add(make_trial(50))
    store.commit()
    changes = store._changes
    assert (changes.births, changes.trials, changes.steps, changes.written) == (set(), {}, [], {50: ()})


def test_an_idle_commit_writes_nothing_until_the_heart_must_beat(
    database: Database, make_search: MakeSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_search("a")
    store.commit()

    def beat() -> float:
        with database.read() as connection:
            return float(connection.exec_driver_sql("SELECT heartbeat FROM searches").scalar_one())

    before = beat()
    store.commit()
    assert beat() == before
    monkeypatch.setattr("detol.results.owner.BEAT_SECONDS", -1.0)
    store.commit()
    assert beat() > before


def test_an_error_of_the_record_changes_nothing(make_search: MakeSearch, make_trial: MakeTrial) -> None:
    store = make_search("a", make_trial(0, 0.5))
    with pytest.raises(ValueError, match="reports"):
        store.record(make_trial(0, 0.5).__class__(0, make_trial(0).candidate, State.RUNNING, 3, curve=(1.0,)))
    store.commit()
    assert list(store.trials()) == [make_trial(0, 0.5)]
