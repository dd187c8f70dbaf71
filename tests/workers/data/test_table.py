from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from detol.errors import DataError
from detol.workers.data import read
from detol.workers.data.csvfile import read as read_csv

rng = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "age": rng.integers(18, 90, N),
        "job": rng.choice(["clerk", "nurse", "cook"], N),
        "score": rng.normal(size=N).round(3),
        "class": np.arange(N) % 2,
    }
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def csv(path: Path, frame: pd.DataFrame = FRAME, **options: Any) -> Path:
    frame.to_csv(path, **{"index": False, **options})
    return path


def test_a_table_is_what_pandas_makes_of_it(tmp_path: Path) -> None:
    data = read(csv(tmp_path / "t.csv"))
    assert data.preprocessing["names"] == ["age", "job=clerk", "job=cook", "job=nurse", "score"]
    expected = pd.get_dummies(FRAME.drop(columns="class"), columns=["job"], prefix_sep="=", dtype=float)
    rows = {
        tuple(row): label
        for row, label in zip(
            expected[data.preprocessing["names"]].to_numpy(dtype=np.float32).tolist(), FRAME["class"], strict=True
        )
    }
    seen = [
        (tuple(row), label)
        for split in data.splits().values()
        for row, label in zip(split.x.tolist(), split.y, strict=True)
    ]
    assert dict(seen) == rows
    train = data.train.x.astype(np.float64)
    np.testing.assert_allclose(data.mean[[0, 4]], train[:, [0, 4]].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(data.std[[0, 4]], train[:, [0, 4]].std(axis=0), rtol=1e-6)
    assert data.mean[1:4].tolist() == [0, 0, 0]
    assert data.std[1:4].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t.csv", {"index": True}),  # row numbers in front
        ("t.tsv", {"sep": "\t"}),
        ("t.csv", {"sep": ";"}),
        ("t.csv", {"sep": ";", "decimal": ","}),
        ("t.csv.gz", {}),
        ("t.csv", {"encoding": "utf-8-sig"}),
    ],
)
def test_dialects_read_the_same(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    (tmp_path / "a").mkdir()
    plain, other = read(csv(tmp_path / "a" / "t.csv")), read(csv(tmp_path / name, **options))
    np.testing.assert_array_equal(other.train.x, plain.train.x)
    np.testing.assert_array_equal(other.train.y, plain.train.y)


def test_parquet_reads_like_csv(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "t.parquet")
    data, plain = read(tmp_path / "t.parquet"), read(csv(tmp_path / "t.csv"))
    np.testing.assert_array_equal(data.train.x, plain.train.x)
    assert data.digest == plain.digest
    for column in ("category", "string", object):
        FRAME.astype({"job": column}).to_parquet(tmp_path / "u.parquet")
        assert read(tmp_path / "u.parquet").digest == plain.digest


@pytest.mark.parametrize(
    ("target", "name"),
    [(None, "class"), ("last", "class"), ("job", "job"), ("1", "job"), (1, "job"), (-1, "class"), (-3, "job")],
)
def test_targets(tmp_path: Path, target: str | int | None, name: str) -> None:
    assert read(csv(tmp_path / "t.csv"), target=target).describe()["target_name"] == name


def test_the_usual_target_is_found_anywhere(tmp_path: Path) -> None:
    path = csv(tmp_path / "t.csv", FRAME[["Class" if c == "Class" else c for c in ("class", "age", "job", "score")]])
    assert read(path).describe()["target_name"] == "class"


def test_a_wrong_target_names_near_ones(tmp_path: Path) -> None:
    path = csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"unknown target column of t.csv 'clas': did you mean class\?"):
        read(path, target="clas")
    with pytest.raises(DataError, match=r"must be in \[-4, 3\], got 9"):
        read(path, target="9")


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b\n1,2\n3,4\n", ["a", "b"], 2),
        ("1,2\n3,4\n", ["c0", "c1"], 2),
        ("x,1\ny,2\n", ["c0", "c1"], 2),
        ("colour,shape\nred,round\nblue,square\n", ["colour", "shape"], 2),  # text alone: its cells do not occur below
        ("red,round\nblue,square\nred,square\n", ["c0", "c1"], 3),
        ("0,1,2,3\n5,6,7,8\n9,9,9,9\n", ["0", "1", "2", "3"], 2),  # pandas' numbers of columns
        ("a,a\n1,2\n", ["c0", "c1"], 2),
        ("a, b\n1, 2\n\n3 ,4\n", ["a", "b"], 2),
        ('"a","b, c"\n1,"2"\n', ["a", "b, c"], 1),
        ("a,b\n?,2\nNA,3\n", ["a", "b"], 2),
    ],
)
def test_headers(tmp_path: Path, text: str, names: list[str], rows: int) -> None:
    frame, _ = read_csv(write(tmp_path / "t.csv", text), "auto", None)
    assert (list(frame.columns), len(frame)) == (names, rows)


def test_a_header_can_be_said(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "1,2\n3,4\n")
    assert list(read_csv(path, "yes", None)[0].columns) == ["1", "2"]
    path = write(tmp_path / "u.csv", "a,b\n3,4\n")
    assert list(read_csv(path, "none", None)[0].columns) == ["c0", "c1"]
    with pytest.raises(DataError, match="unknown header 'maybe'"):
        read(path, header="maybe")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\n1,2,3\n1,2\n4,5,6\n", "line 3 of .* has 2, the first has 3"),
        ("a,b,c\n1,2,3\n1,2,3,4\n", "line 3 of .* has 4"),
        ("a,b\n1,2,3\n4,5,6\n", "must have as many cells"),  # R leaves the name of row names out
        ("\n\n", "is empty"),
        ("a,a,b\n1,2,3\n", "at least 10 labelled samples"),
        ("a\n1\n2\n", "at least one more column"),
        ("a,b\n" + "z" * 200_000 + ",1\n", "field larger than field limit"),
    ],
)
def test_ragged_and_empty_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(write(tmp_path / "t.csv", text))
    assert "\n" not in str(caught.value)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match="must be UTF-8"):
        read(tmp_path / "t.csv")


