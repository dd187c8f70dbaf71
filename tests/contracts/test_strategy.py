"""The contract of a strategy, run over every implementation.

To hold a strategy of your own to it, add it to ``STRATEGIES``: a callable (space, *, seed, identity) -> strategy.
"""

import itertools
import zlib
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.protocols import Strategy
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search.warm import WarmRecord, WarmSource
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.base import Proposer, complete
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.generate import Generate
from detol.strategies.grow import Grow
from detol.strategies.guided import Guided
from detol.strategies.local_search import LocalSearch
from detol.strategies.nsga2 import NSGA2
from detol.strategies.optuna_sampler import OptunaSampler
from detol.strategies.ppo import PPO
from detol.strategies.pruning.strategy import Prune
from detol.strategies.qlearning import QLearning
from detol.strategies.random_search import RandomSearch
from detol.strategies.reinforce import Reinforce
from detol.strategies.warm_start import WarmStart

Make = Callable[..., Strategy]


def known(space: Any) -> list[WarmSource]:
    """Return what a warm start could know of another data set: scores that are a function of the options."""
    rng = np.random.default_rng(3)
    each = {space.sample(rng): None for _ in range(30)}
    worth = {each_: sum(zlib.crc32(str(option).encode()) % 7 for option in each_.values()) for each_ in each}
    return [WarmSource("s", "x1:s", tuple(WarmRecord(d, worth[d]) for d in sorted(each, key=lambda d: -worth[d])))]


def warm_guided(space: Any, **given: Any) -> Strategy:
    return Guided(space, warm=known(space), **given)


def warm_random(space: Any, *, identity: Any = None, **given: Any) -> Strategy:
    return WarmStart(RandomSearch(space, identity=identity, **given), space, known(space), identity=identity)


OPTUNA = ("TPESampler", "RandomSampler", "NSGAIISampler", "BruteForceSampler")  # GPSampler passes, in five minutes
STRATEGIES: dict[str, Make] = {
    "guided": Guided,
    "warm_guided": warm_guided,
    "warm_random": warm_random,
    "random": RandomSearch,
    "local_search": LocalSearch,
    "local_search_best": partial(LocalSearch, improvement="best", start=4),
    "evolution": partial(AgeingEvolution, population=8, tournament=4),
    "evolution_crossing": partial(AgeingEvolution, population=8, tournament=4, crossover=0.5),
    "nsga2": partial(NSGA2, population=8),
    "reinforce": Reinforce,
    "qlearning": partial(QLearning, horizon=20, replay=5),
    "ppo": partial(PPO, width=8, batch=4, passes=2),
    # Without the data's shape nothing can be cut: it samples. What it cuts is in tests/strategies/test_prune.py.
    "prune": Prune,
    "grow": Grow,  # likewise: tests/strategies/test_grow.py
    "generate": partial(Generate, initial=4, drawn=6, refit=8, steps=1, samples=16, pretrain=1),
    **{f"optuna:{name}": partial(OptunaSampler, sampler=name) for name in OPTUNA},
}
BAD = (State.FAILED, State.OUT_OF_MEMORY, State.DIVERGED, State.TIMED_OUT, State.LOST, State.REFUSED)


def layers(decisions: Decisions) -> Topology:
    kinds = [str(decisions[f"op_{number}"]) for number in range(1, int(decisions["depth"]) + 1)]
    # A pool of kernel 1 does nothing and is contracted: some decisions give the same network.
    made = [op("identity") if kind == "skip" else op("conv", channels=8, kernel=int(kind)) for kind in kinds]
    return chain(*made, op("conv", channels=int(decisions["width"])))


CONDITIONAL = DecisionSpace(
    "conditional",
    [
        Choice("depth", (1, 2, 3), ordered=True),
        *(Choice(f"op_{n}", ("skip", "1", "3", "5"), when={"depth": range(n, 4)}) for n in (1, 2, 3)),
        Choice("width", (8, 16), ordered=True),
    ],
    layers,
    references={"plain": {"depth": 2, "op_1": "3", "op_2": "3", "width": 16}},
)
NETWORKS = 2 * (1 + 3 + 9 + 27)
"""Distinct networks of CONDITIONAL, by hand: sequences of at most 3 convolutions of 3 kernels each, 2 widths."""

FLAT = DecisionSpace("flat", [Choice(f"layer_{n}", ("a", "b", "c", "d")) for n in range(8)])


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=list(STRATEGIES))
def make(request: pytest.FixtureRequest) -> Make:
    return STRATEGIES[request.param]


