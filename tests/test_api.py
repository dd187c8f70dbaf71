"""detol in Python: optimize with any callable, search with real training."""

import math

import numpy as np
import pytest

import detol
from detol import wire
from detol.errors import UsageError
from detol.search.records import Origin, State
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.random_search import RandomSearch

SPACE = DecisionSpace("grid", [Choice("a", (0, 1, 2, 3)), Choice("b", (0, 1, 2, 3)), Choice("c", (0, 1, 2, 3))])


def hill(candidate):
    d = candidate.decisions
    return -((d["a"] - 2) ** 2) - (d["b"] - 1) ** 2 - (d["c"] - 3) ** 2


def test_optimize_finds_the_top_of_a_hill_by_exhausting_it():
    found = detol.optimize(SPACE, hill, strategy="random", trials=100)
    assert found.best.score == 0
    assert dict(found.best.candidate.decisions) == {"a": 2, "b": 1, "c": 3}
    assert [trial.number for trial in found.trials] == list(range(64))
    assert "exhausted" in found.ended


@pytest.mark.parametrize("strategy", ["local_search", "evolution"])
def test_optimize_with_strategies_that_learn(strategy):
    found = detol.optimize(SPACE, hill, strategy=strategy, trials=40, seed=1)
    assert found.best.score >= -1


def test_a_seed_reproduces_and_another_differs():
    runs = [
        [t.digest for t in detol.optimize(SPACE, hill, strategy="evolution", trials=20, seed=s).trials]
        for s in (3, 3, 4)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_callable_that_fails_is_a_failed_trial():
    def fails(candidate):
        if candidate.decisions["a"] == 0:
            raise ZeroDivisionError("a is zero")
        return math.nan if candidate.decisions["a"] == 1 else hill(candidate)

    found = detol.optimize(SPACE, fails, strategy="random", trials=64)
    states = {trial.candidate.decisions["a"]: trial.state for trial in found.trials}
    assert states == {0: State.FAILED, 1: State.DIVERGED, 2: State.COMPLETED, 3: State.COMPLETED}
    assert any("a is zero" in trial.reason for trial in found.trials)
    assert found.best.score == 0


def test_metrics_by_name_and_an_objective_to_minimise():
    found = detol.optimize(
        SPACE, lambda c: {"cost": float(c.decisions["a"]), "other": 1.0}, objective="cost:min", trials=64
    )
    assert found.best.candidate.decisions["a"] == 0
    assert found.summary["best"]["score"] == 0.0


def test_a_strategy_object_that_keeps_the_protocol():
    class Mine:
        def __init__(self):
            self.inner, self.told = RandomSearch(SPACE, seed=5), 0

        def ask(self, count):
            return self.inner.ask(count)

        def tell(self, trials):
            self.told += len(trials)
            self.inner.tell(trials)

    mine = Mine()
    found = detol.optimize(SPACE, hill, strategy=mine, trials=10)
    assert len(found.trials) == mine.told == 10


def test_a_generator_reports_by_epoch_and_can_be_stopped():
    def curve(candidate):
        for epoch in range(1, 10):
            yield epoch * (1 + candidate.decisions["a"])

    found = detol.optimize(SPACE, curve, trials=30, epochs=9, stop="asha", strategy="random")
    assert found.best.epoch == 9
    assert found.summary["stopped"] > 0
    assert all(t.epoch < 9 for t in found.trials if t.state is State.STOPPED)


def test_what_is_no_strategy_or_callable_is_refused():
    with pytest.raises(UsageError, match="ask and tell"):
        detol.optimize(SPACE, hill, strategy=object())
    with pytest.raises(UsageError, match="callable"):
        detol.optimize(SPACE, 3)
    with pytest.raises(UsageError, match="unknown space"):
        detol.space("nasbench2001")


def test_search_by_real_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"executor": "inline", "tracking": "off", "trials": 3, "epochs": 2, "stop": "none"}
    found = detol.search(data="digits", space="tiny", strategy="random", **options)
    assert [trial.state for trial in found.trials] == [State.COMPLETED] * 3
    assert found.trials[0].candidate.origin is Origin.REFERENCE
    assert found.best.score == max(trial.score for trial in found.trials)
    assert 0.2 < found.test["test_accuracy"] <= 1
    again = detol.search(data="digits", space="tiny", strategy="random", **options)
    assert again.summary["trained"] == 0
    assert [t.curve for t in again.trials] == [t.curve for t in found.trials]


