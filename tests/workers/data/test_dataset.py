import dataclasses
import json
import pickle

import numpy as np
import pytest

from detol.workers.data import Split, read
from detol.workers.data.dataset import content_digest

rng = np.random.default_rng(0)
ARRAYS = {"x": rng.normal(size=(50, 2, 40)), "y": np.repeat([0, 1], [35, 15]), "classes": np.array(["up", "down"])}


def test_describe_is_json_and_complete() -> None:
    summary = json.loads(json.dumps(read(ARRAYS).describe()))
    assert summary["shape"] == [2, 40]
    assert summary["kind"] == "signal"
    assert summary["classes"] == {
        "up": {"train": 22, "validation": 6, "test": 7},
        "down": {"train": 10, "validation": 2, "test": 3},
    }
    assert summary["balance"] == round(10 / 22, 4)
    assert summary["bytes"] == 50 * 80 * 4 + 50 * 8
    assert summary["source"] == "arrays"
    assert summary["missing"] == 0


def test_without_test() -> None:
    data = read(ARRAYS)
    bare = data.without_test()
    assert bare.test is None
    assert data.test is not None
    assert bare.digest == data.digest
    assert "test" not in bare.splits()
    assert "test" not in bare.describe()["splits"]


def test_it_is_frozen_and_travels() -> None:
    data = read(ARRAYS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(data))
    assert again.digest == data.digest
    np.testing.assert_array_equal(again.train.x, data.train.x)


def test_the_digest_sees_values_types_shapes_and_parts() -> None:
    x, y = np.arange(6, dtype=np.float32), np.arange(6)
    digests = [
        content_digest({"train": Split(x, y)}, {}),
        content_digest({"test": Split(x, y)}, {}),
        content_digest({"train": Split(x.reshape(6, 1), y)}, {}),
        content_digest({"train": Split(x, y[::-1])}, {}),
        content_digest({"train": Split(x.view(np.int32), y)}, {}),
        content_digest({"train": Split(x, y)}, {"classes": ("a", "b")}),
    ]
    assert len(set(digests)) == len(digests)
    assert all(digest.startswith("x1:") and len(digest) == 35 for digest in digests)
    assert content_digest({"train": Split(x.copy(), y.copy())}, {}) == digests[0]


def test_how_it_was_read_is_part_of_the_digest() -> None:
    values = {"x": rng.normal(size=(60, 4)), "y": np.arange(60) % 3}
    assert read(values, task="regression").digest != read(values).digest
    assert read(values, kind="signal").digest != read(values).digest
