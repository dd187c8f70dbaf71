import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from detol.workers.data import moments as module
from detol.workers.data.moments import moments


def test_features_as_standard_scaler_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    x = np.random.default_rng(0).normal(50, 3, (100, 4)).astype(np.float32)
    x[:, 2] = 8
    scaler = StandardScaler().fit(x.astype(np.float64))
    mean, std = moments(x)
    np.testing.assert_allclose(mean, scaler.mean_, rtol=1e-6)
    np.testing.assert_allclose(std, scaler.scale_, rtol=1e-6)
    assert std[2] == 1  # nothing varies


@pytest.mark.parametrize("shape", [(20, 3, 5, 4), (20, 2, 9)])
def test_by_channel(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    mean, std = moments(x)
    axes = (0, *range(2, x.ndim))
    assert mean.shape == std.shape == (shape[1], *[1] * (len(shape) - 2))
    np.testing.assert_allclose(mean.ravel(), x.mean(axis=axes), atol=1e-6)
    np.testing.assert_allclose(std.ravel(), x.std(axis=axes), rtol=1e-5)


def test_uint8_is_counted_exactly() -> None:
    x = np.random.default_rng(2).integers(0, 256, (30, 3, 6, 6), dtype=np.uint8)
    mean, std = moments(x)
    np.testing.assert_allclose(mean.ravel(), x.astype(np.float64).mean(axis=(0, 2, 3)), rtol=1e-7)
    np.testing.assert_allclose(std.ravel(), x.astype(np.float64).std(axis=(0, 2, 3)), rtol=1e-7)
