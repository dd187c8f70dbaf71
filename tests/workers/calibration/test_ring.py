import pytest

from detol.errors import WorkerLost
from detol.scaling.link import Link, ring_seconds
from detol.workers.calibration import ring as module
from detol.workers.calibration.reading import read_bandwidth
from detol.workers.calibration.ring import SIZES, line, ring


@pytest.mark.parametrize("ranks", [2, 5])
def test_a_line_is_found_again_from_what_it_foretells(ranks):
    link = Link(2e9, 5e-5)
    latency, bandwidth = line(SIZES, [ring_seconds(size, ranks, link) for size in SIZES], ranks)
    assert (latency, bandwidth) == pytest.approx((5e-5, 2e9), rel=1e-6)


def test_a_line_never_has_a_negative_latency():
    latency, bandwidth = line([1000, 1_000_000], [1e-6, 2e-3], 2)
    assert latency >= 0
    assert bandwidth > 0


def test_two_ranks_of_this_machine():
    found = ring("cpu", 2)
    assert found.bandwidth > 1e6
    assert 0 <= found.latency < 10
    assert found.crowd >= 1
    assert 0 <= found.overlap <= 1
    assert found.setup > 0
    assert found.agree > 0


def test_ranks_that_fail_are_one_line(monkeypatch):
    def died(*arguments, **options):
        raise RuntimeError("-- Process 1 terminated with the following error:\nTraceback\nValueError: no such device")

    monkeypatch.setattr(module, "spawn", died)
    with pytest.raises(WorkerLost, match="could not be measured: ValueError: no such device") as error:
        ring("cpu", 2)
    assert "\n" not in str(error.value)


def test_missing_nccl_is_one_line(monkeypatch):
    monkeypatch.setattr(module.dist, "is_nccl_available", lambda: False)
    with pytest.raises(WorkerLost, match="NCCL is missing"):
        ring("cuda", 2)


def test_files_are_read_at_some_speed(tmp_path):
    assert read_bandwidth(tmp_path, size=2**21) > 1e3
    assert list(tmp_path.iterdir()) == []
