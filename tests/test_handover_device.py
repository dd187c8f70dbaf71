"""The winner is tested where it was trained, if that is here and has room."""

from types import SimpleNamespace

import pytest

from detol import handover
from detol.errors import OutOfMemory
from detol.workers import devices, evaluate


@pytest.fixture
def asked(monkeypatch):
    """Returns the devices on which a test was asked for; a GPU has no room."""
    found = []

    def answer(topology, weights, dataset, split, *, device="cpu"):
        found.append(device)
        if device == "cuda":
            raise OutOfMemory("full")
        return {"test_accuracy": 0.5}

    monkeypatch.setattr(evaluate, "evaluate", answer)
    return found


@pytest.mark.parametrize(
    ("trained", "gpus", "expected"), [("cpu", 1, ["cpu"]), ("cuda", 0, ["cpu"]), ("cuda", 1, ["cuda", "cpu"])]
)
def test_where_a_winner_is_tested(asked, monkeypatch, trained, gpus, expected):
    monkeypatch.setattr(devices, "gpus", lambda: gpus)
    trial = SimpleNamespace(extra={"device": trained}, candidate=SimpleNamespace(topology=None))
    assert handover.test_of(trial, b"", None) == {"test_accuracy": 0.5}
    assert asked == expected
