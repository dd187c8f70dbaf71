import numpy as np
import pytest

from detol.search.records import State, Trial
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.base import Told
from detol.strategies.nsga2 import NSGA2, crowded
from detol.strategies.random_search import RandomSearch

SPACE = DecisionSpace("bits", [Choice(f"c{n}", (0, 1, 2)) for n in range(10)])


def told(number: int, *scores: float) -> Told:
    return Told(number, Decisions(a=number), number, State.COMPLETED, scores[0], scores)


def test_the_population_stands_by_front_then_by_crowding() -> None:
    front = [told(0, 0.0, 4.0), told(1, 0.5, 3.6), told(2, 1.0, 3.0), told(3, 4.0, 0.0)]
    behind = [told(4, 0.0, 3.0), told(5, 0.5, 0.5)]
    kept = crowded(5)(behind, front)
    assert {member.number for member in kept[:2]} == {0, 3}  # the ends are infinitely far from others
    assert [member.number for member in kept[2:4]] == [2, 1]  # 2 has more room than 1
    assert kept[4].number == 4


def test_who_keeps_the_constraint_comes_first() -> None:
    members = [told(0, 9.0, 9.0), told(1, 1.0, 1.0), told(2, 8.0, 8.0)]
    kept = crowded(3, lambda member: max(0.0, member.scores[0] - 5.0) if member.scores else 0.0)((), members)
    assert [member.number for member in kept] == [1, 2, 0]


def test_who_breaks_the_constraint_may_have_no_scores() -> None:
    over = {2: 0.5, 3: 0.1}
    members = [told(0, 1.0, 9.0), told(1, 2.0, 2.0)]
    refused = [Told(number, Decisions(a=number), number, State.REFUSED, -np.inf, None) for number in (2, 3)]
    kept = crowded(4, lambda member: over.get(member.number, 0.0))(refused, members)
    assert [member.number for member in kept[2:]] == [3, 2]
    assert [member.number for member in crowded(2, lambda member: over.get(member.number, 0.0))((), refused)] == [3, 2]


@pytest.mark.parametrize(("make", "least", "most"), [(NSGA2, 30, 66), (RandomSearch, 0, 10)])
def test_a_tight_limit_is_found_by_how_much_it_is_broken(
    make: type[NSGA2] | type[RandomSearch], least: int, most: int
) -> None:
    """Of the 59,049 sequences of ten digits 66 add up to at most 2: one in 900; the others are refused."""
    strategy = make(SPACE, seed=0, identity=lambda candidate: candidate.decisions)
    kept, number = 0, 0
    while number < 1_000:
        (candidate,) = strategy.ask(1)
        taken = [int(value) for value in candidate.decisions.values()]
        if over := max(0, sum(taken) - 2) / 2:
            trial = Trial(number, candidate, State.REFUSED, 1, reason="it is over", extra={"violation": over})
        else:
            kept += 1
            trial = Trial(number, candidate, State.COMPLETED, 1, scores=(float(taken[0]), float(taken[9])))
        strategy.tell([trial])
        number += 1
    assert least <= kept <= most


def test_what_cannot_be_built_never_joins() -> None:
    strategy = NSGA2(SPACE, seed=0, population=4, identity=lambda candidate: candidate.decisions)
    for number, candidate in enumerate(strategy.ask(4)):
        strategy.tell([Trial(number, candidate, State.REFUSED, 1, reason="no path")])
    assert not strategy.population


def test_nobody_is_a_population_too() -> None:
    assert crowded(3)((), ()) == ()


def area(points: list[tuple[float, ...]]) -> float:
    """Return the area that two scores dominate above (0, 0)."""
    total, height = 0.0, 0.0
    for first, second in sorted(points, reverse=True):
        total += first * max(0.0, second - height)
        height = max(height, second)
    return total


def test_the_front_is_wider_than_that_of_random_search() -> None:
    """Two objectives in conflict: the number of ones, and that of twos."""

    def found(make: type[NSGA2] | type[RandomSearch], seed: int) -> float:
        strategy = make(SPACE, seed=seed, identity=lambda candidate: candidate.decisions)
        points = []
        for number in range(120):
            (candidate,) = strategy.ask(1)
            taken = list(candidate.decisions.values())
            scores = (float(taken.count(1)), float(taken.count(2)))
            points.append(scores)
            # What is over a limit is refused, and has no scores.
            refused = taken.count(0) > 8
            state = State.REFUSED if refused else State.COMPLETED
            strategy.tell([Trial(number, candidate, state, 1, scores=None if refused else scores)])
        return area(points)

    seeds = range(4)
    assert np.mean([found(NSGA2, seed) for seed in seeds]) > np.mean([found(RandomSearch, seed) for seed in seeds])
