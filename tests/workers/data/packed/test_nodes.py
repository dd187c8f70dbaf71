"""Packed files on several nodes, which here are folders: read in place, or copied once to each."""

import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detol.errors import DataError
from detol.workers.data import read
from detol.workers.data.packed import nodes
from detol.workers.data.packed.make import pack
from detol.workers.data.packed.reader import opened
from detol.workers.data.packed.reference import Reference


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reference:
    monkeypatch.setattr(nodes, "PIECE", 100_000)
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path / "here"))
    return pack("digits", tmp_path / "a.pack").reference


def test_a_visible_path_is_read_in_place(reference: Reference, tmp_path: Path) -> None:
    assert nodes.place(reference) == tmp_path / "a.pack"
    assert not (tmp_path / "here").exists()


def test_a_copy_is_made_once_per_node_where_it_is_asked_for(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read("digits")
    copies = 0
    honest = nodes.pieces

    def counted(path: Path) -> Any:
        nonlocal copies
        copies += 1
        return honest(path)

    monkeypatch.setattr(nodes, "pieces", counted)
    sent = pickle.dumps(read(tmp_path / "a.pack", copy=True))
    for node in ("one", "two", "one", "two"):
        monkeypatch.setenv("DETOL_CACHE", str(tmp_path / node))
        found = pickle.loads(sent)
        assert Path(found.train.x.filename) == tmp_path / node / "packs" / f"{reference.hash}.pack"
        np.testing.assert_array_equal(found.train.x, known.train.x)
    assert copies == 3  # here, one, two
    assert {path.name for path in (tmp_path / "one" / "packs").iterdir()} <= {
        f"{reference.hash}.pack",
        f"{reference.hash}.lock",
    }


def test_workers_of_a_node_that_come_at_once_make_one_copy(reference: Reference, monkeypatch: Any) -> None:
    copies: list[Path] = []
    honest = nodes.pieces
    monkeypatch.setattr(nodes, "pieces", lambda path: [copies.append(path), *honest(path)][1:])
    wanted = replace(reference, copy=True)
    workers = [threading.Thread(target=nodes.place, args=(wanted,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    read_in = nodes.place(wanted)
    assert read_in.read_bytes() == Path(reference.path).read_bytes()


class Cluster:
    """Nodes that do not see the path: each has a cache of its own, and a call runs there."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
        self.names, self._at, self._patch = names, tmp_path, monkeypatch
        self.calls: list[tuple[str, str]] = []

    def call(self, node: str, function: Any, reference: Reference, *arguments: Any) -> Any:
        self.calls.append((node, function.__name__))
        with self._patch.context() as patch:
            patch.setenv("DETOL_CACHE", str(self._at / node))
            return function(replace(reference, path=f"/only/on/the/driver/{self._at.name}.pack"), *arguments)


def test_nodes_that_do_not_see_the_path_are_sent_the_file_once(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, ("one", "two"))
    data = read(tmp_path / "a.pack")
    assert nodes.spread(data, cluster.names, cluster.call) == 2
    for node in cluster.names:
        copy = tmp_path / node / "packs" / f"{reference.hash}.pack"
        assert copy.read_bytes() == (tmp_path / "a.pack").read_bytes()
        assert [name for at, name in cluster.calls if at == node] == ["lacks", *["receive"] * 5]
    assert nodes.spread(data, cluster.names, cluster.call) == 0  # they have it
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path / "two"))
    elsewhere = replace(reference, path="/only/on/the/driver.pack")
    assert opened(elsewhere).dataset().digest == data.digest


def test_two_searches_that_send_the_same_file_at_once_do_not_spoil_it(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path / "one"))
    elsewhere = replace(reference, path="/only/on/the/driver.pack")
    sent: list[tuple[int, bytes]] = []
    nodes.send(reference, lambda _, start, piece: sent.append((start, piece)))
    assert len(sent) > 3
    order = [*sent[:3], sent[0], *sent[3:], *sent[1:]]  # the second begins while the first is half done
    for start, piece in order:
        nodes.receive(elsewhere, start, piece)
    (copy,) = (tmp_path / "one" / "packs").iterdir()
    assert copy.read_bytes() == Path(reference.path).read_bytes()


def test_data_that_are_not_packed_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, monkeypatch, ("one",))
    assert nodes.spread(read("digits"), cluster.names, cluster.call) == 0
    assert cluster.calls == []


def test_what_is_damaged_on_its_way_is_refused(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path / "one"))
    elsewhere = replace(reference, path="/only/on/the/driver.pack")

    def spoilt(_: Reference, start: int, piece: bytes) -> None:
        nodes.receive(elsewhere, start, piece if start != 200_000 else bytes(len(piece)))

    with pytest.raises(DataError, match="must have the hash"):
        nodes.send(reference, spoilt)
    assert list((tmp_path / "one" / "packs").iterdir()) == []


def test_bytes_that_are_sent_with_a_data_set(reference: Reference, tmp_path: Path) -> None:
    data = read("digits")
    plain = data.without_test()
    held = sum(array.nbytes for part in plain.splits().values() for array in (part.x, part.y))
    assert nodes.shipped(plain) == held
    assert nodes.shipped(read(tmp_path / "a.pack")) == 0
