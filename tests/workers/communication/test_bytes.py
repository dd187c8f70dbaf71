"""The meter: closed forms of ring messages, and its facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.workers.communication import Meter


@given(st.integers(2, 64), st.integers(1, 10**9))
def test_a_ring_of_n_ranks(width: int, size: int) -> None:
    """Each rank sends n - 1 chunks of M / n in the reduce-scatter, and as many in the all-gather after it."""
    meter = Meter(width)
    meter.reduced(size)
    chunks = sum(size / width for _ in range(width - 1))
    assert meter.sent == pytest.approx(2 * chunks)
    meter.gathered(size)
    assert meter.sent == pytest.approx(2 * chunks + size * (width - 1))


def test_two_ranks_send_what_they_have() -> None:
    meter = Meter(2)
    meter.reduced(1000)
    meter.gathered(10)
    meter.steps = 4
    assert meter.facts == {"bytes_sent": 1010, "bytes_per_step": 252, "steps_exchanged": 4}


def test_facts_go_on_from_a_checkpoint() -> None:
    meter = Meter(2, 1010.0, 4)
    again = Meter(2)
    again.restore({name: repr(value) for name, value in meter.facts.items()})
    assert again.facts == meter.facts
    again.restore({})
    assert again.facts == {}
