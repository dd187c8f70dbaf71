"""Data at the command line: what is refused with one line and nothing written, and what goes through to the export."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

QUICK = ["--space", "tiny", "--trials", "3", "--epochs", "2", "--stop", "none"]
QUICK += ["--executor", "inline", "--tracking", "off"]
Call = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("own_directory")


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(call: Call, folder: Path, *arguments: object) -> str:
    """Check that a command ends with 2, one line, no output and nothing written; return the line."""
    before = tree(folder)
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert err.startswith("detol: ")
    assert tree(folder) == before
    return err


def pictures(folder: Path, *, size: tuple[int, int] = (8, 8), count: int = 12) -> Path:
    """Write a folder of grey images in two classes, one dark and one bright."""
    rng = np.random.default_rng(0)
    for name, level in (("dark", 40), ("bright", 200)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = (level + rng.integers(-30, 30, size)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def one_class(folder: Path) -> Path:
    np.savez(folder / "data.npz", x=np.random.default_rng(0).normal(size=(40, 5)), y=np.zeros(40, int))
    return folder / "data.npz"


def holes(folder: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(40, 1, 8, 8)).astype(np.float32)
    x[7, 0, 3, 3] = np.nan
    np.savez(folder / "data.npz", x=x, y=np.arange(40) % 2)
    return folder / "data.npz"


def mismatched(folder: Path) -> Path:
    np.savez(folder / "data.npz", x=np.zeros((40, 5)), y=np.arange(39) % 2)
    return folder / "data.npz"


def ragged(folder: Path) -> Path:
    pictures(folder / "images")
    Image.fromarray(np.zeros((9, 7), np.uint8)).save(folder / "images" / "dark" / "odd.png")
    return folder / "images"


def unreadable(folder: Path) -> Path:
    pictures(folder / "images")
    (folder / "images" / "bright" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    return folder / "images"


def single_folder(folder: Path) -> Path:
    pictures(folder / "images")
    (folder / "images" / "dark").rename(folder / "elsewhere")
    return folder / "images"


BAD = [
    (one_class, ("two classes", "all of 'y' are '0'")),
    (single_folder, ("class", "bright")),
    (holes, ("NaN", "1 of")),
    (mismatched, ("40", "39")),
    (ragged, ("one size", "odd.png", "9x7", "--resize 8x8")),
    (unreadable, ("readable", "broken.png")),
]


@pytest.mark.parametrize("command", ["search", "describe"])
@pytest.mark.parametrize(("make", "told"), BAD, ids=lambda part: getattr(part, "__name__", ""))
def test_bad_data_are_one_line_and_nothing_is_written(
    call: Call, tmp_path: Path, command: str, make: Callable[[Path], Path], told: tuple[str, ...]
) -> None:
    path = make(tmp_path)
    arguments = ["search", "--data", path, *QUICK] if command == "search" else ["data", "describe", path]
    line = refused(call, tmp_path, *arguments)
    for part in told:
        assert part in line


@pytest.mark.parametrize("command", ["search", "describe", "pack", "plan"])
@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("limit=abc", "option limit of data must be a whole number or none, got 'abc'"),
        ("limit=100.5", "option limit of data must be a whole number or none, got 100.5"),
        ("limit=true", "option limit of data must be a whole number or none, got True"),
        ("validation=abc", "option validation of data must be a number, got 'abc'"),
        ("validation=NaN", "validation must be a share in (0, 1), got nan"),
        ("test=[]", "option test of data must be a number, got []"),
        ("seed=abc", "option seed of data must be a whole number, got 'abc'"),
        ("seed=-1", "seed must be at least 0, got -1"),
        ("kind=3", "option kind of data must be text, got 3"),
        ("header=1", "option header of data must be text, got 1"),
        ("task=null", "option task of data must be text, got None"),
        ("variables=x", "option variables of data must be names by role, got 'x'"),
        ("resize=3", "resize must be HEIGHTxWIDTH in pixels, such as 32x32, got 3"),
    ],
)
def test_options_of_another_type_are_one_line(call: Call, tmp_path: Path, command: str, option: str, told: str) -> None:
    arguments = {
        "search": ["search", "--data", "iris", *QUICK],
        "describe": ["data", "describe", "iris"],
        "pack": ["data", "pack", "iris", "--to", "iris.pack"],
        "plan": ["plan", "--data", "iris", "--machine", "guess-cpu"],
    }[command]
    assert told in refused(call, tmp_path, *arguments, "--set", f"data.{option}")


@pytest.mark.parametrize("option", ["variables=x", "seed=abc", "limit=100.5", "shuffle=3", "copy=maybe"])
def test_options_of_another_type_for_a_packed_file(call: Call, tmp_path: Path, option: str) -> None:
    assert call("data", "pack", "iris", "--to", "iris.pack")[0] == 0
    told = f"option {option.partition('=')[0]} of data must be"
    assert told in refused(call, tmp_path, "data", "describe", "iris.pack", "--set", f"data.{option}")


@pytest.mark.parametrize("command", ["describe", "pack"])
def test_targets_that_training_cannot_hold(call: Call, tmp_path: Path, command: str) -> None:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(40, 5)), y=np.arange(40) * 1e38)
    arguments = [command, "data.npz", *(["--to", "a.pack"] if command == "pack" else [])]
    line = refused(call, tmp_path, "data", *arguments)
    assert "at most 3.4e+38 in size: 'y' is 4e+38 in row 4 (from 0) of the train part, the first of 36" in line


def test_ranks_with_less_than_two_samples_each(call: Call, tmp_path: Path) -> None:
    six = ["--data", "iris", "--set", "data.limit=10", "--set", "data.validation=0.4"]
    ranks = ["--space", "tiny", "--tracking", "off", "--workers", "4", "--ranks", "4"]
    line = refused(call, tmp_path, "search", *six, *ranks)
    assert "--ranks must be at most half of the training samples, 2 for each rank, got 4 for 6: --ranks 3" in line


def test_ragged_images_are_scaled_where_that_is_asked_for(call: Call, tmp_path: Path) -> None:
    path = ragged(tmp_path)
    code, out, _ = call("data", "describe", path, "--resize", "8x8", "--json")
    assert code == 0
    assert json.loads(out)["shape"] == [1, 8, 8]


def test_a_file_where_the_runs_belong(call: Call, tmp_path: Path) -> None:
    (tmp_path / "detol-runs").write_text("not a directory")
    assert "detol-runs" in refused(call, tmp_path, "search", "--data", "digits", *QUICK)
    assert (tmp_path / "detol-runs").read_text() == "not a directory"


def test_a_file_where_the_directory_of_the_database_belongs(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    place = tmp_path / "file" / "results.db"
    assert str(place) in refused(call, tmp_path, "search", "--data", "digits", *QUICK, "--db", place)


def test_a_directory_that_cannot_be_written(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    try:
        if os.access(locked, os.W_OK):
            pytest.skip("this user (root?) may write into a directory of mode 555")
        monkeypatch.chdir(locked)
        assert "detol-runs" in refused(call, locked, "search", "--data", "digits", *QUICK)
    finally:
        locked.chmod(0o755)


def test_a_regression_from_search_to_export(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("search", "--data", "diabetes", *QUICK, "--name", "sugar", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["trained"] == 3
    assert summary["test"].keys() == {"test_r2", "test_mse"}
    (best, *others) = json.loads(call("results", "top", "--json")[1])
    assert (best["metric"], best["value"]) == (summary["objective"].partition(":")[0], summary["best"]["score"])
    assert all(row["value"] <= best["value"] for row in others)
    assert call("export", "sugar", "--to", tmp_path / "out")[0] == 0
    manifest = json.loads((tmp_path / "out" / "certificate.json").read_text())
    compared = manifest["score"]
    assert (compared["metric"], compared["samples"]) == ("val_mse", 71)
    assert compared["recomputed"] == pytest.approx(manifest["metrics"]["val_mse"], rel=1e-5)


def test_a_table_with_categories_and_missing_values_from_search_to_export(call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(200):
        colour, weight = rng.choice(["red", "green", "blue"]), rng.normal(10, 3)
        kind = "heavy, red" if colour == "red" and weight > 9 else "other"
        shown = "" if number % 11 == 0 else f"{weight:.3f}"
        rows.append([shown, "?" if number % 13 == 0 else colour, rng.integers(0, 5), kind])
    with (tmp_path / "things.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["weight", "colour", "pieces", "kind"], *rows])
    code, out, _ = call("data", "describe", "things.csv", "--target", "kind", "--json")
    described = json.loads(out)
    assert code == 0
    assert described["missing"] == sum(row[0] == "" for row in rows) + sum(row[1] == "?" for row in rows)
    types = {column["name"]: column["type"] for column in described["columns"]}
    assert types == {"weight": "number", "colour": "category", "pieces": "number"}

    code, out, _ = call("search", "--data", "things.csv", "--target", "kind", *QUICK, "--name", "things", "--json")
    summary = json.loads(out)
    assert code == 0
    assert (summary["trained"], summary["failed"]) == (3, 0)
    assert 0 < summary["test"]["test_accuracy"] <= 1
    code, out, _ = call("export", "things", "--to", tmp_path / "out", "--json")
    manifest = json.loads(out)
    assert code == 0
    assert manifest["data"]["classes"] == ["heavy, red", "other"]
    assert manifest["score"]["recorded"] == manifest["metrics"]["val_accuracy"]
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"x": np.zeros((3, *described["shape"]), np.float32)})
    assert logits.shape == (3, 2)
    kept = json.loads((tmp_path / "out" / "preprocessing.json").read_text())
    assert "colour" in json.dumps(kept)  # what turns a row of the table into numbers goes with the network


def test_a_folder_of_images_from_search_to_results(call: Call, tmp_path: Path) -> None:
    path = pictures(tmp_path / "images", count=20)
    code, out, _ = call("search", "--data", path, *QUICK, "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["name"].startswith("images")
    assert summary["best"]["score"] == 1.0  # dark against bright: any network that learns tells them apart


def test_a_search_says_how_its_data_were_read(call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        [f"{value:.3f}", f"{1000 + 9 * n:,}", ["low", "high", "NA"][n % 3]] for n, value in enumerate(rng.random(60))
    ]
    with (tmp_path / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "kind"], *rows])
    code, out, err = call("search", "--data", tmp_path / "data.csv", *QUICK[2:], "--space", "tabular", "--json")
    assert code == 0
    assert json.loads(out)["trials"] == 3
    assert "data: column 'b' read as numbers: commas group thousands" in err
    assert "data: dropped 20 rows without a label from the train part (missing: 'NA')" in err
