from collections.abc import Iterator

import numpy as np
import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.base import Proposer, complete
from detol.strategies.random_search import RandomSearch

SPACE = DecisionSpace("pairs", [Choice("a", (1, 2)), Choice("b", ("x", "y"), when={"a": [2]})])
"""Three sequences: a=1; a=2, b=x; a=2, b=y."""


class Stubborn(Proposer):
    """Proposes the same again and again."""

    def propose(self) -> Candidate | None:
        return self.candidate(Decisions(a=1), Origin.POLICY)


def test_what_a_stubborn_strategy_leaves_is_found() -> None:
    strategy = Stubborn(SPACE, seed=0)
    assert [c.origin for c in strategy.ask(9)] == [Origin.POLICY, Origin.SAMPLE, Origin.SAMPLE]
    assert strategy.ask(1) == ()


class Endless(DecisionSpace):
    """Has no size, and samples one of two sequences alone."""

    size = None  # type: ignore[assignment]

    def enumerate(self) -> Iterator[Decisions]:
        raise AssertionError("an endless space is not enumerated")


def test_an_endless_space_ends_when_samples_repeat() -> None:
    strategy = RandomSearch(Endless("endless", [Choice("a", (1, 2))]), seed=0)
    assert len(strategy.ask(5)) == 2
    assert not strategy.ask(5)


class Slow(DecisionSpace):
    """Counts how often a topology is made."""

    decoded = 0

    def decode(self, decisions):
        self.decoded += 1
        return super().decode(decisions)


def test_what_is_known_is_not_decoded_again() -> None:
    space = Slow("slow", [Choice("a", tuple(range(5)))])
    strategy = RandomSearch(space, seed=0)
    for _ in range(5):
        assert strategy.ask(1)
    assert not strategy.ask(1)
    assert space.decoded == 5


def test_told_is_compact() -> None:
    strategy = RandomSearch(SPACE, seed=0)
    (candidate,) = strategy.ask(1)
    assert list(strategy.pending.values()) == [candidate]
    reports = tuple(Report(epoch, {"val_accuracy": 0.5}) for epoch in range(1, 100))
    strategy.tell([Trial(7, candidate, State.STOPPED, 99, reports=reports, curve=(0.5,) * 99, scores=(0.5, -3.0))])
    (told,) = strategy.told
    assert (told.number, told.decisions, told.identity, told.state) == (
        7,
        candidate.decisions,
        candidate.digest,
        State.STOPPED,
    )
    assert (told.score, told.scores, told.scored) == (0.5, (0.5, -3.0), True)
    assert not hasattr(told, "curve")
    assert not strategy.pending


@pytest.mark.parametrize(
    ("decisions", "whole"),
    [
        (Decisions(a=1), True),
        (Decisions(a=2, b="x"), True),
        (Decisions(a=2), False),
        (Decisions(a=1, b="x"), False),
        (Decisions(a=3), False),
        (Decisions(), False),
        (Decisions(a=1, c=1), False),
    ],
)
def test_complete(decisions: Decisions, whole: bool) -> None:
    assert complete(SPACE, decisions) is whole


def test_random_search_is_uniform() -> None:
    space = DecisionSpace(
        "die", [Choice("a", (1, 2, 3, 4))], build=lambda d: chain(op("symbol", name="a", value=d["a"]))
    )
    first = [RandomSearch(space, seed=seed).ask(1)[0].decisions["a"] for seed in range(400)]
    counts = np.bincount(np.array(first, dtype=int), minlength=5)[1:]
    assert counts.sum() == 400
    assert ((counts - 100) ** 2 / 100).sum() < 16.27  # chi-square, 3 degrees of freedom, 0.1 %


def test_the_samples_do_not_depend_on_what_is_told() -> None:
    """Arrival order and batch sizes leave random search as it is: 1 and 2 workers try the same."""
    space = catalogue.load("image_cell")
    alone, together = RandomSearch(space, seed=3), RandomSearch(space, seed=3)
    one = []
    for number in range(12):
        (candidate,) = alone.ask(1)
        one.append(candidate.decisions)
        alone.tell([Trial(number, candidate, State.COMPLETED, 1, curve=(0.1,), scores=(0.1,))])
    two = [candidate.decisions for _ in range(3) for candidate in together.ask(4)]
    assert one == two
