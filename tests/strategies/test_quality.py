"""Learning strategies beat random search, in the mean over seeds, where there is something to learn."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
import torch

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.protocols import Strategy
from detol.search.records import State, Trial
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.local_search import LocalSearch
from detol.strategies.nsga2 import NSGA2
from detol.strategies.optuna_sampler import OptunaSampler
from detol.strategies.ppo import PPO
from detol.strategies.qlearning import QLearning
from detol.strategies.random_search import RandomSearch
from detol.strategies.reinforce import Reinforce

ANY = chain(op("identity"))
SEPARABLE = DecisionSpace("separable", [Choice(f"c{n}", (0, 1, 2, 3)) for n in range(8)], build=lambda _: ANY)
SEEDS, TRIALS = 5, 100

LEARNING: dict[str, Callable[..., Strategy]] = {
    "local_search": LocalSearch,
    "local_search_best": partial(LocalSearch, improvement="best"),
    "evolution": AgeingEvolution,
    "evolution_crossing": partial(AgeingEvolution, crossover=0.3),
    "nsga2": partial(NSGA2, population=20),
    "reinforce": Reinforce,
    "qlearning": partial(QLearning, horizon=50),
    "ppo": PPO,
    "optuna": partial(OptunaSampler, sampler="TPESampler"),
}


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(100 + seed).random((8, 4))


def best_after(make: Callable[..., Strategy], seed: int, batch: int = 1) -> float:
    table = weights(seed)
    strategy = make(SEPARABLE, seed=seed, identity=lambda candidate: candidate.decisions)
    best, number = 0.0, 0
    while number < TRIALS:
        told = []
        for candidate in strategy.ask(batch):
            score = float(
                sum(table[place, int(option)] for place, option in enumerate(candidate.decisions.values())) / 8
            )
            best = max(best, score)
            told.append(Trial(number, candidate, State.COMPLETED, 1, curve=(score,), scores=(score,)))
            number += 1
        strategy.tell(told)
    return best


@cache
def random_search() -> float:
    return float(np.mean([best_after(RandomSearch, seed) for seed in range(2 * SEEDS)]))


@pytest.mark.parametrize("name", list(LEARNING))
def test_beats_random_search(name: str) -> None:
    torch.set_num_threads(1)
    assert np.mean([best_after(LEARNING[name], seed) for seed in range(SEEDS)]) > random_search()


@pytest.mark.parametrize("name", ["local_search", "evolution", "nsga2", "reinforce"])
def test_beats_random_search_with_ten_pending(name: str) -> None:
    assert np.mean([best_after(LEARNING[name], seed, batch=10) for seed in range(SEEDS)]) > random_search()


def test_local_search_ends_at_the_best_of_a_separable_score() -> None:
    """Such a score has one local optimum, the best of each choice: 24 neighbours, at most a few moves."""
    for seed in range(SEEDS):
        assert best_after(LocalSearch, seed) == pytest.approx(weights(seed).max(axis=1).mean())
