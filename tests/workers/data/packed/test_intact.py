"""A packed file is hashed once before it is used, and again when anything of it has changed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from detol.errors import DataError
from detol.workers.data import read
from detol.workers.data.packed import intact as checked
from detol.workers.data.packed import verify
from detol.workers.data.packed.intact import intact, verdict, whole
from detol.workers.data.packed.layout import Header, read_header
from detol.workers.data.packed.make import pack

HOUR = 3600 * 10**9


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that was packed an hour ago."""
    rng = np.random.default_rng(0)
    pack({"x": rng.integers(0, 256, (40, 3, 8, 8), dtype=np.uint8), "y": np.arange(40) % 2}, tmp_path / "a.pack")
    aged(tmp_path / "a.pack")
    return tmp_path / "a.pack"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were hashed, in turn."""
    found: list[Path] = []

    def counted(path: Path, header: Header) -> None:
        found.append(path)
        verify.sections(path, header)

    monkeypatch.setattr(checked, "sections", counted)
    return found


def aged(path: Path) -> None:
    when = path.stat().st_mtime_ns - HOUR
    os.utime(path, ns=(when, when))


def damage(path: Path, section: str) -> None:
    with path.open("r+b") as opened:
        opened.seek(read_header(path).sections[section].offset)
        byte = opened.read(1)
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte[0] ^ 1]))


def test_a_file_that_stays_the_same_is_hashed_once(file: Path, hashed: list[Path]) -> None:
    for _ in range(3):
        intact(read(file))
    assert hashed == [file]
    assert json.loads(verdict(file).read_text())["hash"] == read_header(file).hash


@pytest.mark.parametrize("section", ["train.x", "train.y", "validation.x", "test.y", "mean"])
def test_damage_is_refused_each_time_even_after_a_good_verdict(file: Path, section: str) -> None:
    intact(read(file))
    kept = file.stat()
    damage(file, section)
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # as a copy by rsync -a would leave it
    for _ in range(2):
        with pytest.raises(DataError, match=f"^{section} of a packed file must have the hash .* copy it or pack"):
            intact(read(file))


def test_a_file_that_was_touched_is_hashed_again(file: Path, hashed: list[Path]) -> None:
    whole(file)
    aged(file)
    whole(file)
    whole(file)
    assert hashed == [file, file]


def test_a_file_that_was_just_written_is_hashed_again(file: Path, hashed: list[Path]) -> None:
    os.utime(file)
    whole(file)
    whole(file)  # a change within the same tick of the clock would not show
    assert hashed == [file, file]


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"hash": 1}'])
def test_a_verdict_that_says_nothing_is_none(file: Path, hashed: list[Path], text: str) -> None:
    whole(file)
    verdict(file).write_text(text)
    whole(file)
    whole(file)
    assert hashed == [file, file]


def test_without_a_cache_it_is_hashed_each_time(file: Path, hashed: list[Path], cache: Path) -> None:
    cache.write_text("in the way")
    whole(file)
    whole(file)
    assert hashed == [file, file]


def test_a_copy_is_what_is_looked_at_where_it_is_read(file: Path, cache: Path) -> None:
    data = read(file, copy=True)
    (copy,) = cache.rglob("*.pack")
    damage(copy, "train.x")
    with pytest.raises(DataError, match=str(copy)):
        intact(data)


def test_a_file_that_cannot_be_read_is_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, header: Header) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checked, "sections", broken)
    with pytest.raises(DataError, match="must be readable: .*Input/output error; copy it"):
        intact(read(file))


def test_other_sources_pass(hashed: list[Path]) -> None:
    intact(read("iris"))
    assert not hashed
