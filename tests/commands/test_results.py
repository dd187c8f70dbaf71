"""``detol results`` at the command line, over a database made here."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from detol import cli
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions


def made(number: int, score: float | None, state: State, width: int) -> Trial:
    candidate = Candidate(Decisions(width=width, note="a, b"), chain(op("conv", channels=width)), Origin.SAMPLE)
    if score is None:
        return Trial(number, candidate, state, 3, reason="boom, at step 3")
    report = Report(1, {"val_accuracy": score, "val_loss": 1 - score})
    return Trial(number, candidate, state, 3, reports=(report,), curve=(score,), scores=(score,))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "results.db"
    with Database(path) as database:
        described = {"digest": "x1:digits", "name": "digits", "kind": "image", "shape": [1, 8, 8], "outputs": 10}
        store = database.create_search("one", {"space": "tiny", "objectives": ["val_accuracy"]}, described, Recipe())
        store.add(made(0, 0.8, State.COMPLETED, 8))
        store.add(made(1, 0.9, State.STOPPED, 16))
        store.add(made(2, None, State.FAILED, 32))
        store.commit()
    return path


def test_show_as_csv_is_one_row_of_facts(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for ref in ("one/0", "one/1", "one/2"):
        assert cli.run(["results", "show", ref, "--db", str(db), "--csv"]) == 0
        rows += list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["trial"] for row in rows] == ["one/0", "one/1", "one/2"]
    assert [row["value"] for row in rows] == ["0.8", "0.9", ""]
    assert [row["state"] for row in rows] == ["completed", "stopped", "failed"]
    assert rows[2]["reason"] == "boom, at step 3"
    assert len({tuple(row) for row in rows}) == 1  # the same columns: rows of several calls can be joined
    first = rows[0]
    assert (first["data_name"], first["recipe_optimiser"], first["recipe_digest"]) == ("digits", "sgd", Recipe().digest)
    assert json.loads(first["decisions"]) == {"width": 8, "note": "a, b"}
    # conv 3x3 without bias 72, batch norm 16, head 8 x 10 + 10: counted by hand
    assert int(first["cost_params"]) == 178


def test_ranks_that_died_stand_beside_the_width(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "results.db"
    with Database(db) as database:
        store = database.create_search("lossy", {"objectives": ["val_accuracy"]}, {"digest": "x1:d"}, Recipe())
        facts = {"ranks_lost": "1 at step 813", "width_now": 1}
        store.add(replace(made(0, 0.8, State.COMPLETED, 8), width=2, extra=facts))
        store.add(replace(made(1, 0.7, State.COMPLETED, 16), width=2))
        store.commit()
    told = []
    for ref in ("lossy/0", "lossy/1"):
        assert cli.run(["results", "show", ref, "--db", str(db)]) == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        told.append(next(line for line in lines if line.startswith("width ")))
    assert told == ["width 2 (ranks lost: 1 at step 813, width now: 1)", "width 2"]


def test_the_best_of_a_search_is_a_completed_trial(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["results", "show", "one", "--db", str(db), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trial"] == "one/0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["top", "--metric", "val_acuracy"], "unknown metric 'val_acuracy': did you mean val_accuracy"),
        (["top", "--space", "tinny"], "unknown space 'tinny': did you mean tiny?"),
        (["front", "--objective", "parms"], "unknown metric 'parms': did you mean params"),
        (["front", "--objective", "score", "--space", "nope"], "unknown space 'nope': known: tiny"),
        (["top", "--data", "digit"], "unknown data set 'digit': did you mean digits?"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]], ids=["table", "json", "csv"])
def test_unknown_names_are_one_line(
    db: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, form: list[str]
) -> None:
    assert cli.run(["results", *arguments, *form, "--db", str(db)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"detol: {message}")
    assert len(captured.err.splitlines()) == 1


def test_a_negative_seed_of_the_examples_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["spaces", "tiny", "--seed", "-1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--seed" in captured.err
    assert len(captured.err.splitlines()) == 1
