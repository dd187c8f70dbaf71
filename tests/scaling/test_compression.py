import pytest

from detol.errors import UsageError
from detol.graph.cost import convolution
from detol.scaling.compression import factor
from detol.scaling.work import Work

WORK = Work("one", (convolution(1000, (2000,)),), 1, 1)


def test_factors_are_those_of_what_is_sent():
    assert factor("plain", WORK, 4) == 1
    assert factor("bf16", WORK, 4) == factor("fp16", WORK, 4) == 2
    assert factor("local_sgd:8", WORK, 4) == 8
    # Rank 2: 2 * (1000 + 2000) numbers in place of 2,000,000.
    assert factor("powersgd:2", WORK, 4) == pytest.approx(2e6 / 6e3)
    # 1 % of the values, each with an index: 3 ranks' worth of 2e4 * 8 bytes against 2 * 3/4 * 8e6.
    assert factor("topk:0.01", WORK, 4) == pytest.approx((2 * 3 / 4 * 8e6) / (3 * 2e4 * 8))


def test_sparse_gradients_lose_with_many_ranks():
    assert factor("topk:0.1", WORK, 2) > 1 > factor("topk:0.1", WORK, 64)


def test_small_layers_are_sent_whole():
    assert factor("powersgd:64", Work("w", (convolution(3, (2,)),), 1, 1), 2) == 1


def test_unknown_names_are_refused():
    with pytest.raises(UsageError, match="communication"):
        factor("gzip", WORK, 2)
