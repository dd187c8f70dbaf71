"""What a feed gives is what the resident tensor would, whatever is asked for and in whatever order."""

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from detol.errors import DataError
from detol.graph.topology import Topology
from detol.retrain import joined
from detol.search.recipe import Recipe
from detol.search_spaces import tiny
from detol.workers.data import read
from detol.workers.data.dataset import Dataset
from detol.workers.data.feed import Feed
from detol.workers.data.packed.make import pack
from detol.workers.evaluate import evaluate
from detol.workers.group import Group
from detol.workers.stepping.epoch import Epoch
from detol.workers.tensors import load
from detol.workers.train import Training

CPU = torch.device("cpu")
X = np.random.default_rng(0).integers(0, 256, (97, 3, 4, 5), dtype=np.uint8)


class Watched:
    """Samples that say which of their rows were read, and when."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.shape, self.dtype = x, x.shape, x.dtype
        self.read: list[list[int]] = []
        self.threads: set[str] = set()

    def __getitem__(self, rows: Any) -> np.ndarray:
        self.read.append(np.asarray(rows).tolist())
        self.threads.add(threading.current_thread().name.rpartition("_")[0])
        return self.x[rows]


def units(sizes: list[int]) -> list[slice]:
    edges = np.cumsum([0, *sizes]).tolist()
    return [slice(first, stop) for first, stop in pairwise(edges)]


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    first=st.integers(0, 5),
    parts=st.integers(1, 3),
    ahead=st.integers(0, 4),
)
@settings(deadline=None, max_examples=40)
def test_an_epoch_in_pieces_from_any_step_on(sizes: list[int], first: int, parts: int, ahead: int) -> None:
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
    feed = Feed(X, CPU, ahead=ahead)
    announced = units(sizes)
    feed.begin(order, announced)
    for unit in announced[first:]:
        samples = order[unit]
        for piece in samples.tensor_split(parts):
            assert torch.equal(feed.index_select(0, piece), torch.from_numpy(X)[piece])


def test_batches_are_read_ahead_once_and_by_threads() -> None:
    watched = Watched(X)
    feed = Feed(watched, CPU, ahead=2, threads=1)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
    announced = units([10] * 9)
    feed.begin(order, announced)
    assert watched.read == []  # where an epoch begins is not known before it does
    feed.index_select(0, order[announced[3]])
    feed.index_select(0, order[announced[4]])
    feed._pool.shutdown(wait=True)  # type: ignore[union-attr]
    assert watched.read == [order[unit].tolist() for unit in announced[3:8]]  # two wanted, one taken in, two ahead
    assert watched.threads == {"detol-feed"}


def test_what_was_not_announced_is_read_at_once() -> None:
    feed = Feed(X, CPU)
    order = torch.arange(len(X))
    feed.begin(order, units([10, 10]))
    for samples in (torch.tensor([3, 1, 2]), order[15:25], order[90:], order[5:5]):
        assert torch.equal(feed.index_select(0, samples), torch.from_numpy(X)[samples])
    assert torch.equal(feed[torch.tensor([4, 4])], torch.from_numpy(X)[[4, 4]])


def test_it_stands_in_for_a_tensor() -> None:
    feed = Feed(X, CPU)
    assert (len(feed), feed.shape, feed.dtype, feed.device) == (97, (97, 3, 4, 5), torch.uint8, CPU)
    assert torch.equal(torch.cat(list(torch.split(feed, 10))), torch.from_numpy(X))  # type: ignore[arg-type]
    part = feed[10:40]
    assert len(part) == 30
    assert torch.equal(torch.cat(list(part.split(7))), torch.from_numpy(X[10:40]))
    assert torch.equal(part.float(), torch.from_numpy(X[10:40]).float())
    encoded = Feed(Watched(X), CPU)[10:40]
    assert torch.equal(encoded[5:9].float(), torch.from_numpy(X[15:19]).float())


def test_what_fails_in_a_thread_is_raised_where_it_is_wanted() -> None:
    class Broken(Watched):
        def __getitem__(self, rows: Any) -> np.ndarray:
            raise DataError("each image must be readable")

    feed, order = Feed(Broken(X), CPU), torch.arange(len(X))
    feed.begin(order, units([10, 10]))
    with pytest.raises(DataError, match="readable"):
        feed.index_select(0, order[:10])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(150):
        place = at / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = (80 + 90 * (number % 2) + rng.integers(-60, 60, (8, 8, 3))).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:03}.jpg", quality=90)
    pack(at / "images", at / "plain.pack")
    pack(at / "images", at / "encoded.pack", encoded=True)
    return at


def curve(
    data: Dataset, *, resident: bool | None, device: str = "cpu", accumulate: int = 1, averaging: float = 0.0
) -> tuple[list[Any], dict[str, float]]:
    topology: Topology = tiny.SPACE.decode(tiny.SPACE.sample(np.random.default_rng(0)))
    recipe = Recipe(batch_size=32, augment="flip,crop", accumulate=accumulate, averaging=averaging)
    tensors = load(data, device, resident=resident)
    training = Training(topology, tensors, recipe, epochs=2, seed=3, device=device)
    reports = [report.metrics for report in training.reports()]
    return reports, evaluate(topology, training.weights(), tensors)


def test_training_from_a_feed_is_training_from_memory(pictures: Path) -> None:
    known = curve(read(pictures / "images"), resident=True)
    assert curve(read(pictures / "plain.pack"), resident=None) == known  # indexed where it is mapped
    assert curve(read(pictures / "plain.pack"), resident=False) == known
    assert curve(read(pictures / "encoded.pack"), resident=True) == known
    assert curve(read(pictures / "encoded.pack"), resident=False) == known


def test_batches_in_parts_come_from_a_feed_too(pictures: Path) -> None:
    known = curve(read(pictures / "images"), resident=True, accumulate=3)
    assert curve(read(pictures / "plain.pack"), resident=False, accumulate=3) == known
    assert known != curve(read(pictures / "images"), resident=True)


def test_averaged_weights_are_measured_alike_from_a_feed(pictures: Path) -> None:
    known = curve(read(pictures / "images"), resident=True, averaging=0.9)
    assert curve(read(pictures / "plain.pack"), resident=False, averaging=0.9) == known
    assert curve(read(pictures / "encoded.pack"), resident=False, averaging=0.9) == known
    assert known != curve(read(pictures / "images"), resident=True)


def test_training_and_validation_samples_together_stay_in_the_file(pictures: Path) -> None:
    known = joined(read(pictures / "images"))
    for name in ("plain.pack", "encoded.pack"):
        found = joined(read(pictures / name))
        assert not isinstance(found.train.x, np.ndarray)
        assert (found.train.x.shape, found.train.x.ndim) == (known.train.x.shape, 4)
        np.testing.assert_array_equal(found.train.x, known.train.x)
        np.testing.assert_array_equal(found.train.y, known.train.y)
        rows = np.random.default_rng(0).permutation(len(known.train))[:40]
        for key in (rows, slice(90, 110), 100, rows[:0]):
            np.testing.assert_array_equal(found.train.x[key], known.train.x[key])
        for resident in (True, False):
            assert curve(found, resident=resident) == curve(known, resident=True)


class Rank(Group):
    """One of some ranks, that only knows its shard."""

    def __init__(self, rank: int, width: int) -> None:
        self.rank, self.width = rank, width


@pytest.mark.parametrize("width", [1, 2, 3])
def test_what_a_rank_announces_is_what_it_takes(width: int) -> None:
    epoch = Epoch(1, torch.randperm(97), None, (0.1,) * 7)
    taken = []
    for rank in range(width):
        group = Rank(rank, width)
        units = epoch.shards(group)
        assert len(units) == 7
        for batch, unit in zip(epoch.batches(), units, strict=True):
            assert torch.equal(batch.samples[group.shard(len(batch))], epoch.order[unit])
        taken += [epoch.order[unit] for unit in units]
    assert torch.equal(torch.cat(taken).sort().values, torch.arange(97))


def test_which_samples_stay_on_the_host(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fed(path: Path, **options: Any) -> list[bool]:
        tensors = load(read(path, **options))
        return [isinstance(rows.x, Feed) for rows in (tensors.train, tensors.validation)]

    assert fed(pictures / "plain.pack") == [False, False]
    assert fed(pictures / "plain.pack", shuffle="blocks") == [True, True]
    assert fed(pictures / "encoded.pack") == [False, False]
    split = read(pictures / "encoded.pack")
    size = split.train.x.size
    monkeypatch.setattr("detol.workers.tensors.memory", lambda *_: 4 / 0.4 * (size - 1))
    assert fed(pictures / "encoded.pack") == [True, False]


def test_a_file_larger_than_memory_is_shuffled_by_blocks(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pictures / "plain.pack"
    assert read(path).block == 0
    assert load(read(path)).block == 0
    monkeypatch.setattr("detol.workers.data.packed.reader.memory", lambda *_: 2.0 * path.stat().st_size - 1)
    data = read(path)
    assert data.block == len(data.train)  # 8 MiB hold all of these
    assert "blocks" in data.describe()["notes"][-1]
    assert data.digest == read(pictures / "images").digest
    assert read(path, shuffle="whole").block == 0
    monkeypatch.setattr("detol.workers.data.packed.reader.BLOCK_BYTES", 10 * 192)
    data = read(path)
    assert (data.block, load(data).block) == (10, 10)
    orders: list[torch.Tensor] = []
    drawn = Epoch.drawn
    monkeypatch.setattr(Epoch, "drawn", lambda *a, **k: orders.append(drawn(*a, **k).order) or drawn(*a, **k))
    curve(data, resident=None)
    assert len(orders) == 2
    known = curve(read(pictures / "images"), resident=True)
    assert curve(data, resident=True) != known  # another order of the same samples
    with pytest.raises(DataError, match="unknown shuffle 'block': did you mean blocks"):
        read(path, shuffle="block")
    with pytest.raises(DataError, match="shuffle is for packed files"):
        read(pictures / "images", shuffle="whole")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["plain.pack", "encoded.pack"])
def test_a_device_is_fed_what_it_would_hold(pictures: Path, name: str) -> None:
    x = load(read(pictures / "images"), "cuda").train.x
    fed = load(read(pictures / name), "cuda", resident=False).train.x
    order = torch.randperm(len(x), device="cuda")
    fed.begin(order, units([16] * 5))  # type: ignore[attr-defined]
    for unit in units([16] * 5):
        assert torch.equal(fed.index_select(0, order[unit]), x[order[unit]])
