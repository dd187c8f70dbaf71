import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from detol.errors import DataError
from detol.workers.data import read
from detol.workers.data.preprocessing import apply

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": [*range(20, 58), "?", "NA"],
        "id": [f"n{number}" for number in range(40)],
        "job": ["clerk", "nurse", "cook", "?"] * 10,
        "time": 1.7e9 + np.arange(40),
        "y": [0, 1] * 20,
    }
)


def test_raw_rows_become_what_the_data_set_holds(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    data = read(tmp_path / "t.csv")
    record = json.loads(json.dumps(data.preprocessing))
    raw = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False).drop(columns="y")
    everything = apply(record, raw)
    stored = np.concatenate([split.x for split in data.splits().values()])
    assert sorted(map(tuple, everything.tolist())) == sorted(map(tuple, stored.tolist()))
    forms = [
        FRAME.drop(columns="y"),
        raw.to_dict("records"),
        raw.to_dict("list"),
        raw.to_numpy(dtype=object),
        raw[["time", "job", "age"]],  # by name, and without the column that says nothing
    ]
    for rows in forms:
        np.testing.assert_array_equal(apply(record, rows), everything)
    np.testing.assert_allclose(
        apply(record, raw, standardise=True), (everything - data.mean) / data.std, rtol=1e-5, atol=1e-6
    )
    with pytest.raises(DataError, match=r"must be \(n, 4\), in the order age, id, job, time; got \(40, 3\)"):
        apply(record, np.zeros((40, 3)))
    with pytest.raises(DataError, match="needs the column 'job'"):
        apply(record, raw.drop(columns="job"))


@pytest.mark.parametrize(
    ("shape", "kind", "dtype"),
    [
        ((20, 8, 7), "image", np.uint8),
        ((20, 8, 7, 3), "image", np.uint8),
        ((20, 30), "signal", np.float32),
        ((20, 64), "image", np.float32),
        ((20, 2, 30), "signal", np.float64),
        ((20, 5), "features", np.float64),
    ],
)
def test_arrays_in_their_layout_or_channels_first(shape: tuple[int, ...], kind: str, dtype: type) -> None:
    x: Any = rng.integers(0, 200, shape).astype(dtype)
    data = read({"x": x, "y": np.arange(20) % 2}, kind=kind, test=0)
    done = apply(data.preprocessing, x)
    assert done.shape == (20, *data.shape)
    assert done.dtype == data.train.x.dtype
    stored = {sample.tobytes() for split in data.splits().values() for sample in split.x}
    assert {sample.tobytes() for sample in done} == stored
    np.testing.assert_array_equal(apply(data.preprocessing, done), done)
    standard = apply(data.preprocessing, data.train.x, standardise=True)
    axes = (0, *range(2, standard.ndim))
    np.testing.assert_allclose(standard.mean(axis=axes), 0, atol=1e-5)
    np.testing.assert_allclose(standard.std(axis=axes), 1, rtol=1e-5)


def test_other_shapes_and_versions_are_refused() -> None:
    data = read({"x": rng.normal(size=(20, 2, 30)), "y": np.arange(20) % 2})
    with pytest.raises(DataError, match="samples need one shape"):
        apply(data.preprocessing, np.zeros((3, 2, 31)))
    with pytest.raises(DataError, match="version 1, got 9"):
        apply({**data.preprocessing, "version": 9}, np.zeros((3, 2, 30)))
