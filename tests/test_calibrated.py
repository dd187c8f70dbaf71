"""The calibration of this machine is made once, and again when it is asked for."""

import pytest

from detol import calibrated
from detol.errors import UsageError
from detol.scaling.machine import cache
from detol.scaling.presets import PRESETS
from detol.workers import devices
from detol.workers.calibration import measure as measuring


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calls = []

    def measure(device, ranks, **options):
        calls.append((device, ranks, options["precision"]))
        return PRESETS["fdr-titanx"]

    monkeypatch.setattr(measuring, "measure", measure)
    return calls


def test_it_is_measured_once_for_each_device_ranks_and_precision(measured):
    for _ in range(2):
        assert calibrated.machine("cpu", 2) == PRESETS["fdr-titanx"]
    assert measured == [("cpu", 2, "float32")]
    calibrated.machine("cpu", 4)
    calibrated.machine("cpu", 4, precision="bfloat16")
    calibrated.machine("cpu", 2, again=True)
    assert measured[1:] == [("cpu", 4, "float32"), ("cpu", 4, "bfloat16"), ("cpu", 2, "float32")]


def test_where_it_cannot_be_kept_it_is_used_all_the_same(measured, tmp_path):
    (tmp_path / "cache").write_text("a file where a directory should be")
    said = []
    assert calibrated.machine("cpu", 2, say=said.append) == PRESETS["fdr-titanx"]
    assert "could not be kept" in said[0]
    assert str(cache("cpu", 2)) in said[0]


def test_a_device_that_is_not_there_is_refused(measured, monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: 0)
    with pytest.raises(UsageError, match="needs an NVIDIA GPU"):
        calibrated.machine("cuda", 2)
    assert measured == []
    assert calibrated.where("auto") == "cpu"
    monkeypatch.setattr(devices, "gpus", lambda: 2)
    assert calibrated.where("auto") == "cuda"
    assert calibrated.where("cpu") == "cpu"