def value(decisions: Decisions) -> float:
    """A score that depends on decisions alone, the same in every process."""
    return (
        sum(
            (7 * place + len(str(option)) * 3 + ord(str(option)[0])) % 11
            for place, option in enumerate(decisions.values())
        )
        / 50
    )


def trial(number: int, candidate: Candidate, state: State = State.COMPLETED, score: float | None = None) -> Trial:
    score = value(candidate.decisions) if score is None else score
    scores = (score, -float(len(candidate.decisions))) if state.scored else None
    return Trial(
        number, candidate, state, 2, reports=(Report(1, {"val_accuracy": score}),), curve=(score,), scores=scores
    )


def play(
    strategy: Strategy, rounds: Sequence[int], state: Callable[[int], State] = lambda _: State.COMPLETED
) -> list[Candidate]:
    """Ask for as many candidates as each round says, tell half of what is pending, oldest last; return all asked."""
    asked: list[Candidate] = []
    pending: list[tuple[int, Candidate]] = []
    for count in rounds:
        found = strategy.ask(count)
        assert len(found) <= count
        pending += enumerate(found, start=len(asked))
        asked += found
        now, pending = pending[: (len(pending) + 1) // 2], pending[(len(pending) + 1) // 2 :]
        strategy.tell([trial(number, candidate, state(number)) for number, candidate in reversed(now)])
    return asked


def names(candidates: Sequence[Candidate]) -> list[tuple[Decisions, Origin, tuple[int, ...]]]:
    return [(c.decisions, c.origin, c.parents) for c in candidates]


def test_is_a_strategy(make: Make) -> None:
    assert isinstance(make(FLAT), Strategy)


def test_same_seed_same_proposals_another_seed_others(make: Make) -> None:
    rounds = [1, 4, 1, 1, 8, 2, 1, 1, 6]
    first, again, other = (names(play(make(FLAT, seed=seed), rounds)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_replay_rebuilds_the_state(make: Make) -> None:
    """The next asks after a replay equal those before it, with the candidates read back from a record."""
    rounds, more = [2, 5, 1, 1, 7, 3, 1], [1, 3, 2, 1]
    calls: list[tuple[str, Any]] = []
    one = make(CONDITIONAL, seed=1)
    number = itertools.count()
    pending: list[Trial] = []
    for count in rounds:
        calls.append(("ask", count))
        pending += [
            trial(next(number), c, BAD[0] if len(c.decisions) == 3 else State.COMPLETED) for c in one.ask(count)
        ]
        now, pending = pending[1:], pending[:1]
        calls.append(("tell", now))
        one.tell(now)
    two = make(CONDITIONAL, seed=1)
    for call, argument in calls:
        if call == "ask":
            two.ask(argument)
        else:  # what a database gives back: equal, and none of it the same object
            two.tell([_copied(told) for told in argument])
    for count in more:
        expected, got = one.ask(count), two.ask(count)
        assert names(expected) == names(got)
        told = [trial(next(number), candidate) for candidate in expected]
        one.tell(told)
        two.tell([_copied(t) for t in told])


def _copied(told: Trial) -> Trial:
    c = told.candidate
    decisions = Decisions(dict(c.decisions))
    candidate = Candidate(decisions, CONDITIONAL.decode(decisions), c.origin, c.parents, c.note)
    return Trial(told.number, candidate, told.state, told.epochs, curve=told.curve, scores=told.scores)


def rested(number: int, candidate: Candidate, epoch: int, share: float) -> Trial:
    """Return a trial that rests after ``epoch`` of 4 epochs, with a share of its final score."""
    full = trial(number, candidate)
    assert full.scores is not None
    scores = (full.scores[0] * share, *full.scores[1:])
    reports = tuple(Report(n, {"val_accuracy": scores[0]}) for n in range(1, epoch + 1))
    return Trial(number, candidate, State.PAUSED, 4, reports=reports, curve=(scores[0],) * epoch, scores=scores)


def pausing(strategy: Strategy, rounds: Sequence[int], calls: list[tuple[str, Any]] | None = None) -> list[Candidate]:
    """Tell each trial when it rests after 1 epoch, half of them again after 2, and at last what became of each."""
    asked: list[Candidate] = []
    resting: list[tuple[int, Candidate]] = []
    calls = [] if calls is None else calls
    for turn, count in enumerate(rounds):
        calls.append(("ask", count))
        found = strategy.ask(count)
        now: list[Trial] = []
        if turn % 3 == 2:
            later, resting = resting[: len(resting) // 2], resting[len(resting) // 2 :]
            for number, candidate in later:
                state = BAD[number % len(BAD)] if number % 4 == 3 else State.STOPPED if number % 2 else State.COMPLETED
                now.append(trial(number, candidate, state))
        elif turn % 3 == 1:
            now += [rested(number, candidate, 2, 0.8) for number, candidate in resting[::2]]
        new = list(enumerate(found, start=len(asked)))
        now += [rested(number, candidate, 1, 0.5 + number % 3 / 10) for number, candidate in new]
        resting += new
        asked += found
        calls.append(("tell", now))
        strategy.tell(now)
    return asked


def test_what_rests_is_told_and_told_again(make: Make) -> None:
    strategy = make(FLAT, seed=3)
    asked = pausing(strategy, [1, 4, 1, 1, 8, 2, 1, 1, 6, 2, 2, 2])
    assert len({candidate.digest for candidate in asked}) == len(asked) == 31
    assert strategy.ask(2)


def test_replay_over_pauses_rebuilds_the_state(make: Make) -> None:
    calls: list[tuple[str, Any]] = []
    one, two = make(CONDITIONAL, seed=1), make(CONDITIONAL, seed=1)
    pausing(one, [2, 3, 1, 1, 5, 2, 1, 1, 4], calls)
    for call, argument in calls:
        if call == "ask":
            two.ask(argument)
        else:
            two.tell([_copied(told) for told in argument])
    for number in range(100, 103):
        expected, got = one.ask(2), two.ask(2)
        assert names(expected) == names(got)
        told = [trial(number * 2 + place, candidate) for place, candidate in enumerate(expected)]
        one.tell(told)
        two.tell([_copied(t) for t in told])


def test_the_later_telling_replaces_the_earlier_one(make: Make) -> None:
    strategy = make(FLAT, seed=3)
    found = strategy.ask(6)
    strategy.tell([rested(number, candidate, 1, 0.5) for number, candidate in enumerate(found)])
    strategy.tell([rested(number, candidate, 2, 0.8) for number, candidate in enumerate(found[:3])])
    strategy.tell([trial(0, found[0]), trial(1, found[1], State.FAILED), trial(2, found[2], State.LOST)])
    if isinstance(strategy, Proposer):
        assert [told.number for told in strategy.told] == list(range(6))
        states = [State.COMPLETED, State.FAILED, State.LOST, *[State.PAUSED] * 3]
        assert [told.state for told in strategy.told] == states
        assert strategy.told[0].score == value(found[0].decisions)
        assert strategy.told[3].score == value(found[3].decisions) * 0.5
        assert not strategy.told[1].scored
    assert strategy.ask(2)


def test_an_exhausted_space_may_still_tell_what_rested(make: Make) -> None:
    strategy = make(CONDITIONAL, seed=0)
    asked: list[Candidate] = []
    while found := strategy.ask(7):
        strategy.tell([rested(len(asked) + place, candidate, 1, 0.5) for place, candidate in enumerate(found)])
        asked += found
    assert len(asked) == NETWORKS
    strategy.tell([trial(number, candidate) for number, candidate in enumerate(asked)])
    assert not strategy.ask(1)


def test_exhausted_space_ends_with_each_network_once(make: Make) -> None:
    strategy = make(CONDITIONAL, seed=0)
    asked: list[Candidate] = []
    while found := strategy.ask(7):
        strategy.tell([trial(len(asked) + place, candidate) for place, candidate in enumerate(found)])
        asked += found
        assert len(asked) <= NETWORKS
    assert len({candidate.digest for candidate in asked}) == len(asked) == NETWORKS
    assert not strategy.ask(1)


def test_exhausted_while_all_are_pending(make: Make) -> None:
    strategy = make(catalogue.load("tiny"), seed=0)
    asked = list(strategy.ask(4))
    while found := strategy.ask(4):
        asked += found
    assert len({candidate.digest for candidate in asked}) == len(asked)
    every = {candidate.digest for candidate in map(_tiny, catalogue.load("tiny").enumerate())}
    assert {candidate.digest for candidate in asked} == every
    strategy.tell([trial(number, candidate) for number, candidate in enumerate(asked)])
    assert not strategy.ask(4)


def _tiny(decisions: Decisions) -> Candidate:
    return Candidate(decisions, catalogue.load("tiny").decode(decisions), Origin.SAMPLE)


def test_identity_may_be_another_one(make: Make) -> None:
    """By decisions all 2 * (4 + 16 + 64) sequences are proposed, equal networks included."""
    identity: Callable[[Candidate], Hashable] = lambda candidate: candidate.decisions  # noqa: E731
    strategy = make(CONDITIONAL, seed=0, identity=identity)
    asked: list[Candidate] = []
    while found := strategy.ask(16):
        strategy.tell([trial(len(asked) + place, candidate) for place, candidate in enumerate(found)])
        asked += found
    assert len({candidate.decisions for candidate in asked}) == len(asked) == CONDITIONAL.size == 168


@pytest.mark.parametrize("state", BAD)
def test_all_trials_failing_is_survived(make: Make, state: State) -> None:
    asked = play(make(FLAT, seed=2), [1, 1, 4, 1, 8, 1, 1, 8, 4], lambda _: state)
    assert len({candidate.digest for candidate in asked}) == len(asked) == 29


def test_some_trials_failing_is_survived(make: Make) -> None:
    states = (State.COMPLETED, *BAD, State.STOPPED)
    asked = play(make(FLAT, seed=2), [1, 1, 4, 1, 8, 1, 1, 8, 4, 8, 8], lambda number: states[number % len(states)])
    assert len({candidate.digest for candidate in asked}) == len(asked) == 45


def test_scores_that_are_not_finite_are_survived(make: Make) -> None:
    strategy = make(FLAT, seed=2)
    for number in range(24):
        (candidate,) = strategy.ask(1)
        score = (float("nan"), float("inf"), 0.5)[number % 3]
        strategy.tell([trial(number, candidate, score=score)])


def test_equal_scores_are_survived(make: Make) -> None:
    strategy = make(FLAT, seed=2)
    for number in range(0, 24, 4):
        found = strategy.ask(4)
        strategy.tell([trial(number + place, candidate, score=0.5) for place, candidate in enumerate(found)])
    assert strategy.ask(1)


def test_reference_told_without_being_asked_is_not_proposed(make: Make) -> None:
    strategy = make(CONDITIONAL, seed=5)
    decisions = CONDITIONAL.references["plain"]
    reference = Candidate(decisions, CONDITIONAL.decode(decisions), Origin.REFERENCE, note="plain")
    strategy.tell([trial(0, reference)])
    asked: list[Candidate] = []
    while found := strategy.ask(8):
        strategy.tell([trial(1 + len(asked) + place, candidate) for place, candidate in enumerate(found)])
        asked += found
    assert reference.digest not in {candidate.digest for candidate in asked}
    assert len(asked) == NETWORKS - 1


def test_topology_of_another_space_is_survived(make: Make) -> None:
    strategy = make(CONDITIONAL, seed=5)
    foreign = Candidate(Decisions({}), chain(op("linear", features=3)), Origin.REFERENCE)
    other = Candidate(Decisions(depth=9), chain(op("linear", features=4)), Origin.REFERENCE)
    strategy.tell([trial(0, foreign), trial(1, other, State.FAILED)])
    assert len(play(strategy, [4, 4, 4])) == 12


def test_conditional_decisions_are_complete(make: Make) -> None:
    for candidate in play(make(CONDITIONAL, seed=7), [1, 4, 8, 1, 1, 8, 8, 4]):
        assert complete(CONDITIONAL, candidate.decisions)
        assert candidate.topology == CONDITIONAL.decode(candidate.decisions)


@pytest.mark.parametrize("count", [1, 2, 16, 64])
def test_count_is_kept_with_as_many_pending(make: Make, count: int) -> None:
    strategy = make(FLAT, seed=1)
    first = strategy.ask(count)
    second = strategy.ask(count)
    assert len(first) == len(second) == count
    assert len({candidate.digest for candidate in (*first, *second)}) == 2 * count


def test_origins_and_parents_are_of_told_trials(make: Make) -> None:
    strategy = make(FLAT, seed=1)
    numbers: set[int] = set()
    for number in range(0, 60, 3):
        found = strategy.ask(3)
        for candidate in found:
            assert len(candidate.parents) <= 2
            assert set(candidate.parents) <= numbers
            assert candidate.origin is not Origin.REFERENCE
        numbers |= {number + place for place in range(3)}
        strategy.tell([trial(number + place, candidate) for place, candidate in enumerate(found)])


def test_calls_out_of_turn_are_errors(make: Make) -> None:
    strategy = make(FLAT)
    (candidate,) = strategy.ask(1)
    with pytest.raises(ValueError, match="at least 1"):
        strategy.ask(0)
    with pytest.raises(ValueError, match="final"):
        strategy.tell([trial(0, candidate, State.RUNNING)])


def test_global_randomness_is_neither_used_nor_changed(make: Make) -> None:
    rounds = [2, 4, 8, 4]
    np.random.seed(0)  # noqa: NPY002  the global state is the point
    torch.manual_seed(0)
    before, state = names(play(make(FLAT, seed=1), rounds)), torch.get_rng_state()
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert names(play(make(FLAT, seed=1), rounds)) == before
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), state)
