"""Pruning: which network is cut next, by how much, and when a cut is taken back. Trials are made up."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from detol.errors import UsageError
from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.lower import lower
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.graph.units import units
from detol.search.protocols import Strategy
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions
from detol.strategies.pruning.strategy import NARROWER, TRIES, Prune

SHAPE, OUTPUTS = (7,), 3
START = chain(op("linear", features=40), op("linear", features=30))
SPACE = catalogue.load("tabular")


def prune(**options: Any) -> Prune:
    given = {"level": "neurons", "start": START, "shape": SHAPE, "outputs": OUTPUTS, **options}
    return Prune(SPACE, **given)


def neurons(topology: Topology) -> str:
    """Return made-up measures: every unit but the first of each layer may go, the loss rising evenly."""
    found = units(topology, SHAPE, OUTPUTS)
    removals = [
        [name, unit, -1, 0.0, 0.25] for name, made in found.made.items() for unit in range(len(made) - 1, 0, -1)
    ]
    ladder = [[count, 1 + count / 1_000] for count in range(1, len(removals) + 1)]
    return json.dumps({"loss": 1.0, "plain": 2.0, "removals": removals, "ladder": ladder})


def trial(number: int, candidate: Candidate, score: float, state: State = State.COMPLETED) -> Trial:
    extra = {"neurons": neurons(candidate.topology)} if state is State.COMPLETED else {}
    scores = (score,) if state.scored else None
    reports = (Report(1, {"val_accuracy": score}),)
    return Trial(number, candidate, state, 1, reports=reports, curve=(score,), scores=scores, extra=extra)


def play(strategy: Strategy, scores: Sequence[float], state: Callable[[int], State] | None = None) -> list[Candidate]:
    """Ask for one candidate after the other and tell each its score; return all that were asked."""
    asked: list[Candidate] = []
    for number, score in enumerate(scores):
        found = strategy.ask(1)
        if not found:
            break
        asked += found
        strategy.tell([trial(number, found[0], score, state(number) if state else State.COMPLETED)])
    return asked


def params(candidate: Candidate) -> int:
    return cost(candidate.topology, SHAPE, OUTPUTS).params


def test_it_starts_from_its_start_from_scratch() -> None:
    (first,) = prune().ask(1)
    assert first.topology == lower(START, SHAPE)
    assert first.transfer is None
    assert first.parents == ()


def test_each_good_network_is_cut_further_by_the_share() -> None:
    asked = play(prune(share=0.25), [0.9, 0.899, 0.903, 0.9, 0.9])
    assert [candidate.parents for candidate in asked] == [(), (0,), (1,), (2,), (3,)]
    for before, after in pairwise(asked):
        assert 0.70 * params(before) <= params(after) < params(before)  # a unit of a small layer is a step
        assert after.origin is Origin.PRUNE
        assert after.decisions == Decisions()


def test_the_transfer_says_what_stays_and_what_takes_over() -> None:
    _, child = play(prune(), [0.9, 0.9])
    transfer = child.transfer
    assert transfer is not None
    assert transfer.parent == 0
    assert transfer.optimiser
    assert set(transfer.nodes) == set(child.topology.nodes)
    for name, kept in transfer.units.items():
        node = child.topology.nodes[name]
        assert isinstance(node, Operation)
        assert len(kept) == node["features"]
        assert 0 in kept
        gone = [unit for unit, _ in transfer.folded[name]]
        assert sorted([*kept, *gone]) == list(range(len(kept) + len(gone)))
        assert {constant for _, constant in transfer.folded[name]} == {0.25}


def test_a_cut_that_costs_too_much_is_made_again_half_as_large() -> None:
    asked = play(prune(share=0.4, tolerance=0.01), [0.9, 0.8, 0.8, 0.8])
    assert [candidate.parents for candidate in asked] == [(), (0,), (0,), (0,)]
    removed = [1 - params(candidate) / params(asked[0]) for candidate in asked[1:]]
    assert removed == sorted(removed, reverse=True)
    assert removed[0] == pytest.approx(0.4, abs=0.05)
    assert removed[1] == pytest.approx(0.2, abs=0.05)
    assert TRIES == 3


def test_after_all_tries_the_best_that_is_left_goes_on_to_smaller_networks() -> None:
    asked = play(prune(share=0.4, tolerance=0.01), [0.9, 0.8, 0.85, 0.7, 0.6])
    assert asked[4].parents == (2,)


def test_within_the_tolerance_a_loss_is_no_loss() -> None:
    asked = play(prune(tolerance=0.1), [0.9, 0.85, 0.85])
    assert [candidate.parents for candidate in asked] == [(), (0,), (1,)]


def test_the_bound_on_the_loss_limits_a_cut() -> None:
    # The ladder rises by 0.001 a unit, what is learnt is worth 1: an allowance of 0.004 are 4 units.
    _, child = play(prune(share=0.9, allowance=0.004), [0.9, 0.9])
    assert child.transfer is not None
    assert sum(map(len, child.transfer.folded.values())) == 4


def test_nothing_left_to_cut_ends_the_search() -> None:
    strategy = prune(start=chain(op("linear", features=2)))
    asked = play(strategy, [0.9] * 30)
    assert params(asked[-1]) < params(asked[0])
    assert strategy.ask(1) == []


def test_spare_workers_train_narrower_copies_from_scratch() -> None:
    found = prune().ask(1 + len(NARROWER) + 1)
    widths = [candidate.topology.nodes["1"]["features"] for candidate in found[:5]]  # type: ignore[index]
    assert widths == [40, 30, 20, 14, 10]
    assert all(candidate.transfer is None for candidate in found)
    assert len({candidate.digest for candidate in found}) == len(found)


def test_a_start_that_fails_is_replaced_by_samples() -> None:
    asked = play(prune(), [0.9, 0.9, 0.9], lambda number: State.FAILED if number == 0 else State.COMPLETED)
    assert [candidate.origin for candidate in asked[1:]] == [Origin.PRUNE, Origin.PRUNE]
    assert asked[1].transfer is None  # a narrower copy, then what is cut from it
    assert asked[2].parents == (1,)


def test_the_largest_of_the_space_is_the_default_start() -> None:
    strategy = Prune(SPACE, shape=SHAPE, outputs=OUTPUTS)
    (first,) = strategy.ask(1)
    references = [cost(SPACE.decode(d), SHAPE, OUTPUTS).params for d in SPACE.references.values()]
    assert params(first) >= max(references)
    if first.decisions:  # otherwise lowering has put its projections into the open
        assert digest(SPACE.decode(first.decisions)) == first.digest


def test_the_largest_that_is_allowed_is_the_start() -> None:
    sizes = sorted(cost(SPACE.decode(d), SHAPE, OUTPUTS).params for d in SPACE.references.values())
    (largest,) = Prune(SPACE, shape=SHAPE, outputs=OUTPUTS).ask(1)
    bound = sizes[-1]
    assert params(largest) > bound
    strategy = Prune(SPACE, shape=SHAPE, outputs=OUTPUTS, max_params=bound)
    first, *spare = strategy.ask(8)
    assert params(first) == bound
    assert all(params(candidate) <= bound for candidate in spare)
    # Where none is allowed, the nearest to the bound: the search says what it refuses.
    (least,) = Prune(SPACE, shape=SHAPE, outputs=OUTPUTS, max_params=1).ask(1)
    assert 1 < params(least) <= sizes[0]


def test_auto_cuts_channels_where_there_are_convolutions() -> None:
    start = chain(op("conv", channels=8), op("conv", channels=8))
    strategy = Prune(SPACE, start=start, shape=(3, 8, 8), outputs=OUTPUTS)
    assert set(strategy.measures) == {"edges", "channels", "neurons"}
    (first,) = strategy.ask(1)
    flat = {"1": [5, 1, 2, 3, 4, 6, 7, 8], "2": [1.0] * 8}
    measured = {"saliency": flat, "scale": {}, "mean": {"1": [0.5] * 8, "2": [0.0] * 8}}
    told = Trial(0, first, State.COMPLETED, 1, scores=(0.9,), extra={"channels": json.dumps(measured)})
    strategy.tell([told])
    (child,) = strategy.ask(1)
    assert child.transfer is not None
    assert 0 in child.transfer.units["1"]
    assert 1 not in child.transfer.units["1"]
    assert child.transfer.folded["1"][0] == (1, 0.5)


def test_a_replay_proposes_the_same() -> None:
    scores = [0.9, 0.9, 0.5, 0.9, 0.9, 0.4, 0.3]
    first, second = play(prune(seed=1), scores), play(prune(seed=1), scores)
    assert first == second


def test_what_was_not_measured_cannot_be_cut() -> None:
    strategy = prune()
    (first,) = strategy.ask(1)
    strategy.tell([Trial(0, first, State.COMPLETED, 1, scores=(0.9,))])
    (other,) = strategy.ask(1)
    assert other.transfer is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": "neurones"}, "neurons"),
        ({"share": 1.0}, r"in \(0, 1\)"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"criterion": "tailor"}, "taylor"),
        ({"start": "biggest"}, "largest"),
    ],
)
def test_options_against_their_rules_are_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        prune(**options)
    assert "\n" not in str(caught.value)
