"""Strategies that keep scores of their own bring them up to date when a trial that rested is told again."""

from dataclasses import replace

import pytest

from detol.search.records import State, Trial
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.guided import Guided
from detol.strategies.local_search import LocalSearch
from detol.strategies.nsga2 import NSGA2
from detol.strategies.optuna_sampler import OptunaSampler
from detol.strategies.ppo import PPO
from detol.strategies.qlearning import QLearning
from detol.strategies.reinforce import Reinforce
from detol.strategies.rewards import Ranks

SPACE = DecisionSpace("flat", [Choice(f"layer_{n}", ("a", "b", "c", "d")) for n in range(6)])


def told(strategy, *scores):
    """Tell so many trials that rest with these scores."""
    trials = [
        Trial(number, candidate, State.PAUSED, 9, scores=(score,))
        for number, (candidate, score) in enumerate(zip(strategy.ask(len(scores)), scores, strict=True))
    ]
    strategy.tell(trials)
    return trials


def later(trial, score, state=State.COMPLETED):
    return replace(trial, state=state, scores=(score,) if state.scored else None)


@pytest.mark.parametrize("make", [AgeingEvolution, NSGA2])
def test_a_population_holds_the_later_scores(make):
    strategy = make(SPACE, seed=0)
    trials = told(strategy, 0.1, 0.2, 0.3)
    strategy.tell([later(trials[0], 0.9), later(trials[1], 0.0, State.FAILED), later(trials[2], 0.4, State.PAUSED)])
    assert sorted((member.number, member.score) for member in strategy.population) == [(0, 0.9), (2, 0.4)]
    assert strategy._scored == 2
    strategy.tell([later(trials[2], 0.5)])
    assert sorted((member.number, member.score) for member in strategy.population) == [(0, 0.9), (2, 0.5)]


def test_an_ageing_population_stays_in_the_order_of_first_telling():
    strategy = AgeingEvolution(SPACE, population=3, tournament=1, seed=0)
    trials = told(strategy, 0.1, 0.2, 0.3, 0.4)
    assert [member.number for member in strategy.population] == [1, 2, 3]
    strategy.tell([later(trials[1], 0.9), later(trials[0], 0.95)])  # the first is dead of age
    assert [(member.number, member.score) for member in strategy.population] == [(1, 0.9), (2, 0.3), (3, 0.4)]


def test_a_climb_compares_with_later_scores():
    strategy = LocalSearch(SPACE, start=3, seed=0)
    trials = told(strategy, 0.5, 0.2, 0.3)
    strategy.ask(1)
    assert strategy._here.number == 0
    strategy.tell([later(trials[0], 0.6)])
    assert strategy._here.score == 0.6
    strategy.tell([later(trials[1], 0.55)])
    assert strategy._here.number == 0
    strategy.tell([later(trials[2], 0.7)])
    assert (strategy._here.number, strategy._here.score) == (2, 0.7)


def test_a_climb_leaves_a_place_that_failed_since():
    strategy = LocalSearch(SPACE, start=2, seed=0)
    trials = told(strategy, 0.5, 0.2)
    strategy.ask(1)
    strategy.tell([later(trials[0], 0.0, State.FAILED)])
    assert strategy._here is None
    assert strategy.ask(3)


def test_starts_of_climbs_hold_later_scores():
    strategy = LocalSearch(SPACE, start=3, seed=0)
    trials = told(strategy, 0.5, 0.2, 0.3)
    strategy.tell([later(trials[1], 0.8), later(trials[2], 0.0, State.FAILED)])
    assert [(start.number, start.score) for start in strategy._starts] == [(0, 0.5), (1, 0.8)]


def test_guided_models_the_later_scores():
    strategy = Guided(SPACE, seed=0)
    trials = told(strategy, 0.1, 0.2, 0.3, 0.4)
    strategy.tell([later(trials[0], 0.9), later(trials[1], 0.0, State.FAILED), later(trials[2], 0.0, State.LOST)])
    assert strategy._scores == [0.9, float("-inf"), 0.3, 0.4]  # the machine's fault leaves what was known
    assert [leader.number for leader in strategy._leaders][:2] == [0, 3]
    strategy.tell([later(trials[3], 0.95)])
    assert strategy._best.number == 3
    assert strategy._resting == {}
    assert strategy.ask(2)


@pytest.mark.parametrize("make", [Reinforce, QLearning, PPO])
def test_policies_rank_by_later_scores(make):
    strategy = make(SPACE, seed=0)
    trials = told(strategy, 0.1, 0.2, 0.3)
    strategy.tell([later(trials[0], 0.9)])
    assert strategy.ranks.of(0.9) == 1.0
    assert strategy.ranks.of(0.2) == 0.0
    assert sorted(strategy._scores.values()) == [0.2, 0.3, 0.9]


def test_what_waits_for_a_batch_or_a_replay_is_the_later_score():
    learner, trainer = QLearning(SPACE, seed=0), PPO(SPACE, batch=8, seed=0)
    for strategy in (learner, trainer):
        trials = told(strategy, 0.1, 0.2)
        strategy.tell([later(trials[0], 0.9)])
    assert [score for _, score in learner._experience] == [0.9, 0.2]
    assert [score for _, score, _ in trainer._waiting] == [0.9, 0.2]


def test_ranks_replace_one_of_equal_scores():
    ranks = Ranks()
    for score in (0.5, 0.5, 0.7):
        ranks.add(score)
    ranks.replace(0.5, 0.9)
    assert [ranks.of(score) for score in (0.5, 0.7, 0.9)] == [0.0, 0.5, 1.0]


def test_a_study_holds_the_later_scores_and_what_is_pending():
    strategy = OptunaSampler(SPACE, seed=0)
    trials = told(strategy, 0.1, 0.2, 0.3)
    (pending,) = strategy.ask(1)
    strategy.tell([later(trials[0], 0.9), later(trials[1], 0.0, State.FAILED)])
    assert [trial.value for trial in strategy._study.get_trials()] == [0.9, 0.2, 0.3, None]
    strategy.tell([Trial(3, pending, State.COMPLETED, 9, scores=(0.4,))])
    assert strategy._study.best_value == 0.9
    assert [trial.value for trial in strategy._study.get_trials()] == [0.9, 0.2, 0.3, 0.4]
    strategy.tell([later(trials[2], 0.95)])
    assert strategy._study.best_value == 0.95


def test_a_sampler_that_saw_everything_may_say_so_also_of_a_study_that_was_copied():
    strategy = OptunaSampler(DecisionSpace("two", [Choice("a", (1, 2))]), "BruteForceSampler")
    (trial,) = told(strategy, 0.1)
    strategy.tell([later(trial, 0.9)])
    (last,) = strategy.ask(1)
    strategy.tell([Trial(1, last, State.COMPLETED, 9, scores=(0.4,))])
    assert [trial.value for trial in strategy._study.get_trials()] == [0.9, 0.4]
    assert not strategy.ask(1)
