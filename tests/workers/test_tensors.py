import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from detol.search.stages import steps_of
from detol.workers.group import Group
from detol.workers.tensors import Rows, batches, load


@given(count=st.integers(2, 500), batch=st.integers(1, 600), width=st.integers(1, 4))
def test_batches_are_a_partition_without_tiny_ones(count, batch, width):
    order = torch.randperm(count)
    parts = list(batches(count, batch, width, order))
    assert torch.equal(torch.cat(parts), order)
    assert len(parts) == steps_of(count, batch, width)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    if count >= 2 * width:
        assert min(sizes) >= 2 * width  # what batch norm needs on each rank
    if batch >= 4 * width:
        assert max(sizes) <= batch


@given(count=st.integers(0, 100), width=st.integers(1, 7))
def test_shards_are_a_partition_in_order(count, width):
    found = []
    for rank in range(width):
        group = Group()
        group.rank, group.width = rank, width
        found += list(range(count))[group.shard(count)]
    assert found == list(range(count))


def test_read_only_arrays_are_shared_not_copied(digits):
    digits.train.x.flags.writeable = False
    try:
        data = load(digits)
    finally:
        digits.train.x.flags.writeable = True
    assert data.train.x.data_ptr() == digits.train.x.ctypes.data
    assert data.train.x.dtype == torch.from_numpy(digits.train.x).dtype


def test_standardised_training_data_have_mean_0_and_deviation_1(digits):
    data = load(digits)
    x = data.standardised(data.train.x)
    assert x.dtype == torch.float32
    assert x.mean().item() == pytest.approx(0, abs=1e-4)
    assert x.std().item() == pytest.approx(1, abs=1e-2)
    expected = (digits.train.x.astype(np.float64) - digits.mean) / digits.std
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("count", [1, 7, 100, 5_000])
def test_some_samples_are_one_of_each_equal_part_of_the_split(tensors, count):
    """Of fewer rows than asked for there are all."""
    found, rows = tensors.some(count), len(tensors.train)
    where = [int((tensors.train.x == x).flatten(1).all(1).nonzero()[0]) for x in found.x]
    most = min(count, rows)
    assert len(where) == most
    assert all(at * rows // most <= place < (at + 1) * rows // most for at, place in enumerate(where))
    assert torch.equal(found.y, tensors.train.y[where])


@pytest.mark.parametrize("order", ["sorted", "in turns"])
def test_some_samples_are_of_all_classes_however_they_are_ordered(tensors, order):
    y = torch.arange(1_000) % 10
    y = y.sort().values if order == "sorted" else y
    data = dataclasses.replace(tensors, train=Rows(torch.zeros(1_000, 1), y))
    assert torch.bincount(data.some(100).y, minlength=10).min() >= 3
