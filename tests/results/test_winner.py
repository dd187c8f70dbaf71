"""Who is the best of a search: the same trial for the results database, for status, and for a search while it runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from detol.results.query import Query
from detol.results.store import Database, SearchStore
from detol.search.records import Report, State, Trial
from detol.search.tally import Tally

MakeTrial = Callable[..., Trial]
MakeSearch = Callable[..., SearchStore]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with Database(request.getfixturevalue(request.param)) as opened:
        yield opened


def with_loss(trial: Trial, loss: float | None) -> Trial:
    *first, last = trial.reports
    more = {} if loss is None else {"val_log_loss": loss}
    return replace(trial, reports=(*first, Report(last.epoch, {**last.metrics, **more}, last.seconds)))


def tally(trials: list[Trial]) -> Tally:
    found = Tally()
    for trial in trials:
        found.add(trial)
    return found


def test_of_equal_accuracies_the_lower_log_loss_is_better_and_never_one_against_a_higher_accuracy(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial
) -> None:
    losses = [0.30, 0.20, None, float("nan"), 0.01]
    trials = [with_loss(make_trial(n, 0.5, 0.9, width=8 + n), loss) for n, loss in enumerate(losses[:4])]
    trials.append(with_loss(make_trial(4, 0.5, 0.89, width=20), losses[4]))
    make_search("a", *trials)
    query = Query(database)
    assert query.resolve("a").ref == query.status("a").best == "a/1"
    assert [row.trial for row in query.top(limit=9)] == ["a/1", "a/0", "a/2", "a/3", "a/4"]
    assert [row.trial for row in query.top(limit=1)] == ["a/1"]  # also where there is no room for its equals
    assert [row.trial for row in query.top(limit=2, metric="val_loss")] == ["a/1", "a/0"]  # all four have 0.1
    assert tally(trials).best == trials[1]


def test_however_many_are_equal(database: Database, make_search: MakeSearch, make_trial: MakeTrial) -> None:
    """Log losses fall with the number, so that any cut of the list of equals would show."""
    trials = [with_loss(make_trial(n, 0.9, width=8 + n), 1 / (1 + n)) for n in range(600)]
    make_search("a", *trials)
    query = Query(database)
    assert query.resolve("a").ref == query.status("a").best == "a/599"
    for limit in (1, 5):
        assert [row.trial for row in query.top(limit=limit)] == [f"a/{599 - n}" for n in range(limit)]


@pytest.mark.parametrize("seed", range(12))
def test_database_and_running_search_agree(
    database: Database, make_search: MakeSearch, make_trial: MakeTrial, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trials = []
    for number in range(12):
        made = make_trial(number, 0.5, float(rng.choice([0.8, 0.9])), width=8 + number)
        made = with_loss(made, [0.1, 0.2, None][rng.integers(3)])
        state = State.STOPPED if rng.random() < 0.4 else State.COMPLETED
        trials.append(replace(made, state=state, reused="other/1" if rng.random() < 0.4 else ""))
    make_search("a", *trials)

    def place(trial: Trial) -> tuple[bool, float, float, bool, int]:
        loss = trial.reports[-1].metrics.get("val_log_loss", 9.0)
        return trial.state is not State.COMPLETED, -trial.curve[-1], loss, trial.reused != "", trial.number

    expected = min(trials, key=place)
    query = Query(database)
    assert query.resolve("a").trial.number == expected.number
    assert query.status("a").best == f"a/{expected.number}"
    assert tally(trials).best == expected
