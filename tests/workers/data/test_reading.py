import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detol.errors import DataError, UsageError
from detol.workers.data import read

GOOD = {"x": np.random.default_rng(0).normal(size=(40, 5)), "y": np.arange(40) % 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pictures"}, "unknown kind 'pictures'"),
        ({"task": "classify"}, "unknown task 'classify': did you mean classification"),
        ({"header": "first"}, "unknown header"),
        ({"validation": 0}, r"validation must be a share in \(0, 1\), got 0"),
        ({"validation": 1.5}, "validation must be a share"),
        ({"test": 1.0}, "test must be a share"),
        ({"test": -0.1}, "test must be a share"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"limit": 9}, "limit must be between 10 .* and the 32 samples that train and validate, got 9"),
        ({"limit": 33}, "limit must be between 10 .* got 33"),
        ({"validation": 0.001}, "validation split needs samples"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"target": 1.5}, "option target of data must be text or a whole number or none, got 1.5"),
        ({"resize": [8.5, 8]}, r"resize must be HEIGHTxWIDTH in pixels, such as 32x32, got \[8.5, 8\]"),
        ({"variables": {"x": 3}}, r"option variables of data must be names by role, got {'x': 3}"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(GOOD, **options)


@pytest.mark.parametrize("limit", [20, 20.0, np.int64(20), np.float32(20)])
def test_numbers_may_be_numpys_and_whole_ones_written_otherwise(limit: Any) -> None:
    data = read(GOOD, limit=limit, seed=np.int64(3), validation=np.float64(0.25))
    assert data.digest == read(GOOD, limit=20, seed=3, validation=0.25).digest
    assert len(data.train) + len(data.validation) == 20


def test_missing_files_name_near_ones(tmp_path: Path) -> None:
    (tmp_path / "letters.npz").touch()
    with pytest.raises(DataError, match=r"did you mean letters.npz\?"):
        read(tmp_path / "leters.npz")
    with pytest.raises(DataError, match=r"did you mean digits\?"):
        read("digit")
    with pytest.raises(DataError, match="give a path, or one of digits, iris"):
        read("/no/such/place/at.all")


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet", "a.h5", "a.nc"])
def test_empty_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(DataError, match="is empty"):
        read(tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.npz.gz", "a.csv.zip"])
def test_unknown_formats(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=f"told by the ending: {name!r} has none of .npz, .csv"):
        read(tmp_path / name)


def test_options_of_other_formats(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="variables are for"):
        read(tmp_path / "a.csv", variables={"x": "a"})
    with pytest.raises(DataError, match="resize is for a folder"):
        read(tmp_path / "a.csv", resize="4x4")


def test_too_few_samples() -> None:
    with pytest.raises(DataError, match="at least 10 labelled samples, got 4"):
        read({"x": np.zeros((4, 5)), "y": np.arange(4) % 2})


def test_classes_of_one_sample_train() -> None:
    data = read({"x": GOOD["x"], "y": np.array([*([0, 1] * 19), 2, 3])})
    assert {2, 3} <= set(data.train.y.tolist())
    assert any("2 classes have one sample only" in note for note in data.describe()["notes"])


def test_limit_keeps_the_shares_of_classes() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3))
    data = read({"x": x, "y": np.repeat(["a", "b"], [800, 200])}, limit=100)
    assert np.bincount([*data.train.y, *data.validation.y]).tolist() == [80, 20]
    assert len(data.validation) == 20
    given = {"x_train": x[:600], "y_train": np.arange(600) % 2, "x_val": x[600:], "y_val": np.arange(400) % 2}
    limited = read(given, limit=100, test=0)
    assert (len(limited.train), len(limited.validation), limited.test) == (60, 40, None)


def test_errors_are_one_line_for_the_command_line() -> None:
    with pytest.raises(UsageError) as caught:
        read({"x": np.full((20, 8, 8), np.nan), "y": np.arange(20) % 2})
    assert "\n" not in str(caught.value)


def test_reading_needs_neither_torch_nor_ray() -> None:
    program = (
        "import sys; from detol.workers import data; slow = {'torch', 'ray', 'mlflow', 'pandas', 'sklearn', 'h5py',"
        " 'netCDF4', 'PIL'}; assert not slow & set(sys.modules), slow & set(sys.modules); data.read('iris');"
        " assert not {'torch', 'ray', 'mlflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
