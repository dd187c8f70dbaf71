"""Tables of published results as records; the figures of NAS-Bench-201 from its table, if that is here."""

import csv
import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from detol import cli
from detol.errors import UsageError
from detol.published import import_table
from detol.results.query import Query
from detol.results.schema import trials
from detol.results.store import Database
from detol.results.verify import verify
from detol.spaces import catalogue

TABLE = Path(__file__).parents[3] / "shared" / "data" / "nasbench201.csv.gz"
SPACE = catalogue.load("nasbench201")
NAMED = {"recipe": "200 epochs", "source": "Dong and Yang 2020", "epochs": 200}


@pytest.fixture
def some(tmp_path: Path) -> Callable[..., Path]:
    """Write a table of some cells: those of these codes."""

    def write(codes: list[str], **columns: list[Any]) -> Path:
        path = tmp_path / "some.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["code", *columns])
            writer.writerows(zip(codes, *columns.values(), strict=True))
        return path

    return write


def test_rows_become_trials(some: Callable[..., Path], tmp_path: Path) -> None:
    """000300 and 300300 are one network: the edge 0>1 leads to a node that leads nowhere."""
    path = some(
        ["444443", "000300", "300300"], a=[90.0, 80.0, 82.0], b=[0.5, 0.25, 0.45], s=[10, 20, 30], p=[1.5, 1, 1]
    )
    db = str(tmp_path / "r.db")
    outcome = import_table(
        db,
        path,
        "nasbench201",
        ["images=a*0.01", "letters=b:min"],
        key="code",
        costs=["images=s*1/2"],
        params="p*1000",
        **NAMED,
    )
    assert (outcome.added, outcome.searches) == (6, ["some-images", "some-letters"])
    with Database(db) as database:
        assert verify(database).faults == []
        query = Query(database)
        best, second = query.top(data="images")
        assert (best.trial, best.value, best.n, best.params, best.seconds) == ("some-images/0", 0.9, 1, 1500, 5.0)
        # Two rows of one network are two observations of it.
        assert (second.n, second.value, second.mean) == (2, pytest.approx(0.82), pytest.approx(0.81))
        assert second.spread == pytest.approx(0.02 / 2**0.5)
        assert (second.epochs, second.source, second.space) == (200, "Dong and Yang 2020", "nasbench201")
        assert [row.value for row in query.top(data="letters")] == [0.25, 0.5]  # it is minimised
        shown = query.show("some-images/0")
        assert shown["recipe"] == {
            "digest": shown["recipe"]["digest"],
            "name": "200 epochs",
            "source": "Dong and Yang 2020",
        }
        assert shown["decisions"] == {key: str(value) for key, value in shown["decisions"].items()}
        assert shown["curve"] == [{"epoch": 200, "value": 0.9, "seconds": 5.0, "metrics": {"a": 0.9}}]
        trial = database.open_search("some-images", lock=False).trials()[0]
        assert SPACE.decode(trial.candidate.decisions) == trial.candidate.topology
        (known,) = database.open_search("some-letters", lock=False).known(
            trial.digest, database.open_search("some-images", lock=False).recipe, _data(database, "images"), 200
        )
        assert known.reused == "some-images/0"


def test_commands_about_searches_know_what_they_are(
    some: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "r.db")
    import_table(db, some(["444443"], a=[0.5]), "nasbench201", ["a"], key="code", **NAMED)
    for command, line in (
        (["results", "audit", "some-a"], "has no stopping rule to audit"),
        (["resume", "some-a"], "was imported from Dong and Yang 2020 and stays as it is"),
        (["export", "some-a", "--to", str(tmp_path / "x")], "is a published result without weights or data here"),
    ):
        assert cli.run([*command, "--db", db]) == 2
        assert line in capsys.readouterr().err
    assert cli.run(["status", "--db", db]) == 0
    assert "Dong and Yang" in capsys.readouterr().out


def _data(database: Database, name: str) -> str:
    return next(digest for digest, row in database.data_rows().items() if row["name"] == name)


def test_again_changes_nothing_and_a_corrected_value_is_beside_the_old_one(
    some: Callable[..., Path], tmp_path: Path
) -> None:
    db, codes = str(tmp_path / "r.db"), ["444443", "300003"]
    ask = {"key": "code", "metric": "val_accuracy", **NAMED}
    import_table(db, some(codes, a=[0.5, 0.6]), "nasbench201", ["a"], **ask)
    assert import_table(db, some(codes, a=[0.5, 0.6]), "nasbench201", ["a"], **ask).added == 0
    outcome = import_table(db, some(codes, a=[0.5, 0.7]), "nasbench201", ["a"], **ask)
    assert (outcome.added, outcome.known, outcome.conflicts, outcome.searches) == (1, 1, 1, ["some-a~1"])


