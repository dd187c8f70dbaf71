import pytest
import torch

from detol.workers.data import read
from detol.workers.tensors import load


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits():
    return read("digits")


@pytest.fixture(scope="session")
def tensors(digits):
    return load(digits)
