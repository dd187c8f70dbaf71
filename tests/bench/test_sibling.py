"""A sibling column as a warm start of searches on a table."""

import csv

import pytest

from detol import wire
from detol.bench import Entry, Protocol, answer, open_table
from detol.bench.sibling import Sibling
from detol.errors import UsageError
from detol.search.records import Objective
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

SPACE = DecisionSpace("siblings", [Choice(f"c{n}", ("a", "b", "c", "d")) for n in range(4)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Scores are sums over the options; the sibling's differ by a little."""
    path = tmp_path_factory.mktemp("table") / "table.csv"
    worth = {"a": 0, "b": 3, "c": 7, "d": 4}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"c{n}" for n in range(4)), "score", "near"])
        for row in SPACE.enumerate():
            taken = list(row.values())
            total = sum((n + 1) * worth[option] for n, option in enumerate(taken))
            writer.writerow([*taken, total, total + 3 * (taken[0] == "a") - 2 * (taken[3] == "d")])
    return open_table(path, SPACE, Objective("score"))


def test_records_are_rows_of_the_sibling_best_first_and_differ_by_seed(table):
    sibling = Sibling(table, Objective("near"), 30)
    (known,) = sibling.sources(0)
    assert len(known.records) == len({record.decisions for record in known.records}) == 30
    scores = [record.score for record in known.records]
    assert scores == sorted(scores, reverse=True)
    for record in known.records:
        taken = record.decisions
        shift = 3 * (taken["c0"] == "a") - 2 * (taken["c3"] == "d")
        assert record.score == table.scores[table.row_of(taken)] + shift
    assert sibling.sources(0) == [known]
    assert sibling.sources(1) != [known]


def test_the_wrong_direction_is_a_reversed_sibling(table):
    (known,) = Sibling(table, Objective("near"), 256).sources(0)
    (turned,) = Sibling(table, Objective("near", minimise=True), 256).sources(0)
    assert turned.records[0].score == -known.records[-1].score


def test_a_space_has_no_more_rows_than_it_has(table):
    (known,) = Sibling(table, Objective("near"), 10_000).sources(0)
    assert len(known.records) == 256


def test_what_is_measured_is_not_known_before(table):
    with pytest.raises(UsageError, match="not itself"):
        Sibling(table, Objective("score"), 30)
    with pytest.raises(UsageError, match="unknown warm objective column"):
        Sibling(table, Objective("nearr"), 30)
    with pytest.raises(UsageError, match="at least 2, got 1"):
        Sibling(table, Objective("near"), 1)


def test_searches_that_know_the_sibling_need_fewer_trainings(table):
    def needed(warm):
        found = answer(table, Protocol(trials=40), [Entry("guided")], wire.strategy, seeds=4, processes=1, warm=warm)
        return found["strategies"][0]["mean_trainings_to_best"]

    assert needed(Sibling(table, Objective("near"), 60).sources) < 0.7 * needed(None)