def test_search_an_array_of_ones_own_by_a_space_of_ones_own(tmp_path, monkeypatch):
    from detol.graph.ops import op
    from detol.graph.topology import chain

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 4)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=(x[:, 0] + x[:, 1] > 0).astype(np.int64))
    space = DecisionSpace("mine", [Choice("width", (4, 8, 16))], lambda d: chain(op("linear", features=d["width"])))
    found = detol.search(
        data=tmp_path / "mine.npz",
        space=space,
        strategy="random",
        executor="inline",
        tracking="off",
        trials=3,
        epochs=8,
    )
    assert found.best.score > 0.8


def test_a_file_of_settings_holds_where_no_argument_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(
        'data = "digits"\nspace = "tiny"\nstrategy = "random"\ntrials = 2\nepochs = 1\n'
        'executor = "inline"\ntracking = "off"\n'
    )
    found = detol.search(file="run.toml")
    assert (found.settings.space, found.settings.strategy, len(found.trials)) == ("tiny", "random", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"tirals": 3}, "did you mean trials"), ({"trials": "5"}, "wrong type"), ({"objective": 3}, "wrong type")],
)
def test_wrong_settings_are_usage_errors(arguments, message):
    with pytest.raises(UsageError, match=message):
        detol.search(data="digits", **arguments)


def test_optimize_refuses_what_cannot_be():
    with pytest.raises(UsageError, match="epochs must be >= 1"):
        detol.optimize(SPACE, hill, epochs=0)
    with pytest.raises(UsageError, match="section of options"):
        detol.optimize(SPACE, hill, options={"recipe": {}})


def test_a_search_of_objects_is_resumed_with_them(tmp_path, monkeypatch):
    from detol.graph.ops import op
    from detol.graph.topology import chain

    monkeypatch.chdir(tmp_path)
    space = DecisionSpace(
        "mine", [Choice("width", (4, 8, 16, 32))], lambda d: chain(op("flatten"), op("linear", features=d["width"]))
    )
    options = {"strategy": "random", "executor": "inline", "tracking": "off", "epochs": 1, "name": "mine"}
    detol.search(data="digits", space=space, trials=2, **options)
    with pytest.raises(UsageError, match="started with a space object"):
        detol.resume("mine", trials=3)
    assert len(detol.resume("mine", trials=3, space=space).trials) == 3


def test_gain_is_positive_when_the_objective_falls():
    def cost(candidate):
        return {"cost": float(sum(candidate.decisions.values()))}

    space = DecisionSpace("grid", SPACE.choices, references={"dear": {"a": 3, "b": 3, "c": 3}})
    found = detol.optimize(space, cost, objective="cost:min", trials=64, references=True, strategy="random")
    assert found.summary["gain"] == 9.0


@pytest.mark.parametrize(("tried", "told"), [(True, 1), (False, 0)])
def test_the_audit_is_told_of_the_references_that_run_to_their_end(monkeypatch, tried, told):
    space = DecisionSpace("grid", SPACE.choices, references={"first": {"a": 3, "b": 3, "c": 3}})
    made, seen = wire.stopper, []

    def stopper(*arguments, **options):
        seen.append(options["references"])
        return made(*arguments, **options)

    monkeypatch.setattr(wire, "stopper", stopper)
    detol.optimize(space, hill, trials=6, references=tried, strategy="random", stop="asha", epochs=1)
    assert seen == [told]


@pytest.mark.parametrize("data", [([[1.0]], [0]), {"x": [[1.0]], "y": [0]}])
def test_data_in_python_are_a_name_or_a_path(data):
    with pytest.raises(UsageError, match=r"a name or a path, got a (tuple|dict): save arrays with numpy.savez"):
        detol.search(data)
