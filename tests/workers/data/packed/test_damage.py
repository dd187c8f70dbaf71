"""What is wrong with a packed file is told in one line, when it is opened or when it is verified."""

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from detol.errors import DataError
from detol.workers.data import read
from detol.workers.data.packed.layout import ALIGNMENT, MAGIC, PREAMBLE, preamble, read_header
from detol.workers.data.packed.make import pack
from detol.workers.data.packed.verify import verify


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    pack({"x": rng.integers(0, 256, (40, 3, 8, 8), dtype=np.uint8), "y": np.arange(40) % 2}, tmp_path / "a.pack")
    return tmp_path / "a.pack"


def refused(path: Path, *told: str) -> None:
    with pytest.raises(DataError) as caught:
        read(path)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    for part in (str(path), *told):
        assert part in line, line


def patch(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_cut_off_anywhere_it_is_refused(file: Path) -> None:
    whole, header = file.read_bytes(), read_header(file)
    edges = {0, 1, len(MAGIC), PREAMBLE.size - 1, PREAMBLE.size, ALIGNMENT, len(whole) - 1}
    for section in header.sections.values():
        edges |= {section.offset, section.offset + 1, section.offset + section.size - 1, section.offset + section.size}
    assert len(edges) > 4 * len(header.sections)
    for edge in sorted(edges):
        file.write_bytes(whole[:edge])
        refused(file, "none" if edge < len(MAGIC) else "cut off", f"{edge:,}")
    file.write_bytes(whole + b"x")
    refused(file, "longer")


def _without(body: dict[str, Any], *path: str) -> None:
    for name in path[:-1]:
        body = body[name]
    del body[path[-1]]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: _without(body, "sections"),
        lambda body: _without(body, "sections", "train.x"),
        lambda body: _without(body, "dataset", "about"),
        lambda body: body.update(sections=[]),
        lambda body: body["sections"]["train.x"].update(offset=10**12),
        lambda body: body["sections"]["train.x"].update(offset=-4096),
        lambda body: body["sections"]["train.x"].update(dtype="O"),
        lambda body: body["sections"]["train.x"].update(dtype="x"),
        lambda body: body["sections"]["train.x"].update(shape=[10**9, 10**9]),
        lambda body: body["sections"]["train.x"].update(shape=[-1]),
        lambda body: body["sections"]["train.x"].update(size=3),
    ],
)
def test_a_header_of_another_hand_with_its_right_hash(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    whole = file.read_bytes()
    offset = PREAMBLE.unpack(whole[: PREAMBLE.size])[4]
    body = json.loads(whole[offset:])
    change(body)
    text = json.dumps(body).encode()
    file.write_bytes(preamble(text, offset) + whole[PREAMBLE.size : offset] + text)
    refused(file, "must say where its arrays lie", "pack the data again")


def test_another_file_under_the_name(file: Path) -> None:
    file.write_bytes(b"PK\x03\x04 this is an archive" * 100)
    refused(file, "DETOLPCK", "PK", "detol data pack")


def test_a_later_version(file: Path) -> None:
    patch(file, len(MAGIC), struct.pack("<I", 2))
    refused(file, "up to version 1", "version 2", "update detol")


def test_a_damaged_header(file: Path) -> None:
    text = file.read_bytes()
    patch(file, text.rindex(b'"classification"') + 1, b"C")
    refused(file, "header", "hash", "damaged")


def test_a_preamble_that_points_elsewhere(file: Path) -> None:
    known = list(PREAMBLE.unpack(file.read_bytes()[: PREAMBLE.size]))
    known[4] += 8
    patch(file, 0, PREAMBLE.pack(*known))
    refused(file, "header", f"{known[5]:,} from byte {known[4]:,} on", "damaged")
    known[5] -= 8
    patch(file, 0, PREAMBLE.pack(*known))
    refused(file, "header", "hash", "damaged")


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_any_damaged_byte_of_the_preamble_is_one_line_or_changes_nothing(file: Path, flip: int) -> None:
    whole, known = file.read_bytes(), verify(file)["digest"]
    passed = set()
    for place in range(PREAMBLE.size):
        patch(file, place, bytes([whole[place] ^ flip]))
        for look in (verify, lambda path: {"digest": read(path).digest}):
            try:
                found = look(file)
            except DataError as error:
                assert len(str(error).splitlines()) == 1  # noqa: PT017  the other case is right too
                assert str(file) in str(error)  # noqa: PT017
            else:
                assert found["digest"] == known
                passed.add(place)
        patch(file, place, whole[place : place + 1])
    free = {*range(12, 16), *range(56, 64)}  # flags and padding, which say nothing
    assert passed <= free | set(range(8, 12))  # an older version is read too


@pytest.mark.parametrize("name", ["train.x", "train.y", "validation.x", "test.y", "mean", "std"])
def test_a_flipped_bit_is_found_by_verifying(file: Path, name: str) -> None:
    section = read_header(file).sections[name]
    place = section.offset + section.size - 1
    patch(file, place, bytes([file.read_bytes()[place] ^ 1]))
    assert read(file).name == "arrays"  # to open it looks at the header alone
    with pytest.raises(
        DataError, match=rf"^{name} of a packed file must have the hash {section.hash}: that of .* damaged"
    ):
        verify(file)


def test_data_that_are_not_those_of_the_digest(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detol.workers.data.packed.verify.content_digest", lambda *_: "x1:other")
    with pytest.raises(DataError, match="digest x1:.* have x1:other"):
        verify(file)


def test_a_file_that_was_replaced_while_it_is_used(file: Path) -> None:
    sent = pickle.dumps(read(file))
    pack("digits", file, replace=True)
    with pytest.raises(DataError, match="may not change while it is used"):
        pickle.loads(sent)


def test_a_file_that_is_gone(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path / "cache"))
    sent = pickle.dumps(read(file))
    file.unlink()
    with pytest.raises(DataError, match="must be visible on each node, or copied there"):
        pickle.loads(sent)


@pytest.mark.parametrize(
    ("option", "value"),
    [("seed", 1), ("validation", 0.3), ("test", 0.0), ("limit", 20), ("kind", "signal"), ("resize", "4x4")],
)
def test_options_that_would_split_it_otherwise(file: Path, option: str, value: object) -> None:
    with pytest.raises(DataError, match=f"has {option} .*, got .*; pack its source again, or leave {option} out"):
        read(file, **{option: value})  # type: ignore[arg-type]


def test_options_that_it_was_packed_with(tmp_path: Path) -> None:
    pack("digits", tmp_path / "a.pack", seed=7, limit=300)
    known = read("digits", seed=7, limit=300).digest
    assert read(tmp_path / "a.pack").digest == known
    assert read(tmp_path / "a.pack", seed=7, limit=300).digest == known


def test_copy_is_for_packed_files() -> None:
    with pytest.raises(DataError, match="copy is for packed files, digits is none"):
        read("digits", copy=True)


def test_copy_is_true_or_false(file: Path) -> None:
    with pytest.raises(DataError, match="option copy of data must be true or false, got 'maybe'"):
        read(file, copy="maybe")  # type: ignore[arg-type]


def test_a_parquet_file_that_is_damaged_within(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=500), "b": rng.normal(size=500), "y": np.arange(500) % 2}).to_parquet(
        tmp_path / "a.parquet", compression="zstd"
    )
    patch(tmp_path / "a.parquet", 4, bytes(3000))
    with pytest.raises(DataError, match=r"a\.parquet must be a whole Parquet file"):
        pack(tmp_path / "a.parquet", tmp_path / "a.pack")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
