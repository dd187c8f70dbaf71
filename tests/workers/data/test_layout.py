from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine, make_classification

from detol.errors import DataError
from detol.workers.data.layout import Layout, understand

rng = np.random.default_rng(0)


def arranged(x: Any, kind: str = "auto") -> tuple[Layout, Any]:
    layout, _ = understand(x, kind)
    return layout, layout.arrange(x)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "expected", "axes"),
    [
        ((9, 28, 20), np.uint8, "auto", (1, 28, 20), "nhw"),
        ((9, 28, 28), np.float64, "auto", (1, 28, 28), "nhw"),
        ((9, 32, 30, 3), np.uint8, "auto", (3, 32, 30), "nhwc"),
        ((9, 3, 32, 30), np.uint8, "auto", (3, 32, 30), "nchw"),
        ((9, 32, 30, 1), np.float32, "auto", (1, 32, 30), "nhwc"),
        ((9, 13, 64, 64), np.float32, "auto", (13, 64, 64), "nchw"),
        ((9, 64, 64, 13), np.float32, "auto", (13, 64, 64), "nhwc"),
        ((9, 1, 800), np.float32, "auto", (1, 800), "ncl"),
        ((9, 6, 128), np.int16, "auto", (6, 128), "ncl"),
        ((9, 128, 6), np.float32, "auto", (6, 128), "nlc"),
        ((9, 6, 128), np.float32, "image", (1, 6, 128), "nhw"),
        ((9, 50), np.float32, "signal", (1, 50), "nl"),
        ((9, 784), np.uint8, "image", (1, 28, 28), "np"),
        ((9, 3072), np.uint8, "image", (3, 32, 32), "np"),
        ((9, 5), np.float64, "auto", (5,), "nf"),
        ((9, 64), np.float64, "features", (64,), "nf"),
    ],
)
def test_shapes(shape: Any, dtype: Any, kind: str, expected: tuple[int, ...], axes: str) -> None:
    x = rng.integers(0, 99, shape).astype(dtype)
    layout, out = arranged(x, kind)
    assert (layout.axes, out.shape) == (axes, (9, *expected))
    assert out.flags.c_contiguous
    assert out.dtype == (np.uint8 if dtype == np.uint8 and layout.kind == "image" else np.float32)


def test_axes_are_moved_not_reshaped() -> None:
    x = rng.integers(0, 255, (4, 8, 7, 3), dtype=np.uint8)
    assert (arranged(x)[1][2, 1] == x[2, :, :, 1]).all()
    signal = rng.normal(size=(4, 40, 2))
    np.testing.assert_array_equal(arranged(signal)[1][3, 1], signal[3, :, 1].astype(np.float32))


def test_rows_whose_neighbours_agree_are_signals() -> None:
    steps = rng.normal(size=(300, 60))
    walk = np.cumsum(steps, axis=1)
    assert understand(walk, "auto")[0].kind == "signal"
    assert "kind features overrides" in understand(walk, "auto")[1][0]
    assert understand(walk[:, rng.permutation(60)], "auto")[0].kind == "features"  # the same columns in no order
    assert understand(steps, "auto")[0].kind == "features"


def test_tables_stay_tables() -> None:
    for x in (load_breast_cancer().data, load_wine().data, make_classification(300, 40, random_state=0)[0]):
        assert understand(x, "auto")[0].kind == "features"


@pytest.mark.parametrize(
    ("x", "kind", "message"),
    [
        (np.array([["a", "b"]]), "auto", "must be numbers"),
        (np.zeros(5), "auto", r"shape \(5,\)"),
        (np.zeros((5, 2, 2, 2, 2)), "auto", "samples must be"),
        (np.zeros((5, 0)), "auto", "samples must be"),
        (np.zeros((5, 4, 4)), "features", "features must be"),
        (np.zeros((5, 3, 4, 4)), "signal", "signals must be"),
        (np.zeros((5, 50)), "image", "got 50"),
    ],
)
def test_refused(x: Any, kind: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        understand(x, kind)


def test_other_shapes_in_another_part() -> None:
    layout, _ = understand(np.zeros((5, 8, 8)), "image")
    with pytest.raises(DataError, match=r"\(8, 8\) in training, \(8, 9\) elsewhere"):
        layout.arrange(np.zeros((5, 8, 9)))
