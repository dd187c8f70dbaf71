import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedShuffleSplit

from detol.workers.data.split import hold_out


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=120),
    share=st.floats(0, 0.95),
    seed=st.integers(0, 1000),
    stratified=st.booleans(),
)
def test_every_row_is_on_one_side(labels: list[int], share: float, seed: int, stratified: bool) -> None:
    y = np.array(labels)
    rest, held = hold_out(y, share, seed, stratified=stratified)
    assert sorted([*rest, *held]) == list(range(len(y)))
    assert (np.diff(rest) > 0).all()
    assert (np.diff(held) > 0).all()


@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=120), share=st.floats(0, 0.95))
def test_a_class_differs_from_its_share_by_less_than_one_row(labels: list[int], share: float) -> None:
    y = np.array(labels)
    rest, held = hold_out(y, share, 0, stratified=True)
    count = round(share * len(y))
    for label in np.unique(y):
        size = int((y == label).sum())
        got = int((y[held] == label).sum())
        assert (y[rest] == label).any()  # never its last member
        assert got < count * size / len(y) + 1 + 1e-9
        assert got > min(count * size / len(y), size - 1) - 1 - 1e-9


def test_as_many_of_each_class_as_scikit_learn_holds_out() -> None:
    y = np.repeat([0, 1, 2], [50, 30, 20])
    _, held = hold_out(y, 0.2, 0, stratified=True)
    _, theirs = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(y, y))
    assert np.bincount(y[held]).tolist() == np.bincount(y[theirs]).tolist() == [10, 6, 4]


@pytest.mark.parametrize("stratified", [True, False])
def test_the_seed_alone_decides(stratified: bool) -> None:
    y = np.arange(200) % 4

    def held(seed: int) -> npt.NDArray[np.int64]:
        return hold_out(y, 0.25, seed, stratified=stratified)[1]

    assert held(3).tolist() == held(3).tolist()
    assert held(3).tolist() != held(4).tolist()
    assert len(held(3)) == 50
