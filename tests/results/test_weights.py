"""Weights of the best and checkpoints of what rests: each whole or not at all, and nothing else."""

import errno
import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from detol.graph.topology import chain
from detol.results import weights as module
from detol.results.weights import NoWeights, WeightsFolder, load_weights, write_whole
from detol.search.records import INHERITED, Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions


def trial(number, score=0.5, state=State.COMPLETED, epoch=3, weights=""):
    reports = tuple(Report(n, {}) for n in range(1, epoch + 1))
    candidate = Candidate(Decisions(), chain(), Origin.SAMPLE)
    return Trial(number, candidate, state, 9, reports=reports, curve=(score,) * epoch, scores=(score,), weights=weights)


def resting(number, epoch=3, score=0.5, weights=""):
    return trial(number, score, state=State.PAUSED, epoch=epoch, weights=weights)


def files(home):
    return sorted(path.relative_to(home / "weights").as_posix() for path in home.rglob("*") if path.is_file())


def kept(home):
    """Return the numbers of trials whose weights are there."""
    return [int(Path(name).name.partition("-")[0]) for name in files(home) if name.endswith(".safetensors")]


def test_the_best_keep_their_weights_and_the_others_none(tmp_path):
    folder = WeightsFolder(tmp_path, "s", kept=2)
    places = [folder.keep(trial(number, score), bytes([number])) for number, score in enumerate([0.1, 0.3, 0.2, 0.05])]
    sums = [zlib.crc32(bytes([number])) for number in range(3)]
    assert places == [*(f"weights/s/{number}-{check:08x}.safetensors" for number, check in enumerate(sums)), ""]
    assert kept(tmp_path) == [1, 2]
    assert load_weights(tmp_path, places[1]) == bytes([1])
    assert load_weights(tmp_path, places[0]) is None


def test_a_completed_trial_comes_before_one_that_was_stopped(tmp_path):
    folder = WeightsFolder(tmp_path, "s", kept=1)
    folder.keep(trial(0, 0.9, State.STOPPED), b"a")
    folder.keep(trial(1, 0.2), b"b")
    assert kept(tmp_path) == [1]


def test_a_checkpoint_comes_back_and_the_earlier_one_stays_until_it_is_dropped(tmp_path):
    folder = WeightsFolder(tmp_path, "s")
    first, second = folder.rest(resting(4, 1), b"one"), folder.rest(resting(4, 3), b"three")
    assert first != second
    assert (folder.load(first), folder.load(second)) == (b"one", b"three")
    folder.drop(first)
    folder.drop(first)
    assert folder.load(first) is None
    assert (folder.load(second), len(files(tmp_path))) == (b"three", 1)


def test_another_process_finds_what_rests_and_removes_what_nobody_names(tmp_path):
    folder = WeightsFolder(tmp_path, "s")
    known = [resting(n, weights=folder.rest(resting(n), bytes([n]))) for n in range(3)]
    folder.rest(resting(1, epoch=9), b"written, and then the controller died before its commit")
    (tmp_path / "weights/s/7.safetensors.part").write_bytes(b"half")
    done = trial(5, weights=folder.keep(trial(5), b"w"))
    folder.keep(trial(6), b"likewise")
    again = WeightsFolder(tmp_path, "s", known=(*known[:2], done))
    assert len(files(tmp_path)) == 3
    assert [again.load(each.weights) for each in known] == [bytes([0]), bytes([1]), None]
    assert load_weights(tmp_path, done.weights) == b"w"


@pytest.mark.parametrize("damage", [b"", b"on", b"onE", b"one more"])
def test_a_damaged_checkpoint_is_none(tmp_path, damage):
    folder = WeightsFolder(tmp_path, "s")
    place = folder.rest(resting(0), b"one")
    (tmp_path / place).write_bytes(damage)
    assert folder.load(place) is None


@pytest.mark.parametrize(
    "place",
    ["", "x", "../../etc/passwd", "weights/../0-1-00000000.checkpoint", "weights/s/x", "weights/s/../other/0-1-0.x"],
)
def test_foreign_places_are_neither_read_nor_removed(tmp_path, place):
    others = [tmp_path / name / "0-1-00000000.checkpoint" for name in (".", "weights/other")]
    for other in others:
        write_whole(other, b"")
    folder = WeightsFolder(tmp_path, "s")
    assert folder.load(place) is None
    folder.drop(place)
    assert all(other.exists() for other in others)