def test_of_a_data_set_that_is_here(some: Callable[..., Path], database: Database, make_search: Any) -> None:
    make_search("mine")
    import_table(
        str(database.url.database), some(["444443"], a=[0.5]), "nasbench201", ["x1:digits=a"], key="code", **NAMED
    )
    assert [row["name"] for row in database.data_rows().values()] == ["digits"]
    assert [row.trial for row in Query(database).top(data="digits", metric="a")] == ["some-x1:digits/0"]


def test_a_column_for_each_decision(tmp_path: Path) -> None:
    space = catalogue.load("tiny")
    path = tmp_path / "tiny.csv"
    chosen = list(itertools.islice(space.enumerate(), 5))
    names = sorted({name for decisions in chosen for name in decisions})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*names, "score"])
        writer.writeheader()
        for number, decisions in enumerate(chosen):
            writer.writerow({**decisions, "score": number / 10})
    import_table(str(tmp_path / "r.db"), path, "tiny", ["score"], name="published", **NAMED)
    with Database(tmp_path / "r.db") as database:
        found = database.open_search("published", lock=False).trials()
        assert [trial.candidate.decisions for trial in found] == chosen


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"objectives": ["z"]}, "unknown objective column of .*some.csv 'z'"),
        ({"objectives": []}, "needs a column of scores"),
        ({"objectives": ["a", "a"]}, "a data set of its own, got 'a' twice"),
        ({"objectives": ["a*0"]}, "a factor > 0"),
        ({"key": "z"}, "unknown key column"),
        ({"costs": ["b=a"]}, "no --objective has a data set 'b'"),
        ({"costs": ["low"]}, "column 'low' holds figures >= 0, got -1"),
        ({"params": "text"}, "row 1: column 'text' holds numbers, got 'x'"),
        ({"epochs": 0}, "--epochs must be at least 1"),
        ({"recipe": " "}, "a recipe has a name"),
        ({"source": ""}, "a source is who"),
        ({"metric": "val_accuracy"}, r"trial some-a/0: val_accuracy of epoch 200 is in \[0, 1\], got 90"),
        ({"space": "nasbench20l"}, "unknown space 'nasbench20l': did you mean nasbench201"),
        ({"name": "a/b"}, "no slash"),
    ],
)
def test_what_is_refused(change: dict[str, Any], line: str, some: Callable[..., Path], tmp_path: Path) -> None:
    path = some(["444443", "300003"], a=[90.0, 80.0], text=["x", "y"], low=[-1, 2])
    ask = {"space": "nasbench201", "objectives": ["a"], "key": "code", **NAMED, **change}
    with pytest.raises(UsageError, match=line) as caught:
        import_table(str(tmp_path / "r.db"), path, ask.pop("space"), ask.pop("objectives"), **ask)
    assert "\n" not in str(caught.value)
    if (tmp_path / "r.db").exists():
        with Database(tmp_path / "r.db") as database:
            assert database.names() == []


def test_a_row_that_is_no_topology(some: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="row 2: code '999999' is no topology of space 'nasbench201'"):
        import_table(
            str(tmp_path / "r.db"), some(["444443", "999999"], a=[1, 2]), "nasbench201", ["a"], key="code", **NAMED
        )


@pytest.mark.skipif(not TABLE.is_file(), reason="the table of NAS-Bench-201 is not here")
def test_300_rows_of_nasbench201(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command line, two data sets at once; the best of all rows is cell 333132 with 91.61 % (Dong and Yang)."""
    with gzip.open(TABLE, "rt") as file:
        rows = list(csv.reader(file))
    names, body = rows[0], rows[1:]
    code, score = names.index("arch_code"), names.index("cifar10_val200")
    kept = [row for place, row in enumerate(body) if place % 60 == 0 or row[code] == "333132"]
    with (tmp_path / "part.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *kept])
    arguments = ["results", "import-table", tmp_path / "part.csv", "--space", "nasbench201", "--key", "arch_code"]
    arguments += ["--objective", "cifar10=cifar10_val200*0.01", "--objective", "cifar100=cifar100_val200*0.01"]
    arguments += ["--metric", "val_accuracy", "--epochs", "200", "--recipe-name", "nb201", "--source", "Dong and Yang"]
    arguments += ["--db", tmp_path / "r.db", "--json"]
    assert cli.run(list(map(str, arguments))) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["added"], told["searches"]) == (2 * len(kept), ["part-cifar10", "part-cifar100"])
    with Database(tmp_path / "r.db") as database:
        (best,) = Query(database).top(data="cifar10", limit=1)
        assert best.value == pytest.approx(max(float(row[score]) for row in kept) / 100)
        assert round(100 * best.value, 2) == 91.61
        with database.read() as connection:
            distinct = connection.scalar(sa.select(sa.func.count(trials.c.digest.distinct())))
        assert distinct < len(kept)
