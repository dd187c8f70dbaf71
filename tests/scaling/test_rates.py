import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.cost import Product, convolution
from detol.scaling.rates import CONVOLUTION, DEPTHWISE, KINDS, LINEAR, POINTWISE, Rate, kind, seconds

SIZES = st.floats(1, 1e5)


def test_a_dimension_of_its_half_size_halves_the_rate():
    rate = Rate(1e12, rows=16)
    assert rate.at(16, 100, 100) == pytest.approx(0.5e12)
    assert rate.at(16e6, 100, 100) == pytest.approx(1e12, rel=1e-5)
    assert Rate(1e12, 16, 100, 100).at(16, 100, 100) == pytest.approx(1e12 / 8)


@settings(deadline=None)
@given(SIZES, SIZES, SIZES, st.floats(0, 1e3), st.floats(0, 1e3))
def test_thinner_products_take_less_time_at_a_lower_rate(rows, inner, outputs, half_rows, half_inner):
    rate = Rate(1e9, half_rows, half_inner, 3.0)
    assert rate.seconds(rows / 2, inner, outputs) < rate.seconds(rows, inner, outputs)
    assert rate.seconds(rows / 2, inner, outputs) >= rate.seconds(rows, inner, outputs) / 2 * (1 - 1e-12)
    assert rate.at(rows / 2, inner, outputs) <= rate.at(rows, inner, outputs) * (1 + 1e-12)
    assert rate.at(rows, inner, outputs) <= 1e9


def test_layers_have_the_rate_of_their_kind():
    assert kind(convolution(16, (32, 8, 8), 3).product) == CONVOLUTION
    assert kind(convolution(16, (32, 8, 8), 1).product) == POINTWISE
    assert kind(convolution(16, (16, 8, 8), 3, groups=16).product) == DEPTHWISE
    assert kind(convolution(16, (32, 8, 8), 3, groups=2).product) == CONVOLUTION  # two products, not thin ones
    assert kind(convolution(16, (10,)).product) == LINEAR


def test_products_count_the_multiply_adds_of_their_layer():
    for layer in (convolution(16, (32, 8, 8), 3), convolution(12, (24, 9), 5, groups=4), convolution(100, (10,))):
        assert layer.product.multiply_adds == layer.multiply_adds


def test_without_joining_a_batch_makes_no_convolution_thicker():
    # Keuper and Pfreundt 2016: b products of C x (c k^2) by (c k^2) x Z; of a linear layer one of b x I by I x O.
    rates = dict.fromkeys(KINDS, Rate(1e9, rows=64))
    product = Product(places=64, inner=9, outputs=8, area=9)
    one, many = (seconds(rates, product, samples, joined=False) for samples in (1, 32))
    assert many == pytest.approx(32 * one)
    assert seconds(rates, product, 32, joined=True) < many
    flat = Product(places=1, inner=100, outputs=8, flat=True)
    assert (
        seconds(rates, flat, 32, joined=False)
        == seconds(rates, flat, 32, joined=True)
        < 32 * seconds(rates, flat, 1, joined=False)
    )


def test_no_samples_take_no_time_however_long_a_product_takes_to_start():
    product = Product(places=64, inner=9, outputs=8, area=9)
    rates = dict.fromkeys(KINDS, Rate(1e9, start=1.0))
    assert seconds(rates, product, 0, joined=True) == 0
    assert seconds(rates, product, 1, joined=True) == pytest.approx(1 + 64 * 9 * 8 / 1e9)


@pytest.mark.parametrize("wrong", [(0.0,), (1e9, -1.0), (1e9, 0.0, 0.0, 0.0, -1.0)])
def test_impossible_rates_are_refused(wrong):
    with pytest.raises(ValueError, match="peak > 0"):
        Rate(*wrong)
