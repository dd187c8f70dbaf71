"""Rows of a table that hold one network: tried again where scores differ by chance, told by one another elsewhere."""

import itertools
from collections import Counter

import numpy as np
import pytest

from detol.graph.edit import normalise
from detol.graph.ops import op
from detol.search.records import Report, State, Trial
from detol.spaces.cells import cell_space
from detol.spaces.decisions import Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.guided.strategy import Guided
from detol.strategies.guided.twins import Twins


@pytest.fixture(scope="module")
def space() -> DecisionSpace:
    """Cells of 4 nodes: what an edge into a node holds that is not read on does not count."""
    return cell_space("cells", {"none": None, "skip": op("identity"), "dense": op("linear", features=8)}, nodes=4)


def cell(space: DecisionSpace, *options: str) -> Decisions:
    names = [choice.name for choice in space.choices]
    return Decisions(dict(zip(names, options, strict=True)))


@pytest.fixture
def rows(space: DecisionSpace) -> tuple[list[Decisions], Decisions, Decisions]:
    """Four twins (only 0>3 is live), a bad network, and another good one."""
    # The edges are 0>1, 0>2, 1>2, 0>3, 1>3, 2>3.
    twins = [
        cell(space, first, second, "none", "dense", "none", "none")
        for first, second in itertools.product(("skip", "dense"), repeat=2)
    ]
    return twins, cell(space, *["none"] * 6), cell(space, *["dense"] * 6)


def test_two_pairs_that_score_the_same_tell_of_all_twins(space: DecisionSpace, rows) -> None:
    (first, second, third, fourth), bad, other = rows
    twins = Twins(space)
    twins.note(bad, 10.0)
    twins.note(first, 90.0)
    twins.note(second, 90.0)
    assert not twins.known(fourth)  # one pair may score the same by chance
    twins.note(third, 90.0)
    assert twins.known(fourth)
    assert not twins.known(other)
    assert twins.known(other, pending=[other])


def test_a_pair_that_differs_speaks_of_chance_for_good(space: DecisionSpace, rows) -> None:
    (first, second, third, fourth), bad, _ = rows
    twins = Twins(space)
    for decisions, score in ((bad, 10.0), (first, 90.0), (second, 90.0), (third, 90.1)):
        twins.note(decisions, score)
    assert not twins.known(fourth)
    twins.note(fourth, 90.0)
    assert not twins.known(fourth)


def test_networks_that_learn_nothing_are_no_evidence(space: DecisionSpace, rows) -> None:
    twins = Twins(space)
    twins.note(rows[2], 90.0)
    for option in ("none", "skip", "dense"):  # nothing reaches the last node
        twins.note(cell(space, option, "none", "none", "none", "none", "none"), 10.0)
    assert not twins.known(cell(space, "none", "skip", "none", "none", "none", "none"))


def _repeats(space: DecisionSpace, chance: float) -> int:
    """Return how many of 60 proposals are twins of earlier ones, where a network of three edges is best."""
    noise = np.random.default_rng(0)
    strategy = Guided(space, seed=0, references=False, identity=lambda candidate: candidate.decisions)
    proposed: Counter[object] = Counter()
    for number in range(60):
        (candidate,) = strategy.ask(1)
        live = normalise(candidate.topology)
        proposed[live] += 1
        score = -abs(len(live.edges) - 3) - 0.1 * len(live.nodes) + chance * float(noise.normal())
        report = Report(1, {"val_accuracy": score})
        strategy.tell(
            [Trial(number, candidate, State.COMPLETED, 1, reports=(report,), curve=(score,), scores=(score,))]
        )
    return sum(count - 1 for count in proposed.values())


def test_a_search_of_a_table_without_chance_tries_few_twins(space: DecisionSpace) -> None:
    assert _repeats(space, chance=0.0) <= 4
    assert _repeats(space, chance=0.5) > 4
