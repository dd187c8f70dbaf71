"""The command line: a contract that checks call. Exit codes, one-line errors, JSON, and what is (not) written."""

import json
import subprocess
import sys

import pytest
from safetensors.numpy import load_file

from detol import cli

INLINE = ["--executor", "inline", "--tracking", "off"]
SEARCH = ["search", "--data", "digits", "--space", "tiny", "--trials", "4", "--epochs", "2", "--stop", "none", *INLINE]
pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A database with one finished search."""
    folder = tmp_path_factory.mktemp("searched")
    assert cli.run([*SEARCH, "--name", "first", "--db", str(folder / "results.db")]) == 0
    return folder / "results.db"


def test_help_names_every_command(call):
    code, out, _ = call("--help")
    assert code == 0
    for command in ("search", "resume", "status", "results", "export", "spaces", "data", "track"):
        assert f"  {command} " in out


@pytest.mark.parametrize("command", ["search", "resume", "status", "export", "spaces"])
def test_every_command_has_help(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0
    assert "Usage" in out


def test_help_loads_none_of_the_big_libraries():
    big = ("torch", "ray", "mlflow", "optuna", "pandas", "sqlalchemy", "scipy", "sklearn")
    code = f"import sys, detol.cli; print([m for m in {big} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_search_prints_a_summary_and_what_to_do_next(call):
    code, out, _ = call(*SEARCH, "--name", "mine")
    assert code == 0
    for text in ("mine: all 4 trials are done", "4 trained", "best:", "reference", "test:", "detol export mine"):
        assert text in out


def test_search_as_json_is_one_document(call):
    code, out, _ = call(*SEARCH, "--name", "mine", "--json")
    summary = json.loads(out)
    assert code == 0
    for key in ("name", "trials", "trained", "reused", "stopped", "failed", "seconds", "best", "test"):
        assert key in summary
    assert summary["trials"] == summary["trained"] == 4
    assert set(summary["best"]) == {"trial", "digest", "score"}
    assert 0 < summary["best"]["score"] <= 1
    assert 0 < summary["test"]["test_accuracy"] <= 1


def test_the_same_search_again_trains_nothing(call):
    first = json.loads(call(*SEARCH, "--name", "a", "--json")[1])
    second = json.loads(call(*SEARCH, "--name", "b", "--json")[1])
    assert (second["trained"], second["reused"]) == (0, 4)
    assert second["best"] == first["best"]
    assert second["test"] == first["test"]


def test_a_toml_file_and_flags_mean_the_same(call, tmp_path):
    (tmp_path / "run.toml").write_text(
        'data = "digits"\nspace = "tiny"\ntrials = 4\nepochs = 2\n'
        'stop = "none"\nexecutor = "inline"\ntracking = "off"\n'
    )
    by_flags = json.loads(call(*SEARCH, "--name", "a", "--json")[1])
    by_file = json.loads(call("search", "run.toml", "--name", "b", "--json")[1])
    assert by_file["reused"] == 4  # the same search
    assert by_file["best"]["digest"] == by_flags["best"]["digest"]


def test_an_exhausted_space_ends_the_search_with_a_clear_line(call):
    code, out, _ = call(*SEARCH[:5], "--trials", "100", "--epochs", "1", "--stop", "none", *INLINE, "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["trials"] == 18
    assert "exhausted" in summary["ended"]


def test_resume_of_a_finished_search_with_a_larger_budget_goes_on(call):
    call(*SEARCH, "--name", "mine")
    code, out, _ = call("resume", "mine", "--trials", "6", "--json")
    summary = json.loads(out)
    assert code == 0
    assert (summary["trials"], summary["trained"]) == (6, 6)
    rows = json.loads(call("results", "sql", "SELECT number, state FROM trials ORDER BY number", "--json")[1])
    assert [row["number"] for row in rows] == list(range(6))
    assert {row["state"] for row in rows} == {"completed"}


@pytest.mark.parametrize("view", ["top", "front", "stats"])
def test_results_as_json_and_csv(call, searched, view):
    code, out, _ = call("results", view, "--db", searched, "--json")
    assert code == 0
    assert json.loads(out)
    code, out, _ = call("results", view, "--db", searched, "--csv")
    assert code == 0
    assert len(out.splitlines()) >= 2


@pytest.mark.parametrize("view", ["curve", "show", "lineage"])
def test_results_of_one_trial(call, searched, view):
    for ref in ("first", "first/1"):
        code, out, _ = call("results", view, ref, "--db", searched)
        assert code == 0
        assert out.strip()
        code, out, _ = call("results", view, ref, "--db", searched, "--json")
        assert code == 0
        assert json.loads(out)


def test_top_is_sorted_and_as_long_as_the_trials(call, searched):
    rows = json.loads(call("results", "top", "--db", searched, "--json")[1])
    values = [row["value"] for row in rows]
    assert len(rows) == 4
    assert values == sorted(values, reverse=True)


def test_sql_is_read_only(call, searched):
    code, _, err = call("results", "sql", "DELETE FROM trials", "--db", searched)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert len(json.loads(call("results", "top", "--db", searched, "--json")[1])) == 4


def test_status_of_all_and_of_one(call, searched):
    rows = json.loads(call("status", "--db", searched, "--json")[1])
    assert [row["name"] for row in rows] == ["first"]
    one = json.loads(call("status", "first", "--db", searched, "--json")[1])
    assert (one["state"], one["trials"]) == ("finished", 4)


def test_export_writes_a_checked_network(call, searched, tmp_path):
    code, out, _ = call("export", "first", "--to", tmp_path / "out", "--db", searched)
    assert code == 0
    assert "largest difference" in out
    found = json.loads((tmp_path / "out" / "certificate.json").read_text())
    # The winner's test score, read once more from each exported file.
    tested = {name: entry["test"]["accuracy"] for name, entry in found["formats"].items()}
    assert tested == dict.fromkeys(("onnx", "torch", "python"), pytest.approx(found["test"]["test_accuracy"]))
    assert {"model.onnx", "weights.safetensors", "model.py", "topology.json", "topology.svg", "README.md"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }


def test_export_of_weights_that_were_not_kept_offers_to_train_again(call, searched, tmp_path):
    flags = ("--to", tmp_path / "out", "--db", searched, "--format", "python")
    kept = searched.parent / "weights"
    kept.rename(searched.parent / "gone")
    try:
        code, _, err = call("export", "first/1", *flags)
        assert code == 2
        assert len(err.strip().splitlines()) == 1
        assert "--retrain 1" in err
        assert not (tmp_path / "out").exists()
        code, _, err = call("export", "first/1", *flags, "--retrain", "2")
    finally:
        (searched.parent / "gone").rename(kept)
    assert code == 0
    assert "training it again" in err
    found = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert found["score"]["trained_again"]
    assert found["score"]["difference"] == 0  # on the CPU the same seed gives the same network
    again = found["retrained"]
    assert (again["metric"], again["seeds"]) == ("test_accuracy", [1, 2])
    assert again["mean"] == pytest.approx(sum(again["values"]) / 2)
    assert again["std"] == pytest.approx(abs(again["values"][0] - again["values"][1]) / 2**0.5)
    (path,) = kept.glob("first-*/1-*.safetensors")
    first, exported = load_file(path), load_file(tmp_path / "out" / "weights.safetensors")
    assert sorted(map(str, (value.tolist() for value in first.values()))) == sorted(
        str(value.tolist()) for name, value in exported.items() if name not in ("mean", "std")
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("first/99",), "99"),
        (("frist",), "did you mean first"),
        (("d1:00000000",), "d1:00000000"),
        (("first", "--format", "onxx"), "did you mean onnx"),
        (("first", "--format", "torch", "--register", "x"), "--register needs --format mlflow or onnx"),
        (("first", "--format", "onnx", "--register", "x"), "give --tracking URI"),
        (("first", "--retrain", "0"), "--retrain"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(call, searched, tmp_path, words, said):
    code, _, err = call("export", *words, "--to", tmp_path / "new" / "out", "--db", searched)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_spaces_shows_decisions_cardinality_and_three_examples(call):
    shown = json.loads(call("spaces", "tiny", "--json")[1])
    assert shown["size"] == 18
    assert len(shown["examples"]) == 3
    assert {row["decision"] for row in shown["decisions"]} == {"width", "activation", "layers", "skip"}
    names = [row["space"] for row in json.loads(call("spaces", "--json")[1])]
    assert {"tiny", "nasbench201", "image_cell", "image_dag", "signal", "tabular"} <= set(names)


def test_data_describe(call):
    described = json.loads(call("data", "describe", "digits", "--json")[1])
    assert described["kind"] == "image"
    assert described["shape"] == [1, 8, 8]


BAD = [
    (["--data", "missing.npz"], "missing.npz"),
    (["--data", "empty.csv"], "empty"),
    (["--space", "tinny"], "did you mean tiny"),
    (["--strategy", "evolutoin"], "did you mean evolution"),
    (["--strategy", "optuna:TPESampel"], "TPESampler"),
    (["--stop", "ahsa"], "did you mean asha"),
    (["--objective", "val_acuracy"], "did you mean val_accuracy"),
    (["--trials", "0"], "--trials must be >= 1"),
    (["--epochs", "-1"], "--epochs must be >= 1"),
    (["--ranks", "3", "--workers", "2"], "at most the number of workers"),
    (["--set", "strategy.popluation=3"], "did you mean population"),
    (["--set", "recipe.batch_size=0"], "batch_size must be >= 1"),
    (["--set", "stop.eta=1"], "eta"),
    (["--target", "class", "--data", "table.csv"], "class"),
    (["--space", "raises.py"], "raises.py"),
    (["--trials", "many"], "--trials"),
    (["--executor", "inline", "--ranks", "2", "--workers", "2"], "one rank"),
    (["--device", "cuda"], "needs an NVIDIA GPU"),
    (["--space", "image_cell", "--data", "table.csv"], "is for image data"),
    (["--set", "data.limt=10"], "did you mean limit"),
    (["--set", "data.target=x"], "unknown option of data"),
    (["--ranks", "\u00b2"], "--ranks must be"),
    (["--tracking", "foo://bar"], "scheme"),
    (["--variables", "images"], "ROLE=NAME"),
    (["--tirals", "3"], "--tirals"),
    (["--set", "recipe.augment=flip", "--data", "table.csv"], "images"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD, ids=lambda part: " ".join(part) if isinstance(part, list) else ""
)
def test_bad_input_is_one_line_exit_code_2_and_nothing_written(call, tmp_path, arguments, message):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "table.csv").write_text("a,b,kind\n" + "1,2,x\n3,4,y\n" * 30)
    (tmp_path / "raises.py").write_text("raise RuntimeError('no')\n")
    before = {path.name for path in tmp_path.iterdir()}
    base = ["search", "--data", "digits", "--space", "tiny", "--strategy", "evolution", "--stop", "asha", *INLINE]
    code, out, err = call(*base, *arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert out == ""
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == before


def test_a_name_that_exists_is_refused(call, searched):
    code, _, err = call(*SEARCH, "--name", "first", "--db", searched)
    assert code == 2
    assert "exists" in err
    assert "detol resume" in err


def test_a_database_of_a_newer_schema_is_refused(call, searched, tmp_path):
    import shutil
    import sqlite3

    newer = tmp_path / "newer.db"
    shutil.copy(searched, newer)
    with sqlite3.connect(newer) as connection:
        (table,) = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%version%'").fetchone()
        connection.execute(f"UPDATE {table} SET version_num = '9999'")
    connection.close()
    before = newer.read_bytes()
    code, _, err = call(*SEARCH, "--db", newer)
    assert code == 2
    assert "newer" in err
    assert newer.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [["status", "none"], ["results", "show", "none/3"], ["export", "none", "--to", "out"], ["resume", "none"]],
)
def test_unknown_names_are_one_line(call, searched, arguments):
    code, _, err = call(*arguments, "--db", searched)
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_a_database_that_does_not_exist_is_not_made_by_a_question(call, tmp_path):
    code, _, err = call("results", "top", "--db", tmp_path / "no.db")
    assert code == 2
    assert "no.db" in err
    assert not (tmp_path / "no.db").exists()


def test_a_larger_budget_stays_when_a_search_is_resumed(call):
    call(*SEARCH, "--name", "mine")
    call("resume", "mine", "--trials", "5")
    assert json.loads(call("status", "mine", "--json")[1])["budget"] == 5
    assert json.loads(call("resume", "mine", "--json")[1])["trials"] == 5


def test_a_search_can_be_resumed_from_elsewhere(call, tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("a,b,kind\n" + "1,2,x\n3,4,y\n" * 40)
    base = ["search", "--data", "table.csv", "--space", "tiny", "--trials", "2", "--epochs", "1", *INLINE]
    assert call(*base, "--name", "mine", "--db", tmp_path / "r.db")[0] == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, out, _ = call("resume", "mine", "--trials", "3", "--db", tmp_path / "r.db", "--json")
    assert code == 0
    assert json.loads(out)["trials"] == 3


def test_searches_of_one_name_in_two_databases_keep_their_own_weights(call, tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        flags = ["--name", "same", "--db", tmp_path / f"{name}.db", "--seed", seed]
        assert call(*SEARCH, *flags)[0] == 0
    for name in ("a", "b"):
        code, _, _ = call(
            "export", "same", "--to", tmp_path / name, "--db", tmp_path / f"{name}.db", "--format", "torch"
        )
        assert code == 0  # export refuses weights that do not score as their trial did


def test_a_search_without_any_score_exits_with_1_and_one_line(call, tmp_path):
    (tmp_path / "wide.py").write_text(
        "from detol.graph.ops import op\nfrom detol.graph.topology import chain\n"
        "from detol.spaces.decisions import Choice\nfrom detol.spaces.space import DecisionSpace\n"
        "layers = lambda d: chain(op('flatten'), op('linear', features=d['w']))\n"
        "SPACE = DecisionSpace('wide', [Choice('w', (100, 200))], layers)\n"
    )
    code, out, err = call(*SEARCH, "--space", "wide.py", "--max-params", "10", "--json")
    assert code == 1
    assert json.loads(out)["best"] is None
    assert "ended with a score" in err


def test_several_objectives_rank_by_the_first(call):
    code, out, _ = call(*SEARCH, "--objective", "params:min", "--objective", "val_accuracy", "--name", "two", "--json")
    assert code == 0
    best = json.loads(out)["best"]
    rows = json.loads(call("results", "top", "--json")[1])
    assert best["score"] == min(row["params"] for row in rows)


def test_max_params_refuses_before_training(call):
    code, out, _ = call(*SEARCH, "--max-params", "3000", "--json", "--name", "small")
    summary = json.loads(out)
    assert code == 0
    assert summary["refused"] > 0
    rows = json.loads(call("results", "sql", "SELECT state, reason FROM trials", "--json")[1])
    refused = [row for row in rows if row["state"] == "refused"]
    assert len(refused) == summary["refused"]
    assert all("--max-params" in row["reason"] for row in refused)
