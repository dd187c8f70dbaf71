"""``detol status`` and the savings it and ``detol results stats`` tell."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from detol import cli
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.savings import Savings
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search.spared import SPARED_EPOCHS, SPARED_SECONDS
from detol.spaces.decisions import Decisions


def made(number: int, epochs: int, width: int, state: State = State.COMPLETED) -> Trial:
    candidate = Candidate(Decisions(width=width), chain(op("conv", channels=width)), Origin.SAMPLE)
    reports = tuple(Report(epoch, {"val_accuracy": 0.5}, 10.0) for epoch in range(1, epochs + 1))
    scores = (0.5,) * epochs
    return Trial(number, candidate, state, 3, reports=reports, curve=scores, scores=(0.5,), seconds=10.0 * epochs)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "results.db"
    described = {"digest": "x1:digits", "name": "digits", "kind": "image", "shape": [1, 8, 8], "outputs": 10}
    with Database(path) as database:
        for name in ("one", "two"):
            store = database.create_search(name, {"name": name, "objectives": ["val_accuracy"]}, described, Recipe())
            if name == "one":
                store.add(made(0, 3, 8))
                store.add(made(1, 1, 16, State.STOPPED))
            else:
                facts = {SPARED_EPOCHS: 1, SPARED_SECONDS: 10.0}
                store.add(replace(made(0, 3, 8), reused="one/0", seconds=0.0))
                store.add(replace(made(1, 3, 16), seconds=20.0, extra=facts))
            store.finish()
    return path


def test_status_says_what_was_saved(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["status", "one", "--db", str(db)]) == 0
    out = capsys.readouterr().out
    assert "early stopping ended 1 trials: 2 epochs left out, about 20.0 device seconds" in out
    assert "reuse" not in out.replace("reused", "")
    assert cli.run(["status", "two", "--db", str(db)]) == 0
    out = capsys.readouterr().out
    assert "reuse saved 1 trainings, 1 more went on from a checkpoint: 4 epochs, 40.0 device seconds" in out
    assert "early stopping" not in out


def test_savings_as_json(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["status", "two", "--db", str(db), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [field.name for field in fields(Savings)]
    assert [found[name] for name in names] == [1, 1, 4, 40.0, 0, 0, 0.0]
    assert cli.run(["results", "stats", "--db", str(db), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in names] == [1, 1, 4, 40.0, 1, 2, 20.0]
