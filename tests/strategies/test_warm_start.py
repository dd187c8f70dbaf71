"""The best of other data sets first, then what another strategy proposes."""

import pytest

from detol.errors import UsageError
from detol.search.records import Candidate, Origin, State, Trial
from detol.search.warm import WarmRecord, WarmSource
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.random_search import RandomSearch
from detol.strategies.warm_start import FIRST, WarmStart
from detol.wire import strategy

SPACE = DecisionSpace("small", [Choice(f"c{n}", ("a", "b", "c")) for n in range(4)], references={})
EACH = list(SPACE.enumerate())


def source(decisions, name="s"):
    records = tuple(WarmRecord(each, -float(n), f"{name}/{n}") for n, each in enumerate(decisions))
    return WarmSource(name, f"x1:{name}", records)


def told(number, candidate, score=1.0):
    return Trial(number, candidate, State.COMPLETED, 1, scores=(score,))


def test_the_best_of_each_source_come_in_turns_and_say_whence():
    made = WarmStart(RandomSearch(SPACE, seed=1), SPACE, [source(EACH[:9]), source(EACH[20:29], "t")])
    first = [candidate for _ in range(FIRST) for candidate in made.ask(1)]
    expected = [EACH[0], EACH[20], EACH[1], EACH[21], EACH[2], EACH[22]]
    assert [candidate.decisions for candidate in first] == expected[:FIRST]
    assert [candidate.note for candidate in first[:2]] == ["s/0", "t/0"]
    assert {candidate.origin for candidate in first} == {Origin.WARM}
    assert {candidate.origin for candidate in made.ask(8)} == {Origin.SAMPLE}


def test_nothing_comes_twice_and_nothing_is_left_out():
    made = WarmStart(RandomSearch(SPACE, seed=2), SPACE, [source([EACH[3], EACH[3], EACH[5], Decisions(c0="a")])])
    made.expect([Candidate(EACH[5], SPACE.decode(EACH[5]), Origin.REFERENCE, note="r")])
    found = [candidate for _ in range(40) for candidate in made.ask(3)]
    rows = [candidate.decisions for candidate in found]
    assert len(rows) == len(set(rows)) == len(EACH) - 1
    assert rows[0] == EACH[3]
    assert EACH[5] not in rows
    assert not made.ask(1)


def test_the_other_strategy_learns_from_them():
    evolution = AgeingEvolution(SPACE, population=4, tournament=4, seed=3)
    made = WarmStart(evolution, SPACE, [source(EACH[:6])], first=4)
    for number in range(4):
        (candidate,) = made.ask(1)
        made.tell([told(number, candidate, float(-number))])
    (child,) = made.ask(1)
    assert child.origin is Origin.MUTATE
    assert child.parents == (0,)  # the best of those it was told


def test_names_become_warm_strategies():
    for name in ("random", "evolution", "optuna:RandomSampler"):
        (first,) = strategy(name, SPACE, warm=[source(EACH[:3])]).ask(1)
        assert first.decisions == EACH[0]
    with pytest.raises(UsageError, match="leave --warm out"):
        strategy("prune", SPACE, warm=[source(EACH[:3])])
    with pytest.raises(UsageError, match="unknown option of guided 'warm'"):
        strategy("guided", SPACE, options={"warm": []})
