"""Small data sets whose figures are known."""

from collections.abc import Callable

import numpy as np
import pytest

from detol.workers.data.dataset import Dataset, Split
from detol.workers.data.moments import moments

Make = Callable[..., Dataset]


@pytest.fixture
def make_data() -> Make:
    def make(x: np.ndarray, y: np.ndarray, *, kind: str = "features", task: str = "classification") -> Dataset:
        x = np.asarray(x, np.float32)
        mean, std = moments(x)
        labels = np.asarray(y, np.int64 if task == "classification" else np.float32)
        classes = tuple(map(str, range(int(y.max()) + 1))) if task == "classification" else ()
        part = Split(x, labels)
        return Dataset("made", kind, task, part, part, None, classes, mean, std, digest=f"x1:{hash(x.tobytes())}")

    return make
