"""``detol bench`` as a person calls it. Bad input: one line, exit code 2, no traceback."""

import json

import pytest

from detol.cli import main
from detol.commands.bench import _row

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
        (TABLE, ["--strategy", "grow"], "--strategy grow changes networks"),
        (TABLE, ["--strategy", "prune:edges"], "--strategy prune:edges changes networks"),
        (TABLE, ["--set", "gamma=0.1", "--strategy", "optuna:TPESampler"], "option gamma of TPESampler is a function"),
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


WALKS = """
from detol.search.records import Candidate, Origin
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

SPACE = DecisionSpace("numbers", [Choice("n", tuple(range(30)))])


class Up:
    def __init__(self, space):
        self.space, self.left = space, list(space.enumerate())

    def ask(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        return [Candidate(decisions, self.space.decode(decisions), Origin.SAMPLE) for decisions in taken]

    def tell(self, trials):
        pass


class Down(Up):
    def __init__(self, space):
        self.space, self.left = space, list(space.enumerate())[::-1]
"""


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Call ``detol bench`` on a table of 30 rows; return what it wrote on standard output and on standard error."""

    def call(header, cost, *options):
        rows = [header, *(f"{n},{n},{n / 2},{cost(n)}" for n in range(30))]
        (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
        usual = ["--space", "walks.py", "--table", "t.csv", "--processes", "1", "--seeds", "2"]
        with pytest.raises(SystemExit) as ended:
            main(["bench", *usual, *options])
        said = capsys.readouterr()
        assert ended.value.code == 0, said.err
        return said.out, said.err

    monkeypatch.chdir(tmp_path)
    (tmp_path / "walks.py").write_text(WALKS, encoding="utf-8")
    return call


def test_strategies_under_seconds_as_table_and_as_json(bench):
    """Scores are 0 to 29. Upwards trainings take 1 s, so 12 fit into 12.5 s; downwards 4 s, so 3 do, the best first."""
    asked = [
        "n,score,test,seconds", lambda n: 1 if n < 15 else 4, "--objective", "score", "--test", "test", "--cost",
        "seconds", "--seconds", "12.5", "--trials", "1000", "--strategy", "walks.py:Down", "--strategy", "walks.py:Up",
    ]  # fmt: skip
    down, up = json.loads(bench(*asked, "--json")[0])["strategies"]
    assert (down["trainings"], up["trainings"]) == (3, 12)
    assert (down["mean_trainings_to_best"], up["mean_trainings_to_best"]) == (1, 12)
    assert (down["found"], up["found"]) == (1, 0)
    assert (down["best"], up["best"]) == ({"10": 29, "end": 29}, {"10": 9, "end": 11})
    assert (down["test"]["test"], up["test"]["test"]) == ({"10": 14.5, "end": 14.5}, {"10": 4.5, "end": 5.5})

    head, first, second = [line for line in bench(*asked)[0].splitlines() if "best@10" in line or "walks.py" in line]
    expected = {
        "strategy": ("walks.py:Down", "walks.py:Up"),
        "to the best": ("1.0", "12.0"),
        "found": ("100%", "0%"),
        "best@10": ("29.000", "9.000"),
        "best@end": ("29.000", "11.000"),
        "test": ("14.500", "5.500"),
        "duplicates": ("0.0", "0.0"),
    }
    for heading, cells in expected.items():
        place = head.index(heading)
        assert (first[place:].split()[0], second[place:].split()[0]) == cells


@pytest.mark.parametrize(
    ("objective", "cost", "seconds", "scaled"),
    [
        ("a_val12", "a_train_seconds200", "0.9", True),  # 6 s * 12 / 200 = 0.36 s
        ("a_test12", "seconds_seconds200", "0.9", True),
        ("a_val12", "a_seconds200*1", "15", False),
        ("a_val200", "a_seconds200", "15", False),
        ("score1", "secs2", "15", False),
        ("loss1", "cost0", "15", False),
        ("a_val12", "b_seconds0", "15", False),
    ],
)
def test_a_cost_is_of_other_epochs_only_where_both_names_say_so(bench, objective, cost, seconds, scaled):
    """A training takes 6 s by the table: two of them fit into 15 s."""
    said, told = bench(
        f"n,{objective},test,{cost.partition('*')[0]}", lambda _: 6, "--objective", objective, "--cost", cost,
        "--seconds", seconds, "--strategy", "walks.py:Up", "--json",
    )  # fmt: skip
    (found,) = json.loads(said)["strategies"]
    assert found["trainings"] == 2
    assert found["simulated_seconds"] == pytest.approx(0.72 if scaled else 12)
    assert (f"--cost '{cost}*12/200'" in told) is scaled


def test_a_mark_that_a_strategy_did_not_reach_is_left_empty():
    entry = {
        "strategy": "x", "mean_trainings_to_best": 3, "median_trainings_to_best": 3, "found": 1, "duplicates": 0,
        "best": {"10": 1.0, "end": 2.0}, "test": {}, "intervals": {"mean_trainings_to_best": [3, 3]},
    }  # fmt: skip
    row = _row(entry, ["10", "25", "end"])
    assert [row[f"best@{mark}"] for mark in ("10", "25", "end")] == ["1.000", "", "2.000"]
