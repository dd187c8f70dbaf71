"""The order of an epoch's samples."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from detol.workers.data.order import epoch_order


def drawn(count: int, seed: int, block: int = 0, window: int = 16) -> np.ndarray:
    return epoch_order(count, torch.Generator().manual_seed(seed), block=block, window=window).numpy()


@given(count=st.integers(1, 400), seed=st.integers(0, 2**31), block=st.integers(0, 120), window=st.integers(1, 9))
def test_it_is_a_permutation_that_the_seed_decides(count: int, seed: int, block: int, window: int) -> None:
    order = drawn(count, seed, block, window)
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    np.testing.assert_array_equal(order, drawn(count, seed, block, window))


@given(seed=st.integers(0, 2**31), block=st.integers(5, 60), window=st.integers(1, 4))
def test_neighbours_are_wanted_within_one_window(seed: int, block: int, window: int) -> None:
    count = 1000
    places = np.argsort(drawn(count, seed, block, window))
    apart = np.abs(np.diff(places)) >= window * block
    assert apart.sum() <= count // block + 1  # those that an edge between two blocks parts
    if window * block < count // 4:
        assert (np.abs(np.diff(np.argsort(drawn(count, seed)))) >= window * block).sum() > count // 3


def test_without_blocks_it_is_that_of_torch() -> None:
    known = torch.randperm(100, generator=torch.Generator().manual_seed(7)).numpy()
    np.testing.assert_array_equal(drawn(100, 7), known)
    np.testing.assert_array_equal(drawn(100, 7, block=100), known)


def test_epochs_differ_in_blocks_and_in_what_is_in_them() -> None:
    block = 50
    one, other = drawn(1000, 1, block, 2), drawn(1000, 2, block, 2)
    assert (one != other).mean() > 0.9
    neighbours = [frozenset(order[:100].tolist()) for order in (one, other)]
    assert neighbours[0] != neighbours[1]
    # Which samples share a block changes too: the edges move.
    edges = {min(drawn(1000, seed, block, 1)[:block]) % block for seed in range(20)}
    assert len(edges) > 5


def test_every_place_in_a_window_is_as_likely() -> None:
    places = np.array([np.flatnonzero(drawn(64, seed, 8, 2) == 20)[0] for seed in range(1500)])
    counts = np.bincount(places // 16, minlength=4)
    assert counts.min() > 0.75 * counts.mean()
