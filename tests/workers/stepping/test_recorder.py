import sys

import pytest
import torch

from detol.workers.stepping import choose
from detol.workers.stepping.recorder import CudaRecorder


@pytest.fixture
def recorders(monkeypatch):
    """What is made for a training that could record its step on a GPU, without one; cuDNN's flag is put back."""
    before = torch.backends.cudnn.benchmark
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: device)
    monkeypatch.setattr(sys.modules[choose.__module__], "_eager", lambda learner, wanted: "")
    monkeypatch.setattr("detol.workers.stepping.graph.Graph", lambda learner, recorder, *_, **__: recorder)

    class Recipe:
        accumulate = 1

    class Data:
        device = torch.device("cuda", 0)

    class Learner:
        recipe, data = Recipe(), Data()

    yield lambda: choose(Learner())
    torch.backends.cudnn.benchmark = before


@pytest.mark.parametrize(("way", "tries"), [("auto", False), ("graph", False), ("compiled", True)])
def test_cudnn_tries_its_kernels_only_where_set_up_may_take_long(recorders, monkeypatch, way, tries):
    monkeypatch.setenv("DETOL_STEP", way)
    torch.backends.cudnn.benchmark = not tries  # as an earlier training of the worker left it
    assert isinstance(recorders(), CudaRecorder)
    assert torch.backends.cudnn.benchmark is tries
