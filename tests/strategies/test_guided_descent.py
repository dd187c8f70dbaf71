"""Guided names the trained network that a proposal is nearest to: its weights are what it can start from."""

import numpy as np
import pytest

from detol.search.records import Origin, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions
from detol.strategies.base import Told
from detol.strategies.guided.descent import differing, parents
from detol.strategies.guided.strategy import Guided


def told(number: int, **decisions: str | int) -> Told:
    return Told(number, Decisions(decisions), number, State.COMPLETED, 1.0 / (number + 1), (1.0 / (number + 1),))


@pytest.mark.parametrize(
    ("other", "share"),
    [
        ({"a": 1, "b": 2, "c": 3}, 0.0),
        ({"a": 1, "b": 2, "c": 4}, 1 / 3),
        ({"a": 1, "b": 2}, 1 / 3),  # a choice that is open on one side alone differs
        ({"a": 1, "b": 2, "c": 3, "d": 4}, 1 / 4),
        ({"x": 1}, 1.0),
    ],
)
def test_the_share_of_choices_that_differ(other: dict[str, int], share: float) -> None:
    one, two = Decisions({"a": 1, "b": 2, "c": 3}), Decisions(other)
    assert differing(one, two) == differing(two, one) == pytest.approx(share)


def test_the_parent_is_what_differs_least_and_of_equals_the_better_one() -> None:
    leaders = [told(7, a=1, b=1, c=1, d=1), told(3, a=2, b=1, c=1, d=1), told(5, a=1, b=2, c=1, d=1)]
    assert parents(Decisions({"a": 2, "b": 1, "c": 1, "d": 1}), leaders) == (3,)
    assert parents(Decisions({"a": 2, "b": 2, "c": 1, "d": 1}), leaders) == (3,)  # as near as 5, and better
    assert parents(Decisions({"a": 1, "b": 1, "c": 1, "d": 2}), leaders) == (7,)


def test_strangers_have_no_parent() -> None:
    assert parents(Decisions({"a": 1, "b": 1, "c": 1}), []) == ()
    assert parents(Decisions({"a": 2, "b": 2, "c": 1}), [told(1, a=1, b=1, c=1)]) == ()


@pytest.mark.parametrize("name", ["image_cell", "image_dag"])
def test_most_proposals_of_the_model_are_children_of_trials_it_was_told(name: str) -> None:
    space, rng = catalogue.load(name), np.random.default_rng(0)
    strategy = Guided(space, seed=0, references=False)
    trials: dict[int, Trial] = {}
    proposed = []
    for number in range(24):
        (made,) = strategy.ask(1)
        assert set(made.parents) <= trials.keys()
        for parent in made.parents:
            assert differing(made.decisions, trials[parent].candidate.decisions) <= 1 / 3
        proposed += [made] if made.origin in (Origin.GUIDED, Origin.MUTATE) else []
        trials[number] = Trial(number, made, State.COMPLETED, 1, scores=(float(rng.random()),))
        strategy.tell([trials[number]])
    assert len(proposed) >= 12
    assert sum(bool(made.parents) for made in proposed) > len(proposed) / 2
