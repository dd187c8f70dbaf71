"""Which pages of a packed file the operating system is told of, before rows of it are read."""

import mmap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.workers.data import read
from detol.workers.data.packed.make import pack
from detol.workers.data.packed.reference import GAP, Mapped, stretches


@given(
    rows=st.sets(st.integers(0, 5000), min_size=1, max_size=60),
    size=st.integers(1, 20_000),
    offset=st.integers(0, 3) | st.just(4096),
)
def test_stretches_hold_all_rows_and_little_else(rows: set[int], size: int, offset: int) -> None:
    ordered = np.array(sorted(rows))
    found = stretches(ordered, size, offset)
    for row in ordered.tolist():
        first, last = offset + row * size, offset + (row + 1) * size - 1
        assert any(start * mmap.PAGESIZE <= first and last < stop * mmap.PAGESIZE for start, stop in found)
    for (_, stop), (start, _) in pairwise(found):
        assert start > stop + GAP
    needed = len(ordered) * (size // mmap.PAGESIZE + 2)
    assert sum(stop - start for start, stop in found) <= needed + GAP * len(ordered)


def test_neighbours_are_one_stretch() -> None:
    assert stretches(np.arange(100, 200), 3000, 0) == [(300_000 // 4096, 599_999 // 4096 + 1)]
    assert len(stretches(np.array([0, 1000]), 3000, 0)) == 2


def test_a_map_is_told_of_rows_and_what_is_cut_from_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (400, 3, 20, 50), dtype=np.uint8)
    pack({"x": x, "y": np.arange(400) % 2}, tmp_path / "a.pack")
    mapped = read(tmp_path / "a.pack").train.x
    assert isinstance(mapped, Mapped)
    assert isinstance(mapped.base, mmap.mmap)  # what is advised
    asked = []
    monkeypatch.setattr(
        "detol.workers.data.packed.reference.stretches",
        lambda *arguments: asked.append(arguments[1:]) or stretches(*arguments),
    )
    mapped.will_need(np.array([1, 2, 250]))
    mapped.will_need(np.array([], np.int64))
    mapped[5:].will_need(np.array([1]))
    assert asked == [(3000, 0)]
