"""Growth: starts small, each step larger and with its record, the best grows, the bandit learns what helps."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from detol.errors import UsageError
from detol.graph import codec
from detol.graph.cost import cost
from detol.graph.flat import flat
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions
from detol.strategies.grow import EXPLORATION, Grow, _Bandit

SHAPES = {"image_cell": (1, 8, 8), "image_dag": (1, 8, 8), "signal": (1, 32), "tabular": (12,)}
START = chain(op("conv", channels=4), op("conv", channels=4, stride=2))
Score = Callable[[Candidate], float]


def grow(space: str = "image_cell", **options: Any) -> Grow:
    return Grow(catalogue.load(space), shape=SHAPES[space], outputs=10, **options)


def trial(number: int, candidate: Candidate, score: float, state: State = State.COMPLETED) -> Trial:
    scores = (score,) if state.scored else None
    return Trial(number, candidate, state, 2, reports=(Report(1, {}),), curve=(score,), scores=scores)


def params(topology: Topology, shape: Sequence[int] = (1, 8, 8)) -> int:
    return cost(topology, shape, 10).params


def larger_is_better(candidate: Candidate) -> float:
    return 0.5 + 0.01 * math.log(params(candidate.topology))


def play(strategy: Grow, count: int, score: Score = larger_is_better) -> list[Trial]:
    told: list[Trial] = []
    for number in range(count):
        (candidate,) = strategy.ask(1)
        told.append(trial(number, candidate, score(candidate)))
        strategy.tell(told[-1:])
    return told


@pytest.mark.parametrize("space", SHAPES)
def test_each_step_is_larger_and_says_where_its_weights_come_from(space: str) -> None:
    shape = SHAPES[space]
    strategy = grow(space, seed=3)
    told = play(strategy, 7, lambda c: 0.5 + 0.01 * math.log(params(c.topology, shape)))
    first, *steps = told
    assert first.candidate.origin is Origin.SAMPLE
    assert first.candidate.topology in catalogue.load(space)
    samples = (catalogue.load(space).decode(d) for d in catalogue.load(space).references.values())
    assert params(first.candidate.topology, shape) <= min(params(t, shape) for t in samples)
    for step in steps:
        candidate = step.candidate
        (parent,) = candidate.parents
        assert candidate.origin is Origin.GROW
        assert candidate.transfer is not None
        assert candidate.transfer.parent == parent
        assert params(candidate.topology, shape) > params(told[parent].candidate.topology, shape)
        assert set(candidate.transfer.nodes.values()) == set(flat(told[parent].candidate.topology, shape))
        assert codec.from_json(codec.to_json(candidate.topology)) == candidate.topology
    assert len({t.digest for t in told}) == len(told)


def test_the_best_grows_and_after_enough_children_the_next_best() -> None:
    told = play(grow(start=START, children=2), 6, lambda c: 0.9 if not c.parents else 0.5)
    assert [t.candidate.parents for t in told[:3]] == [(), (0,), (0,)]
    assert all(t.candidate.parents[0] in (1, 2) for t in told[3:])


def test_the_start_may_be_given() -> None:
    (first,) = grow(start=START).ask(1)
    assert first.topology == START
    assert not first.decisions


def test_spare_workers_train_small_samples_until_something_can_grow() -> None:
    strategy = grow(seed=1)
    asked = strategy.ask(4)
    assert [c.origin for c in asked] == [Origin.SAMPLE] * 4
    strategy.tell([trial(2, asked[2], 0.5)])
    (step,) = strategy.ask(1)
    assert step.parents == (2,)


def test_failed_and_stopped_trials_do_not_grow() -> None:
    strategy = grow(start=START)
    (first,) = strategy.ask(1)
    strategy.tell([trial(0, first, 0.5, State.DIVERGED)])
    (second,) = strategy.ask(1)
    assert not second.parents
    strategy.tell([trial(1, second, 0.5, State.STOPPED)])
    assert not strategy.ask(1)[0].parents


def test_the_bandit_prefers_what_has_gained() -> None:
    """Only widening gains: half of the steps come to widen."""
    strategy = grow(start=START, seed=2, children=40)

    def score(candidate: Candidate) -> float:
        nodes = [n for n in candidate.topology.nodes.values() if not isinstance(n, Topology)]
        channels = sum(int(n["channels"] or 0) for n in nodes if n.kind == "conv")
        return 0.1 * math.log(min(channels, 400)) / len(nodes)

    told = play(strategy, 24, score)
    sizes = [len(t.candidate.topology.nodes) for t in told]
    later = [sizes[t.number] == sizes[t.candidate.parents[0]] for t in told[12:]]
    assert sum(later) >= 6  # no node was added: it was widened, one of seven kinds of step


def test_ucb1_by_hand() -> None:
    """Auer et al. 2002: mean plus sqrt(2 ln n / n_j); the mean size of these gains is 0.4, they count as 0.625 ..."""
    bandit = _Bandit()
    for gain in (0.5, 0.5, -0.4, -0.2):
        bandit.learn("a" if gain > 0 else "b", gain)
    assert bandit.value("a") == pytest.approx(0.625 + EXPLORATION * math.sqrt(2 * math.log(4) / 2))
    assert bandit.value("b") == pytest.approx(-0.375 + EXPLORATION * math.sqrt(2 * math.log(4) / 2))
    assert bandit.value("c") == math.inf


def test_replay_rebuilds_the_state_from_what_a_database_gives_back() -> None:
    """Topologies that have left the space carry no decisions, and records give no transfer back."""
    one, two = grow(seed=5), grow(seed=5)
    for told in play(one, 6):
        two.ask(1)
        bare = Candidate(
            Decisions(dict(told.candidate.decisions)),
            codec.from_json(codec.to_json(told.candidate.topology)),
            told.candidate.origin,
            told.candidate.parents,
        )
        two.tell([replace(told, candidate=bare)])
    for first, second in zip(one.ask(3), two.ask(3), strict=True):
        assert (first.topology, first.parents, first.transfer) == (second.topology, second.parents, second.transfer)


@pytest.mark.parametrize("options", [{"start": "largest"}, {"factor": 0}, {"factor": 1.5}, {"children": 0}])
def test_bad_options_are_refused_in_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="grow|children"):
        grow(**options)
