import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.cost import Layer, convolution, free, normalisation
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.scaling.link import Link, ring_seconds
from detol.scaling.rates import KINDS, Rate
from detol.scaling.step import COMMUNICATION, INPUT, SKINNY, STARTING, sent_bytes, step
from detol.scaling.work import BUCKET, FIRST_BUCKET, Work

from .conftest import machine_of

TWO = Work("two", (convolution(100, (200,)), convolution(200, (10,))), sample_bytes=400, sample_values=100)


def test_compute_is_multiply_adds_over_the_rate(round_machine):
    # The first layer's data want no gradient: two passes; the second has three.
    found = step(TWO, round_machine, batch=64, width=1)
    assert found.compute == pytest.approx(64 * (2 * 100 * 200 + 3 * 200 * 10) / 1e9)
    assert found.seconds == found.compute


def test_what_a_layer_takes_whatever_its_size_is_computed_by_each_rank():
    # One pass of a product takes 2 s more, a norm 5 s, an activation 7 s; no width divides that.
    machine = machine_of(rates=dict.fromkeys(KINDS, Rate(1e9, start=2.0)), norm_start=5.0, free_start=7.0)
    layers = (*TWO.layers, normalisation((10,)), free((10,)))
    work = Work("three", layers, sample_bytes=400, sample_values=100)
    bare = 64 * (2 * 100 * 200 + 3 * 200 * 10) / 1e9
    assert step(work, machine, 64, 1).seconds == pytest.approx(bare + 2 * 2.0 + 3 * 2.0 + 5.0 + 7.0)
    wide = step(work, machine, 64, 4)
    assert wide.compute + wide.skinny == pytest.approx(bare / 4 + 22.0)


def test_a_width_divides_computing_and_adds_the_ring(round_machine):
    found = step(TWO, round_machine, batch=64, width=4)
    assert found.local == 16
    assert found.compute == pytest.approx(step(TWO, round_machine, 64, 1).compute / 4)
    assert found.communication == pytest.approx(ring_seconds(4 * (100 * 200 + 200 * 10), 4, Link(1e9)))
    assert found.skinny == 0


def test_skinny_products_are_what_a_thin_batch_loses():
    machine = machine_of(rates=dict.fromkeys(KINDS, Rate(1e9, rows=8)))
    whole, part = step(TWO, machine, 64, 1), step(TWO, machine, 64, 8)
    assert whole.skinny == 0
    # At 8 rows the rate is 1/2, at 64 it is 8/9.
    assert (part.compute + part.skinny) / part.compute == pytest.approx((8 / 9) / (1 / 2))


def test_the_rank_with_most_samples_sets_the_pace(round_machine):
    assert step(TWO, round_machine, batch=10, width=4).local == 3


def test_the_backward_pass_hides_communication_as_far_as_it_lasts():
    # One layer computes for long, and its small gradient is sent only when all is computed: nothing hides it.
    last = Work("last", (convolution(1000, (1000,)),), 1, 1)
    found = step(last, machine_of(overlap=1.0), 64, 2)
    assert found.communication == pytest.approx(ring_seconds(4e6, 2, Link(1e9)))
    # The gradient of a layer that is behind a long one is sent while that computes.
    wide = (convolution(1000, (1000,)), convolution(1000, (1000,)))
    behind = Work("behind", (convolution(1, (1000, 50, 50), 3), *wide), 1, 1)
    serial, hidden = (step(behind, machine_of(overlap=share), 64, 2).communication for share in (0.0, 1.0))
    assert hidden < 0.6 * serial
    assert step(behind, machine_of(overlap=0.5), 64, 2).communication == pytest.approx((serial + hidden) / 2)


def test_gradients_are_sent_in_buckets_from_the_last_layer_on():
    layers = tuple(convolution(1024, (1024,)) for _ in range(20))  # 4 MiB each
    buckets = Work("deep", layers, 1, 1).buckets
    assert [index for _, index in buckets] == [19, 12, 5, 0]  # the first closes at 1 MiB, the others at 25 MiB
    assert sum(size for size, _ in buckets) == 20 * 4 * 2**20
    assert FIRST_BUCKET < BUCKET


def test_compression_divides_what_is_sent(round_machine):
    plain, packed = (step(TWO, round_machine, 64, 4, compression=times) for times in (1, 8))
    assert packed.communication == pytest.approx(plain.communication / 8)
    assert sent_bytes(TWO, 4) == 2 * 3 / 4 * 4 * 22_000
    assert sent_bytes(TWO, 4, 8.0) == sent_bytes(TWO, 4) / 8


def test_values_starts_and_the_optimiser_take_their_time():
    layers = (convolution(3, (8, 4, 4), 3), normalisation((8, 4, 4)), free((8, 4, 4)))
    work = Work("one", layers, 1, 48)
    machine = machine_of(norm=1e-6, free=1e-7, update=1e-8, layer=1e-3, tensor=1e-4, step=1e-2, sample=1e-9)
    found = step(work, machine, 10, 1)
    product = 10 * 2 * 16 * 27 * 8 / 1e9
    assert found.compute == pytest.approx(product + 10 * 128 * (1e-6 + 1e-7))
    assert found.starting == pytest.approx(3e-3 + 3e-4 + 1e-2 + 1e-8 * (8 * 27 + 16))
    assert found.input == pytest.approx(10 * 48e-9)