def test_a_name_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'a' twice"):
        read(write(tmp_path / "t.csv", "a,a,b\n1,2,3\n"), header="yes")


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="whole Parquet file") as caught:
        read(tmp_path / "t.parquet")
    assert "\n" not in str(caught.value)
    pd.DataFrame({"a": range(30), "when": pd.date_range("2026-01-01", periods=30)}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(DataError, match="'when' holds moments in time"):
        read(tmp_path / "v.parquet")
    pd.DataFrame({"a": [[1, 2], [3, 4]], "y": [0, 1]}).to_parquet(tmp_path / "u.parquet")
    with pytest.raises(DataError, match="'a' of .* holds lists"):
        read(tmp_path / "u.parquet")


@pytest.mark.parametrize(
    ("train", "test"), [("a-train.csv", "a-test.csv"), ("a_train.csv", "a_test.csv"), ("train.csv", "test.csv")]
)
def test_a_test_file_beside_it(tmp_path: Path, train: str, test: str) -> None:
    csv(tmp_path / train)
    csv(tmp_path / test, FRAME.iloc[:7][["class", "score", "age", "job"]])  # in any order of columns
    data = read(tmp_path / train)
    assert data.test is not None
    assert data.test.y.tolist() == FRAME["class"][:7].tolist()
    assert data.test.x[:, 0].tolist() == FRAME["age"][:7].tolist()
    assert len(data.train) + len(data.validation) == N
    assert data.describe()["test_from"] == f"{test} beside it"
    assert data.name in ("a", "train")


def test_test_files_that_do_not_fit(tmp_path: Path) -> None:
    csv(tmp_path / "train.csv")
    csv(tmp_path / "test.csv", FRAME.drop(columns="class"))  # of a competition
    data = read(tmp_path / "train.csv")
    assert any("test.csv beside it has no 'class'" in note for note in data.describe()["notes"])
    assert data.describe()["test_from"].startswith("held out")
    csv(tmp_path / "test.csv", FRAME.drop(columns="age"))
    with pytest.raises(DataError, match="lacks 'age'"):
        read(tmp_path / "train.csv")


def test_without_header_in_both(tmp_path: Path) -> None:
    csv(tmp_path / "train.csv", header=False)
    csv(tmp_path / "test.csv", FRAME.iloc[:5], header=False)
    data = read(tmp_path / "train.csv")
    assert data.test is not None
    assert data.test.x[:, 0].tolist() == FRAME["age"][:5].tolist()


def test_rows_without_a_target_are_dropped(tmp_path: Path) -> None:
    frame = FRAME.astype({"class": object})
    frame.loc[[3, 9], "class"] = "?"
    data = read(csv(tmp_path / "t.csv", frame))
    assert sum(data.describe()["splits"].values()) == N - 2
    assert any("dropped 2 rows" in note for note in data.describe()["notes"])


def test_nothing_of_validation_or_test_is_learnt(tmp_path: Path) -> None:
    first = read(csv(tmp_path / "t.csv"))
    held = {
        tuple(row) for split in (first.validation, first.test) for row in (split.x[:, [0, 4]].tolist() if split else ())
    }
    frame = FRAME.copy()
    score = frame["score"].astype(np.float32).astype(float)
    rows = [i for i in range(N) if (float(frame["age"][i]), score[i]) in held]
    frame.loc[rows, "score"] = 1e6
    frame.loc[rows, "job"] = "spy"
    second = read(csv(tmp_path / "u.csv", frame))
    np.testing.assert_array_equal(second.train.x, first.train.x)
    np.testing.assert_array_equal(second.mean, first.mean)
    assert second.preprocessing["columns"] == first.preprocessing["columns"]
    assert second.validation.x[:, 1:4].sum() == 0  # unseen: zeros


def test_regression(tmp_path: Path) -> None:
    data = read(csv(tmp_path / "t.csv"), target="score")
    assert (data.task, data.outputs, data.classes) == ("regression", 1, ())
    assert data.train.y.dtype == np.float32
    assert data.target_mean == pytest.approx(data.train.y.mean(dtype=np.float64))
    assert data.target_std == pytest.approx(data.train.y.std(dtype=np.float64))
    assert set(data.describe()["target"]) == {"mean", "std", "least", "most"}


def test_series_that_stand_in_rows(tmp_path: Path) -> None:
    walks = pd.DataFrame(np.cumsum(rng.normal(size=(40, 30)), axis=1)).assign(y=np.arange(40) % 2)
    path = csv(tmp_path / "t.csv", walks)
    table = read(path)
    assert table.kind == "features"
    assert any("look like one signal" in note for note in table.describe()["notes"])
    signal = read(path, kind="signal")
    assert (signal.kind, signal.shape) == ("signal", (1, 30))
    with pytest.raises(DataError, match="column 'job' is not"):
        read(csv(tmp_path / "u.csv"), kind="signal")


@pytest.mark.parametrize("labels", [("low", "high", "none"), ("+", "-", "0"), ("low", "high", ".")])
def test_a_class_may_be_called_none_or_by_a_sign(tmp_path: Path, labels: tuple[str, ...]) -> None:
    rows = [f"{number},{labels[number % 3]}" for number in range(60)]
    (tmp_path / "data.csv").write_text("\n".join(["a,y", *rows]))
    data = read(tmp_path / "data.csv")
    assert set(data.classes) == set(labels)
    assert sum(len(part) for part in data.splits().values()) == 60
