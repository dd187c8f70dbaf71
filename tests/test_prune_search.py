"""Searches that prune, from settings to results: real training in this process, small data."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import detol
from detol.cli import app, run
from detol.config import settings
from detol.errors import DetolError, UsageError
from detol.result import SearchResult
from detol.search.records import Origin, State, Trial

Search = Callable[..., SearchResult]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(np.int64)
    path = tmp_path_factory.mktemp("data") / "made.npz"
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture
def search(data: Path, tmp_path: Path) -> Search:
    def run(name: str, **options: object) -> SearchResult:
        given: dict[str, object] = {
            "strategy": "prune:neurons", "space": "tabular", "epochs": 1, "trials": 4, "executor": "inline",
            "workers": 1, "tracking": "off", "device": "cpu", "db": str(tmp_path / "results.db"), "name": name,
            "options": {"strategy": {"tolerance": 1.0, "allowance": 1.0}}, "stop": "none",
        }  # fmt: skip
        return detol.search(str(data), **{**given, **options})  # type: ignore[arg-type]

    return run


def steps(result: SearchResult) -> list[Trial]:
    return [trial for trial in result.trials if trial.candidate.origin is not Origin.RETRAIN]


def outcome(result: SearchResult) -> list[tuple[str, tuple[str, ...], tuple[float, ...]]]:
    digests = {trial.number: trial.digest for trial in result.trials}
    return [(t.digest, tuple(digests[number] for number in t.candidate.parents), t.curve) for t in steps(result)]


def test_each_step_is_a_smaller_network_with_its_parents_weights(search: Search) -> None:
    found = steps(search("chain"))
    assert [trial.state for trial in found] == [State.COMPLETED] * 4
    assert [trial.candidate.parents for trial in found] == [(), (0,), (1,), (2,)]
    sizes = [float(trial.extra["params"]) for trial in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.5 * sizes[0]
    assert all(trial.inherited for trial in found[1:])
    assert all(float(trial.extra["inherited"]) >= 0 for trial in found[1:])
    assert "removals" in json.loads(str(found[0].extra["neurons"]))


def test_a_front_is_sought_and_references_are_left_to_others(search: Search) -> None:
    result = search("front")
    assert [str(objective) for objective in result.objectives] == ["val_accuracy", "params:min"]
    assert not [trial for trial in result.trials if trial.candidate.origin is Origin.REFERENCE]
    front = result.summary["front"]
    assert [row["val_accuracy"] for row in front] == sorted((r["val_accuracy"] for r in front), reverse=True)
    assert [row["params"] for row in front] == sorted((row["params"] for row in front), reverse=True)
    assert {"trial", "digest", "multiply_adds"} <= set(front[0])
    smallest = min(result.trials, key=lambda trial: float(trial.extra["params"]))
    assert front[-1]["params"] == smallest.extra["params"]


def test_with_one_objective_too_the_front_is_of_the_score_parameters_and_multiply_adds(search: Search) -> None:
    result = search("alone", objective=("val_accuracy",))
    points = {
        trial.number: (trial.score, -float(trial.extra["params"]), -float(trial.extra["multiply_adds"]))
        for trial in result.trials
    }
    kept = {
        number
        for number, own in points.items()
        if not any(all(a >= b for a, b in zip(p, own, strict=True)) and p != own for p in points.values())
    }
    assert {row["trial"] for row in result.summary["front"]} <= kept
    assert {points[row["trial"]] for row in result.summary["front"]} == {points[number] for number in kept}
    assert all({"val_accuracy", "params", "multiply_adds"} <= set(row) for row in result.summary["front"])
    plain = search("plain", strategy="random", trials=1, objective=("val_accuracy",), options={})
    assert plain.summary["front"] == []


def test_a_bound_on_the_parameters_holds_for_the_start(search: Search) -> None:
    free = search("free", trials=1)
    bound = float(free.trials[0].extra["params"]) / 2
    result = search("bound", max_params=bound)
    assert not [trial for trial in result.trials if trial.state is State.REFUSED]
    assert float(result.trials[0].extra["params"]) <= bound


@pytest.mark.parametrize("strategy", ["prune:neurons", "grow"])
def test_a_rule_that_pauses_is_refused_in_one_line(strategy: str, search: Search) -> None:
    for stop in ("promote", "median+promote"):
        with pytest.raises(UsageError, match=f"strategy {strategy} .*--stop none") as caught:
            search("x", strategy=strategy, stop=stop, options={})
        assert "\n" not in str(caught.value)
    assert search("median", strategy=strategy, stop="median", trials=1, options={}).trials


def test_a_resumed_search_goes_on_as_if_it_had_never_ended(search: Search, tmp_path: Path) -> None:
    whole = outcome(search("whole"))
    search("half", trials=2, db=str(tmp_path / "other.db"))
    resumed = detol.resume("half", db=str(tmp_path / "other.db"), trials=4)
    assert outcome(resumed) == whole


def test_it_starts_from_what_the_database_holds(search: Search) -> None:
    before = search("before", strategy="random", trials=3, objective=("val_accuracy",), options={})
    assert before.best is not None
    for start in ("before", before.best.digest, before.best.digest[:12], f"before/{before.best.number}"):
        name = f"from-{start[:9]}-{len(start)}".replace(":", "-").replace("/", "-")
        after = search(name, start=start, trials=1, objective=("val_accuracy",))
        first = after.trials[0]
        assert first.candidate.parents == ()
        assert float(first.extra["params"]) == float(before.best.extra["params"])
        assert after.settings.start == before.best.digest


def test_a_start_that_is_not_there_is_one_line(search: Search) -> None:
    search("some", trials=1)
    for start in ("nobody", "d1:" + "0" * 16, "some/9"):
        with pytest.raises(DetolError) as caught:
            search(f"x-{len(start)}", start=start)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="prune"):
        search("y", strategy="random", start="largest", options={})


def test_a_start_for_other_data_is_refused(search: Search, tmp_path: Path) -> None:
    search("vectors", trials=1)
    x = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=x, y=np.arange(60) % 3)
    with pytest.raises(UsageError, match="does not fit"):
        detol.search(
            str(tmp_path / "images.npz"), strategy="prune", start="vectors", executor="inline", tracking="off",
            db=str(tmp_path / "results.db"), device="cpu",
        )  # fmt: skip


def test_steps_are_not_stopped_early_unless_asked() -> None:
    assert settings(strategy="prune:edges").stop == "none"
    assert settings(strategy="prune", stop="median").stop == "median"
    assert settings(strategy="random").stop == settings().stop != "none"


def test_the_command_line_takes_it(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--data", str(data), "--trials", "2", "--epochs", "1", "--executor", "inline", "--tracking", "off"]
    command = ["search", *flags, "--device", "cpu", "--strategy", "prune", "--start", "largest", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert run([*command[:-3], "--start", "nobody"]) == 2
