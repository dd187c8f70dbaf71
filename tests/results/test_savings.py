"""What reuse and early stopping saved: counted by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from detol.results.query import Query
from detol.results.store import Database, SearchStore
from detol.search.history import TIME_UP
from detol.search.records import Report, State, Trial
from detol.search.spared import OWN, SPARED_EPOCHS, SPARED_SECONDS

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


def stretched(trial: Trial, epochs: int, seconds: float) -> Trial:
    """The trial with the length of its schedule, and seconds of each epoch."""
    reports = tuple(replace(report, seconds=seconds) for report in trial.reports)
    return replace(trial, epochs=epochs, reports=reports, seconds=seconds * len(reports))


@pytest.fixture
def filled(make_search: MakeSearch, make_trial: MakeTrial) -> None:
    whole = stretched(make_trial(0, 0.5, 0.6, 0.7), 3, 2.0)
    stopped = replace(stretched(make_trial(1, 0.5, width=16), 3, 4.0), state=State.STOPPED, width=2)
    late = replace(stretched(make_trial(2, 0.5, width=24), 3, 1.0), state=State.STOPPED, reason=TIME_UP)
    never = make_trial(3, state=State.STOPPED)
    make_search("a", whole, stopped, late, never)
    answered = replace(whole, reused="a/0", seconds=0.0)
    told = replace(stopped, reused="a/1", seconds=0.0)
    facts = {SPARED_EPOCHS: 1, SPARED_SECONDS: 8.0}
    continued = replace(stretched(make_trial(2, 0.5, 0.6, 0.7, width=16), 3, 4.0), seconds=8.0, extra=facts)
    on_its_way = replace(whole, number=3, reused="a/0", seconds=2.0, extra={OWN: 1})
    make_search("b", answered, told, continued, on_its_way)


@pytest.mark.usefixtures("filled")
def test_of_a_search(database: Database) -> None:
    query = Query(database)
    a, b = query.status("a"), query.status("b")
    assert (a.trainings_saved, a.continued, a.epochs_saved, a.seconds_saved) == (0, 0, 0, 0.0)
    # Trial 1 left two epochs of four seconds on two ranks; trial 3 was stopped before its first epoch.
    assert (a.trainings_spared, a.epochs_spared, a.seconds_spared) == (2, 2 + 3, 2 * 4.0 * 2)
    assert a.epochs_trained == 3 + 1 + 1
    # Three epochs of 2 s; one of 4 s on two ranks; one that the checkpoint left out; two of the three of the last.
    assert (b.trainings_saved, b.continued) == (3, 1)
    assert (b.epochs_saved, b.seconds_saved) == (3 + 1 + 1 + 2, 6.0 + 8.0 + 8.0 + 4.0)
    assert (b.trainings_spared, b.epochs_spared, b.seconds_spared) == (1, 2, 16.0)
    assert b.epochs_trained == 2 + 1
    assert (b.trained, b.reused) == (1, 3)


@pytest.mark.usefixtures("filled")
def test_of_the_database(database: Database) -> None:
    found = Query(database).stats()
    assert (found["trainings_saved"], found["continued"], found["reused"]) == (3, 1, 3)
    assert (found["epochs_saved"], found["seconds_saved"]) == (7, 26.0)
    # What was stopped once and answered is counted once.
    assert (found["trainings_spared"], found["epochs_spared"], found["seconds_spared"]) == (2, 5, 16.0)
    assert found["epochs"] == 5 + 3
    assert (found["seconds"], found["device_seconds"]) == (6.0 + 4.0 + 1.0 + 8.0, 6.0 + 8.0 + 1.0 + 8.0)


def test_of_nothing(database: Database, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    assert Query(database).stats()["seconds_saved"] == 0.0
    make_search("a", replace(make_trial(0, 0.5, state=State.STOPPED), reports=(Report(1, {}, float("nan")),)))
    row = Query(database).status("a")
    assert (row.trainings_spared, row.epochs_spared) == (1, 2)