def test_a_queue_hides_starts_behind_computing():
    long = step(TWO, machine_of(queued=True, layer=1e-6), 64, 1)
    short = step(TWO, machine_of(queued=True, layer=1.0), 64, 1)
    assert long.starting == 0
    assert short.seconds == pytest.approx(2.0)
    assert short.bound == STARTING


def test_several_ranks_may_start_their_work_otherwise():
    machine = machine_of(layer=1e-6, step=1e-5, layer_wide=1e-3, step_wide=1e-2, link=Link(1e30))
    assert step(TWO, machine, 64, 1).starting == pytest.approx(1e-5 + 2e-6)
    assert step(TWO, machine, 64, 2).starting == pytest.approx(1e-2 + 2e-3)
    assert step(TWO, machine_of(layer=1e-3), 64, 2).starting == pytest.approx(2e-3)


def test_prefetch_hides_reading_as_far_as_the_step_lasts():
    slow = machine_of().with_storage(1e6, prefetch=False)
    reading = 64 * 400 / 1e6
    assert step(TWO, slow, 64, 1).input == pytest.approx(reading)
    hidden = step(TWO, machine_of().with_storage(1e6), 64, 1)
    assert hidden.seconds == pytest.approx(reading)  # reading lasts longer than computing: it is all there is
    assert hidden.bound == INPUT
    assert step(TWO, machine_of().with_storage(1e9), 64, 1).input == 0
    # All ranks read from one storage: more of them do not read sooner.
    assert step(TWO, machine_of().with_storage(1e6), 64, 8).seconds == pytest.approx(reading)


def test_a_crowd_slows_computing_down():
    machine = machine_of(crowd=(1.0, 1.5))
    assert step(TWO, machine, 64, 2).compute == pytest.approx(1.5 / 2 * step(TWO, machine, 64, 1).compute)
    assert step(TWO, machine, 64, 4).compute == pytest.approx(1.5 / 4 * step(TWO, machine, 64, 1).compute)


def test_across_hosts_the_slower_link_counts():
    machine = machine_of(link=Link(1e10), across=Link(1e8), per_host=4)
    inside, outside = step(TWO, machine, 64, 4).communication, step(TWO, machine, 64, 5).communication
    assert inside == pytest.approx(ring_seconds(88_000, 4, Link(1e10)))
    assert outside == pytest.approx(ring_seconds(88_000, 5, Link(1e8)))


def test_batch_norm_needs_two_samples_of_each_rank(round_machine):
    normed = Work.of(chain(op("conv", channels=4, kernel=3)), (1, 8, 8), 3)
    plain = Work.of(chain(op("linear", features=4, norm=False)), (9,), 3)
    assert (normed.least, plain.least) == (2, 1)
    assert step(normed, round_machine, 16, 16).width == 8
    assert step(plain, round_machine, 16, 16).width == 16


@settings(deadline=None)
@given(st.integers(1, 512), st.integers(1, 64), st.floats(0, 100), st.floats(0, 1e-3), st.floats(0, 1))
def test_parts_add_up_and_are_never_negative(batch, width, half, latency, overlap):
    machine = machine_of(
        rates=dict.fromkeys(KINDS, Rate(1e9, half, half, half)), link=Link(1e8, latency), overlap=overlap, layer=1e-6
    )
    found = step(TWO, machine, batch, width)
    assert min(found.parts.values()) >= 0
    assert found.seconds == pytest.approx(sum(found.parts.values()))
    assert found.width <= batch


@settings(deadline=None)
@given(st.integers(0, 7), st.floats(0, 100), st.floats(1.0, 50.0))
def test_wider_computes_less_and_sends_no_less(power, half, compression):
    machine = machine_of(rates=dict.fromkeys(KINDS, Rate(1e9, half, half, half)), link=Link(1e8, 1e-5))
    one, two = (step(TWO, machine, 256, 2**p, compression=compression) for p in (power, power + 1))
    assert two.compute + two.skinny < one.compute + one.skinny
    assert two.communication >= one.communication
    assert step(TWO, machine, 256, 2**power).communication >= one.communication  # compressed sends no more


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 8))
def test_a_faster_machine_is_never_slower(width, times):
    slow, fast = (
        machine_of(rates=dict.fromkeys(KINDS, Rate(1e9 * by, 4, 4, 4)), link=Link(1e8 * by), overlap=1.0)
        for by in (1, times)
    )
    assert step(TWO, fast, 64, width).seconds <= step(TWO, slow, 64, width).seconds * (1 + 1e-12)


def test_what_cannot_be_is_refused(round_machine):
    for batch, width, compression in ((0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0)):
        with pytest.raises(ValueError, match=">= 1"):
            step(TWO, round_machine, batch, width, compression=compression)


def test_parts_have_the_names_of_what_bounds():
    assert {COMMUNICATION, SKINNY} < set(step(TWO, machine_of(), 1, 1).parts)
    assert Layer(0, 0, 5).product is None
