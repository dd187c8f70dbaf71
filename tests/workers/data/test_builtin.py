import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits

from detol.workers.data import BUILTIN, read


def test_digits() -> None:
    data = read("digits")
    assert (data.kind, data.task, data.shape, data.outputs) == ("image", "classification", (1, 8, 8), 10)
    assert {name: len(split) for name, split in data.splits().items()} == {
        "train": 1150,
        "validation": 288,
        "test": 359,
    }
    images = {
        image.astype(np.float32).tobytes(): int(label)
        for image, label in zip(*load_digits(return_X_y=True), strict=True)
    }
    for split in data.splits().values():
        assert [images[image.tobytes()] for image in split.x] == split.y.tolist()
    assert data.describe()["classes"]["0"] == {"train": 113, "validation": 29, "test": 36}  # of 178


def test_the_test_split_does_not_depend_on_the_seed_or_the_limit() -> None:
    one, other, few = read("digits"), read("digits", seed=7), read("digits", seed=7, limit=200)
    assert one.test is not None
    assert other.test is not None
    assert few.test is not None
    assert one.test.x.tobytes() == other.test.x.tobytes() == few.test.x.tobytes()
    assert one.validation.x.tobytes() != other.validation.x.tobytes()
    assert len({one.digest, other.digest, few.digest}) == 3
    assert len(few.train) + len(few.validation) == 200
    assert read("digits").digest == one.digest


@pytest.mark.parametrize("name", BUILTIN)
def test_all_are_read(name: str) -> None:
    data = read(name)
    assert data.name == name
    assert data.task == ("regression" if name == "diabetes" else "classification")
    assert data.train.x.dtype == np.float32
    assert data.train.x.flags.c_contiguous


def test_diabetes_in_its_units() -> None:
    data = read("diabetes")
    assert data.outputs == 1
    assert set(data.train.y.tolist()) <= set(load_diabetes().target.tolist())
    standardised = (data.train.y - data.target_mean) / data.target_std
    assert standardised.mean() == pytest.approx(0, abs=1e-5)
    assert standardised.std() == pytest.approx(1, abs=1e-5)
