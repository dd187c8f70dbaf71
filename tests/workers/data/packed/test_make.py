"""Packing: bounded memory, all or nothing, and what it refuses."""

import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from detol.errors import DataError
from detol.workers.data import folder, lazy, read
from detol.workers.data.packed.make import pack
from detol.workers.data.packed.writer import Writer

LABELS = np.arange(2000) % 4


def hdf5(at: Path, x: Any) -> Path:
    with h5py.File(at / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(50, *x.shape[1:]))
        file["y"] = LABELS[: len(x)]
    return at / "a.h5"


def test_samples_are_never_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 2**20)
    source = hdf5(tmp_path, np.random.default_rng(0).integers(0, 256, (2000, 3, 64, 64), dtype=np.uint8))  # 24 MB
    peaks = {}
    for name, run in (
        ("read", lambda: read(source)),
        ("packed", lambda: pack(source, tmp_path / "a.pack")),
        ("opened", lambda: read(tmp_path / "a.pack")),
    ):
        tracemalloc.start()
        try:
            run()
            peaks[name] = tracemalloc.get_traced_memory()[1] / 2**20
        finally:
            tracemalloc.stop()
    assert peaks["read"] > 24  # it can fail: this is what holding them takes
    assert peaks["packed"] < 16, peaks
    assert peaks["opened"] < 1, peaks


def test_each_source_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 10_000)
    taken: list[np.ndarray] = []
    take = lazy.Sliced.take
    monkeypatch.setattr(lazy.Sliced, "take", lambda self, rows: taken.append(rows) or take(self, rows))
    pack(hdf5(tmp_path, np.zeros((400, 1, 10, 10), np.uint8)), tmp_path / "a.pack")
    np.testing.assert_array_equal(np.concatenate(taken), np.arange(400))
    assert {len(rows) for rows in taken} == {100}  # whole chunks of 50 that fit into a block


@pytest.mark.parametrize("method", ["put", "_append", "_whole", "finish"])
def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    source = hdf5(tmp_path, np.zeros((400, 1, 10, 10), np.uint8))
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 10_000)
    calls = []
    honest = getattr(Writer, method)

    def failing(self: Writer, *arguments: Any) -> Any:
        calls.append(method)
        found = honest(self, *arguments)
        if len(calls) == (1 if method in ("put", "finish") else 2):
            (tmp_path / "a.pack").unlink(missing_ok=True)  # finish had made it
            raise OSError(28, "No space left on device")
        return found

    monkeypatch.setattr(Writer, method, failing)
    with pytest.raises(DataError, match=r"a\.pack: No space left on device; free space"):
        pack(source, tmp_path / "a.pack")
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_an_interrupted_one_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack("digits", tmp_path / "a.pack")
    known = (tmp_path / "a.pack").read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(hdf5(tmp_path, np.zeros((400, 1, 10, 10))), tmp_path / "a.pack", replace=True, progress=interrupted)
    assert (tmp_path / "a.pack").read_bytes() == known
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5", "a.pack"}
    pack("iris", tmp_path / "a.pack", replace=True)
    assert read(tmp_path / "a.pack").name == "iris"


def test_progress_counts_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 10_000)
    told: list[tuple[int, int]] = []
    source = hdf5(tmp_path, np.zeros((400, 1, 10, 10), np.uint8))
    pack(source, tmp_path / "a.pack", progress=lambda *at: told.append(at))
    assert told == sorted(told)
    assert told[-1] == (400, 400)
    assert len(told) > 4


def test_values_that_are_not_finite_are_counted_over_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).normal(size=(400, 2, 40)).astype(np.float32)
    x[10:300:7, 1, 3] = np.nan
    source = hdf5(tmp_path, x)
    with pytest.raises(DataError, match="must be finite: .* of the train split") as known:
        read(source)
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 10_000)
    with pytest.raises(DataError) as found:
        pack(source, tmp_path / "a.pack")
    assert str(found.value) == str(known.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_images_of_several_sizes_are_refused_before_any_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(24):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((8 + (number == 17), 8), np.uint8)).save(place / f"{number:02}.png")
    monkeypatch.setattr(folder, "pixels", lambda *_: pytest.fail("decoded"))
    with pytest.raises(DataError, match=r"17\.png is 9x8, .*00\.png is 8x8; scale them by --resize 8x8"):
        pack(tmp_path / "images", tmp_path / "a.pack")


@pytest.mark.parametrize(
    ("to", "options", "told"),
    [
        ("a.bin", {}, "must end in .pack"),
        ("no/a.pack", {}, "must be there: .*no is not"),
        ("old.pack", {}, "is there already; name another, or --replace it"),
        ("a.pack", {"sede": 1}, "unknown option of data 'sede': did you mean seed"),
        ("a.pack", {"copy": True}, "unknown option of data 'copy'"),
        ("a.pack", {"encoded": True}, "only a folder of images can stay encoded, digits is none"),
        ("a.pack", {"validation": 2}, "validation must be a share"),
    ],
)
def test_refused(tmp_path: Path, to: str, options: dict[str, Any], told: str) -> None:
    (tmp_path / "old.pack").touch()
    with pytest.raises(DataError, match=told):
        pack("digits", tmp_path / to, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["old.pack"]


def test_a_packed_file_is_not_packed_again(tmp_path: Path) -> None:
    pack("digits", tmp_path / "a.pack")
    with pytest.raises(DataError, match="must not be packed yet"):
        pack(tmp_path / "a.pack", tmp_path / "b.pack")


def test_deep_images_do_not_stay_encoded(tmp_path: Path) -> None:
    for number in range(24):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number * 999, np.uint16)).save(place / f"{number:02}.png")
    with pytest.raises(DataError, match="8 bits a channel"):
        pack(tmp_path / "images", tmp_path / "a.pack", encoded=True)
    assert pack(tmp_path / "images", tmp_path / "a.pack").dataset().train.x.dtype == np.float32