def test_what_another_search_left_is_read_and_not_removed(tmp_path):
    place = WeightsFolder(tmp_path, "other").rest(resting(0), b"one")
    folder = WeightsFolder(tmp_path, "s")
    assert folder.load(place) == b"one"
    assert folder.stay(resting(0), place) == ""
    folder.drop(place)
    assert folder.load(place) == b"one"


def test_the_checkpoints_of_those_that_came_furthest_stay_the_best_of_them(tmp_path):
    folder = WeightsFolder(tmp_path, "s", left=2)
    rested = [resting(0, 1, 0.9), resting(1, 3, 0.5), resting(2, 3, 0.6), resting(3, 1, 0.99)]
    places = [folder.rest(trial, b"%d" % trial.number) for trial in rested]
    stayed = [folder.stay(trial, place) for trial, place in zip(rested, places, strict=True)]
    assert stayed == [*places[:3], ""]
    folder.drop(places[3])  # as the fidelity does with what does not stay
    assert [folder.load(place) for place in places] == [None, b"1", b"2", None]
    ended = [
        replace(trial, state=State.STOPPED, weights="", extra={"checkpoint": place})
        for trial, place in zip(rested[:3], places, strict=False)
    ]
    again = WeightsFolder(tmp_path, "s", left=2, known=tuple(ended))  # a resume knows what was left
    assert [again.load(place) for place in places[:3]] == [None, b"1", b"2"]
    better = resting(4, 9, 0.1)
    assert again.stay(better, again.rest(better, b"4"))
    assert [again.load(place) for place in places[:3]] == [None, None, b"2"]


def test_what_inherited_does_not_push_out_what_may_answer_another_search(tmp_path):
    folder = WeightsFolder(tmp_path, "s", left=2)
    marked = replace(resting(1, 9, 0.9), extra={INHERITED: "0"})
    rested = [resting(0, 1, 0.1), marked, resting(2, 1, 0.2)]
    stayed = [folder.stay(trial, folder.rest(trial, b"%d" % trial.number)) for trial in rested]
    assert [folder.load(place) for place in stayed] == [b"0", None, b"2"]


class FullDisk:
    """Takes so many bytes, then says that no space is left, in the middle of a file."""

    def __init__(self, monkeypatch, room):
        self.room, inner = room, Path.open
        disk = self

        def opened(path, mode="r", *rest, **options):
            file = inner(path, mode, *rest, **options)
            return Limited(file, disk) if "w" in mode else file

        monkeypatch.setattr(Path, "open", opened)


class Limited:
    def __init__(self, file, disk):
        self.file, self.disk = file, disk

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        self.file.write(data[: self.disk.room])
        self.disk.room -= len(data)
        if self.disk.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self):
        self.file.flush()

    def fileno(self):
        return self.file.fileno()


def test_a_disk_that_fills_up_while_writing_leaves_nothing_half_and_warns_once(tmp_path, monkeypatch):
    lines = []
    folder = WeightsFolder(tmp_path, "s", reserve=0, warn=lines.append)
    first = folder.rest(resting(0), b"12345")
    disk = FullDisk(monkeypatch, room=7)
    second = folder.rest(resting(1), b"12345")
    assert folder.rest(resting(2), b"12345") == folder.rest(resting(3), b"12345") == ""
    assert folder.keep(trial(9), b"12345") == ""
    assert len(files(tmp_path)) == 2
    assert (folder.load(first), folder.load(second)) == (b"12345", b"12345")
    assert len(lines) == 2
    assert all("No space left on device" in line for line in lines)
    assert "trials that pause are stopped" in lines[0]
    assert "weights cannot be kept" in lines[1]
    disk.room = 100
    assert folder.load(folder.rest(resting(3), b"12345")) == b"12345"  # there is room again
    assert folder.keep(trial(9), b"12345")


def test_a_failed_write_leaves_an_earlier_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_whole(path, b"before")
    FullDisk(monkeypatch, room=3)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("total", "free", "reserve", "fits"),
    [
        (100 * 2**30, 2**30 + 10, None, True),  # 1 GiB of a large disk stay free
        (100 * 2**30, 2**30 + 4, None, False),
        (2**30, 0.05 * 2**30 + 10, None, True),  # 5 % of a small one
        (2**30, 0.05 * 2**30, None, False),
        (100 * 2**30, 10, 5, True),
        (100 * 2**30, 9, 5, False),
    ],
)
def test_below_the_watermark_nothing_is_written(tmp_path, monkeypatch, total, free, reserve, fits):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(total, total - free, free))
    lines = []
    folder = WeightsFolder(tmp_path, "s", reserve=reserve, warn=lines.append)
    assert bool(folder.rest(resting(0), b"12345")) == fits
    assert bool(folder.rest(resting(1), b"12345")) == fits
    assert bool(folder.keep(trial(2), b"12345")) == fits
    assert len(lines) == 2 * (not fits)
    assert all("stay free" in line and "\n" not in line for line in lines)


