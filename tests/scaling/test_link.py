import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.scaling.link import Link, ring_seconds


def test_the_ring_takes_what_its_closed_form_says():
    # 100 MB over 8 ranks at 1 GB/s: 2 * 7/8 * 0.1 s, and 14 messages of 1 ms, and the call.
    assert ring_seconds(1e8, 8, Link(1e9, 1e-3, 5e-3)) == pytest.approx(0.175 + 0.014 + 0.005)
    assert ring_seconds(1e8, 2, Link(1e9)) == pytest.approx(0.1)
    assert ring_seconds(1e8, 1, Link(1e9, 1.0, 1.0)) == 0.0


@settings(deadline=None)
@given(st.floats(1, 1e10), st.integers(2, 4096), st.floats(1e6, 1e12), st.floats(0, 1e-2))
def test_the_ring_grows_with_ranks_and_bytes_and_never_passes_twice_the_bytes(size, ranks, bandwidth, latency):
    link = Link(bandwidth, latency)
    assert ring_seconds(size, ranks, link) <= ring_seconds(size, ranks + 1, link)
    assert ring_seconds(size, ranks, link) < ring_seconds(2 * size, ranks, link)
    assert ring_seconds(size, ranks, Link(bandwidth)) < 2 * size / bandwidth


@pytest.mark.parametrize("wrong", [(0.0,), (-1.0,), (1e9, -1e-6), (1e9, 0.0, -1.0)])
def test_links_without_bandwidth_or_with_negative_times_are_refused(wrong):
    with pytest.raises(ValueError, match="bandwidth > 0"):
        Link(*wrong)
