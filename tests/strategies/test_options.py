from functools import partial

import pytest

from detol.errors import UsageError
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.local_search import LocalSearch
from detol.strategies.nsga2 import NSGA2
from detol.strategies.optuna_sampler import OptunaSampler, samplers
from detol.strategies.ppo import PPO
from detol.strategies.qlearning import QLearning
from detol.strategies.reinforce import Reinforce

SPACE = DecisionSpace("small", [Choice("a", (1, 2))])


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (partial(AgeingEvolution, population=0), "population must be a whole number of at least 1, got 0"),
        (partial(AgeingEvolution, population=2.5), "population must be a whole number"),
        (partial(AgeingEvolution, tournament=0), "tournament must be"),
        (partial(AgeingEvolution, start=0), "start must be"),
        (partial(AgeingEvolution, crossover=1.5), r"crossover must be a share in \[0, 1\], got 1.5"),
        (partial(AgeingEvolution, crossover=0.6, graph_edits=0.6), "crossover \\+ graph_edits must be a share"),
        (partial(NSGA2, population=1), "population must be"),
        (partial(LocalSearch, improvement="frist"), "unknown improvement 'frist': did you mean first"),
        (partial(LocalSearch, start=0), "start must be"),
        (partial(Reinforce, learning_rate=0), "learning_rate must be a finite number above 0, got 0"),
        (partial(Reinforce, learning_rate=float("nan")), "learning_rate must be"),
        (partial(Reinforce, entropy=-1), "entropy must be a finite number of at least 0, got -1"),
        (partial(QLearning, rate=2), "rate must be a share"),
        (partial(QLearning, horizon=0), "horizon must be"),
        (partial(PPO, batch=1), "batch must be"),
        (partial(PPO, clip=0), "clip must be"),
        (partial(OptunaSampler, sampler="TPESampl"), "unknown Optuna sampler 'TPESampl': did you mean TPESampler"),
        (partial(OptunaSampler, sampler="GridSampler"), "unknown Optuna sampler 'GridSampler'"),
        (partial(OptunaSampler, n_startup_trial=3), "unknown option of TPESampler .* did you mean n_startup_trials"),
        (partial(OptunaSampler, objectives=0), "objectives must be"),
        (partial(OptunaSampler, gamma=0.1), "option gamma of TPESampler is a function .* got 0.1"),
        (partial(OptunaSampler, weights=3), "option weights of TPESampler is a function"),
        (
            partial(OptunaSampler, sampler="NSGAIISampler", constraints_func=5),
            "option constraints_func of NSGAIISampler",
        ),
        (
            partial(OptunaSampler, sampler="NSGAIISampler", crossover="uniform"),
            "crossover .*BaseCrossover.* got 'uniform'",
        ),
        (
            partial(OptunaSampler, sampler="GPSampler", independent_sampler="RandomSampler"),
            "independent_sampler of GPS",
        ),
    ],
)
def test_options_against_their_rules_are_refused_in_one_line(make, rule) -> None:
    with pytest.raises(UsageError, match=rule) as error:
        make(SPACE)
    assert "\n" not in str(error.value)


def test_functions_and_none_are_taken_from_python() -> None:
    for value in (lambda number: number // 4, None):
        assert OptunaSampler(SPACE, gamma=value).ask(1)


@pytest.mark.parametrize("name", samplers())
def test_every_sampler_of_optuna_proposes(name: str) -> None:
    assert OptunaSampler(SPACE, sampler=name).ask(1)


def test_a_sampler_that_draws_categories_at_random_says_so() -> None:
    """Optuna's documentation of CmaEsSampler: it "does not support CategoricalDistribution"."""
    assert "CmaEsSampler cannot choose among categories" in OptunaSampler(SPACE, sampler="CmaEsSampler").caution
    assert OptunaSampler(SPACE, sampler="TPESampler").caution == ""