@pytest.mark.parametrize("damage", [b"", b"on", b"onE", b"one more"])
def test_damaged_weights_are_none(tmp_path, damage):
    place = WeightsFolder(tmp_path, "s").keep(trial(0), b"one")
    assert load_weights(tmp_path, place) == b"one"
    (tmp_path / place).write_bytes(damage)
    assert load_weights(tmp_path, place) is None
    (tmp_path / place).unlink()
    (tmp_path / place).mkdir()  # what cannot be read
    assert load_weights(tmp_path, place) is None


def test_weights_of_before_there_were_checksums_are_read(tmp_path):
    write_whole(tmp_path / "weights/s/3.safetensors", b"one")
    assert load_weights(tmp_path, "weights/s/3.safetensors") == b"one"
    folder = WeightsFolder(tmp_path, "s", kept=1, known=(trial(3, 0.2, weights="weights/s/3.safetensors"),))
    folder.keep(trial(4, 0.9), b"two")
    assert kept(tmp_path) == [4]


def test_a_full_disk_costs_the_new_weights_and_none_of_the_old(tmp_path, monkeypatch):
    folder = WeightsFolder(tmp_path, "s", kept=2, reserve=0)
    places = [folder.keep(trial(number, number / 10), b"12345") for number in range(2)]
    disk = FullDisk(monkeypatch, room=3)
    assert folder.keep(trial(2, 0.9), b"12345") == ""
    assert [load_weights(tmp_path, place) for place in places] == [b"12345", b"12345"]
    disk.room = 100
    assert folder.keep(trial(3, 0.8), b"12345")
    assert kept(tmp_path) == [1, 3]


@pytest.fixture
def small(monkeypatch):
    """A disk of 20 bytes, of which 5 stay free by ``reserve=5``."""

    def usage(folder):
        held = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        return shutil._ntuple_diskusage(20, held, 20 - held)

    monkeypatch.setattr(module.shutil, "disk_usage", usage)


@pytest.mark.usefixtures("small")
def test_where_there_is_no_room_what_goes_anyway_goes_first(tmp_path):
    folder = WeightsFolder(tmp_path, "s", kept=3, reserve=5)
    for number in range(3):
        assert folder.keep(trial(number, number / 10), b"12345")
    assert folder.keep(trial(3, 0.9), b"12345")  # in the place of the worst
    assert kept(tmp_path) == [1, 2, 3]
    assert folder.keep(trial(4, 0.95), b"1234567") == ""  # that of the worst is not enough: it stays
    assert kept(tmp_path) == [1, 2, 3]


@pytest.mark.usefixtures("small")
def test_where_there_is_no_room_checkpoints_that_were_left_give_way_the_worst_first(tmp_path):
    folder = WeightsFolder(tmp_path, "s", reserve=5)
    rested = [resting(number, score=score) for number, score in enumerate((0.3, 0.1, 0.2))]
    left = [folder.stay(each, folder.rest(each, b"12345")) for each in rested]
    assert folder.keep(trial(7), b"12345")
    assert [folder.load(place) for place in left] == [b"12345", None, b"12345"]
    assert folder.rest(resting(8), b"12345")
    assert [folder.load(place) for place in left] == [b"12345", None, None]


def test_a_resume_keeps_the_weights_that_an_undisturbed_search_keeps(tmp_path):
    ends = [0, 1, 2, 5, 3, 4]  # trials that pause end out of order
    for again in (False, True):
        home = tmp_path / str(again)
        folder = WeightsFolder(home, "s", kept=1, recent=3)
        known = [trial(number, 0.9 - number / 10) for number in ends]
        known = [replace(each, weights=folder.keep(each, b"w")) for each in known]
        if again:
            folder = WeightsFolder(home, "s", kept=1, recent=3, known=tuple(sorted(known, key=lambda t: t.number)))
        folder.keep(trial(6, 0.01), b"w")
        assert kept(home) == [0, 4, 5, 6]


def test_without_weights_checkpoints_are_in_memory():
    keeper = NoWeights()
    place = keeper.rest(resting(0), b"one")
    assert (keeper.keep(trial(0), b"w"), keeper.load(place)) == ("", b"one")
    assert NoWeights().load(place) is None
    keeper.drop(place)
    keeper.drop(place)
    assert keeper.load(place) is None
