"""Bad input of ``detol bench``: one line, exit code 2, no traceback."""

import pytest

from detol.cli import main

SPACE = """
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

SPACE = DecisionSpace("pairs", [Choice("a", ("x", "y")), Choice("b", ("x", "y"))])
"""
TABLE = ["a,b,score,seconds", "x,x,1,5", "x,y,2,5", "y,x,3,5", "y,y,4,5"]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (TABLE[:-1], [], "3 of the 4 topologies"),
        ([*TABLE, TABLE[2]], [], "rows 2 and 5 are the same topology"),
        ([*TABLE[:-1], "y,z,4,5"], [], "'z' is none of its options x, y"),
        ([*TABLE[:-1], "y,y,high,5"], [], "column 'score' holds numbers, got 'high'"),
        (TABLE, ["--objective", "accuracy"], "'accuracy'"),
        (TABLE, ["--strategy", "gudied"], "did you mean guided"),
        (TABLE, ["--strategy", "optuna:TPSampler"], "TPSampler"),
        (TABLE, ["--set", "speed=3"], "speed"),
        (TABLE, ["--seeds", "0"], "--seeds must be >= 1"),
        (TABLE, ["--key", "name"], "key column"),
        (TABLE, ["--seconds", "10"], "--cost COLUMN"),
        (TABLE, ["--identity", "rows"], "row, network"),
        (TABLE, ["--space", "nowhere.py"], "nowhere.py"),
        (TABLE, ["--processes", "-1"], "--processes must be >= 1"),
        (TABLE, ["--to", "t.csv"], "--to takes a directory that can be written, got t.csv"),
        (TABLE, ["--set", "tries=3", "--strategy", "guided"], "tries"),
        (TABLE, ["--set", "local=abc", "--strategy", "guided"], "option local of guided must be a number, got 'abc'"),
        (TABLE, ["--set", "prior=abc", "--strategy", "guided"], "prior of guided must be true or false, got 'abc'"),
        (
            TABLE,
            ["--set", "n_startup_trials=foo", "--strategy", "optuna:TPESampler"],
            "option n_startup_trials of TPESampler must be a whole number, got 'foo'",
        ),
    ],
)
def test_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, rows, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.py").write_text(SPACE, encoding="utf-8")
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    usual = {"--space": "pairs.py", "--table": "t.csv", "--objective": "score", "--trials": "3", "--seeds": "1"}
    usual |= dict(zip(options[::2], options[1::2], strict=True))
    usual = {"--processes": "1", **usual}
    with pytest.raises(SystemExit) as ended:
        main(["bench", *(part for pair in usual.items() for part in pair)])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not said.out
