"""A packed data set is the unpacked one, bit by bit, whatever it was packed from."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detol.workers.data import Dataset, read
from detol.workers.data.packed.make import pack
from detol.workers.data.packed.reference import Mapped
from detol.workers.data.packed.verify import verify

APART = {"source", "form", "packed_from"}


def assert_same(found: Dataset, known: Dataset) -> None:
    assert found.digest == known.digest
    assert (found.name, found.kind, found.task, found.classes) == (known.name, known.kind, known.task, known.classes)
    assert (found.target_mean, found.target_std) == (known.target_mean, known.target_std)
    assert json.dumps(found.preprocessing) == json.dumps(known.preprocessing)
    assert found.splits().keys() == known.splits().keys()
    pairs = [(found.mean, known.mean), (found.std, known.std)]
    for role, part in known.splits().items():
        pairs += [(found.splits()[role].x, part.x), (found.splits()[role].y, part.y)]
    for one, other in pairs:
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.usefixtures("small_blocks")
def test_packed_equals_unpacked(source: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    where, options = source
    known = read(where, **options)
    packed = pack(where, tmp_path / "data.pack", **options)
    found = read(tmp_path / "data.pack")
    assert_same(found, known)
    assert_same(packed.dataset(), known)
    assert isinstance(found.train.x, Mapped)
    assert not found.train.x.flags.writeable
    shown, meant = found.describe(), known.describe()
    assert {key: value for key, value in shown.items() if key not in APART} == {
        key: value for key, value in meant.items() if key not in APART
    }
    assert (shown["form"], shown["packed_from"]) == ("pack", meant["source"])
    assert verify(tmp_path / "data.pack")["digest"] == known.digest
    assert {path.name for path in tmp_path.iterdir()} == {"source", "data.pack"}  # nothing of the way there is left


@pytest.mark.usefixtures("small_blocks")
def test_encoded_equals_unpacked(images: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    where, options = images
    known = read(where, **options)
    pack(where, tmp_path / "data.pack", encoded=True, **options)
    found = read(tmp_path / "data.pack")
    assert_same(found, known)
    x, meant = found.train.x, known.train.x
    order = np.random.default_rng(0).permutation(len(meant))[:30]
    for key in (3, slice(2, 50, 3), order, meant[:, 0, 0, 0] > 128, (order, 0), (slice(0, 4), slice(None), 2)):
        np.testing.assert_array_equal(x[key], meant[key])
    assert x.ndim == 4
    assert x.size == meant.size
    assert verify(tmp_path / "data.pack")["decoded"] is True
    assert verify(tmp_path / "data.pack", decode=False)["decoded"] is False
    files = [path for path in Path(where).rglob("*") if path.is_file()]
    assert sum(part.x.nbytes for part in found.splits().values()) == sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("encoded", [False, True])
def test_pickled_it_is_a_path_and_a_hash(images: tuple[Any, dict[str, Any]], tmp_path: Path, encoded: bool) -> None:
    where, options = images
    pack(where, tmp_path / "data.pack", encoded=encoded, **options)
    data = read(tmp_path / "data.pack")
    sent = pickle.dumps(data.without_test(), protocol=5)
    assert data.train.x[:1].tobytes() not in sent
    assert len(sent) < 3000
    back = pickle.loads(sent)
    assert back.test is None
    assert_same(back, data.without_test())
    assert len(pickle.dumps(back, protocol=5)) == len(sent)  # and again, from a worker


def test_what_is_cut_from_it_is_pickled_as_values(tmp_path: Path) -> None:
    pack("digits", tmp_path / "data.pack")
    x = read(tmp_path / "data.pack").train.x
    cut = x[5:9]
    (tmp_path / "data.pack").rename(tmp_path / "elsewhere.pack")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(cut)), np.asarray(x)[5:9])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x * 2)), np.asarray(x) * 2)
