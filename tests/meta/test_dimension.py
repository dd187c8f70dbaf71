"""The intrinsic dimension against what it is by construction."""

import numpy as np
import pytest

from detol.meta.dimension import Neighbours, intrinsic_dimension, neighbours


def turned(x: np.ndarray, columns: int, seed: int) -> np.ndarray:
    """Embed rows in more columns by an isometry: distances, and so dimensions, stay."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(columns, x.shape[1])))
    return (x @ basis.T + 3.0).astype(np.float32)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_cube_has_its_own_dimension_wherever_it_lies(dimension):
    x = np.random.default_rng(dimension).random((1_000, dimension))
    found = intrinsic_dimension(neighbours(turned(x, 20, 0)))
    assert found == pytest.approx(dimension, rel=0.12)


def test_a_circle_is_a_line_and_a_sphere_a_surface():
    rng = np.random.default_rng(0)
    for dimension in (1, 2):
        points = rng.normal(size=(1_000, dimension + 1))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        assert intrinsic_dimension(neighbours(turned(points, 10, 1))) == pytest.approx(dimension, rel=0.12)


def test_the_slope_is_fitted_as_the_paper_says():
    # Ratios that follow F(mu) = 1 - mu^-3 exactly, at the points of the empirical law.
    share = np.arange(1, 51) / 51
    ratios = (1 - share) ** (-1 / 3)
    found = Neighbours(np.zeros(50, np.intp), np.ones(50), ratios)
    assert intrinsic_dimension(found) == pytest.approx(3, rel=1e-9)


def test_neighbours_are_those_of_all_distances():
    x = np.random.default_rng(3).normal(size=(60, 7)).astype(np.float32)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    found = neighbours(x)
    assert (found.nearest == apart.argmin(1)).all()
    assert np.allclose(np.stack([found.first, found.second], 1), np.sort(apart, 1)[:, :2], atol=1e-5)


def test_copies_of_samples_do_not_count_and_nothing_but_copies_has_no_dimension():
    x = np.random.default_rng(4).random((400, 3)).astype(np.float32)
    doubled = intrinsic_dimension(neighbours(np.concatenate([x, x[:50]])))
    assert doubled == pytest.approx(intrinsic_dimension(neighbours(x)), rel=0.25)
    assert intrinsic_dimension(neighbours(np.ones((10, 4), np.float32))) == 0
