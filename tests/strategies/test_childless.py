"""Strategies whose candidates have no parents say so, and a search that is to inherit says it once."""

import numpy as np
import pytest
from typer.testing import CliRunner

from detol import wire
from detol.cli import app
from detol.search.records import State, Trial
from detol.spaces import catalogue

SPACE = catalogue.load("tiny")
CHILDLESS = {"random", "reinforce", "ppo", "qlearning", "optuna:TPESampler"}


@pytest.mark.parametrize("name", [*wire.STRATEGIES, "optuna:TPESampler"])
def test_who_proposes_no_children_says_so(name: str) -> None:
    strategy = wire.strategy(name, SPACE, shape=(1, 8, 8), outputs=10)
    assert getattr(strategy, "childless", False) == (name in CHILDLESS)


@pytest.mark.parametrize("name", sorted(CHILDLESS))
def test_what_it_says_is_so(name: str) -> None:
    strategy, rng = wire.strategy(name, SPACE, seed=1), np.random.default_rng(0)
    for number in range(0, 8, 4):
        asked = strategy.ask(4)
        assert asked
        assert not any(candidate.parents or candidate.transfer for candidate in asked)
        told = [Trial(number + n, made, State.COMPLETED, 1) for n, made in enumerate(asked)]
        strategy.tell([Trial(t.number, t.candidate, t.state, 1, scores=(float(rng.random()),)) for t in told])


@pytest.mark.parametrize(("inherit", "said"), [("morph", 1), ("off", 0)])
def test_the_search_says_it_once_and_goes_on(tmp_path, monkeypatch, inherit, said) -> None:
    monkeypatch.setenv("DETOL_RUNS", str(tmp_path))
    given = ["--data", "digits", "--space", "tiny", "--strategy", "random", "--inherit", inherit, "--trials", "1"]
    quick = ["--epochs", "1", "--no-references", "--executor", "inline", "--device", "cpu", "--tracking", "off"]
    done = CliRunner().invoke(app, ["search", *given, *quick, "--json"])
    assert done.exit_code == 0
    line = "strategy random proposes no children: nothing is inherited"
    assert done.stderr.count(line) == said
    assert line not in done.stdout
