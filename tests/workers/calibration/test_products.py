import numpy as np
import pytest
import torch

from detol.scaling.rates import CONVOLUTION, DEPTHWISE, KINDS, LINEAR, POINTWISE, Rate
from detol.workers.calibration import measure as measuring
from detol.workers.calibration.products import Timed, _layer, _shapes, fit, measure, rates

CPU = torch.device("cpu")


def made(rate, start=1e-5, noise=0.0, count=40):
    rng = np.random.default_rng(0)
    points = []
    for _ in range(count):
        rows, inner, outputs = (float(2**power) for power in rng.integers([4, 3, 3], [14, 9, 9]))
        groups = int(rng.integers(1, 3))
        seconds = start + 3 * groups * rate.seconds(rows, inner, outputs)
        points.append(Timed(rows, inner, outputs, groups, seconds * float(np.exp(noise * rng.standard_normal()))))
    return points


def test_a_rate_is_found_again_from_what_it_foretells():
    truth = Rate(4e10, rows=20.0, inner=12.0, outputs=6.0)
    found = fit(made(truth))
    assert found.peak == pytest.approx(truth.peak, rel=0.02)
    assert (found.rows, found.inner, found.outputs) == pytest.approx((20, 12, 6), rel=0.1)


def test_where_the_host_is_ahead_what_a_layer_takes_at_least_belongs_to_the_rate():
    truth = Rate(4e10, rows=20.0, inner=12.0, outputs=6.0)
    points = made(truth, start=9e-5)
    assert fit(points, started=True).start == pytest.approx(3e-5, rel=0.02)  # of each of three passes
    assert fit(points).start == 0


def test_noise_and_a_stray_moment_move_it_little():
    truth = Rate(4e10, rows=20.0, inner=12.0, outputs=6.0)
    points = made(truth, noise=0.05)
    points[3] = Timed(points[3].rows, points[3].inner, points[3].outputs, points[3].groups, 10 * points[3].seconds)
    found = fit(points)
    for shape in ((64, 64, 64), (1024, 144, 16), (4096, 576, 64)):
        assert found.seconds(*shape) == pytest.approx(truth.seconds(*shape), rel=0.12)


def test_nothing_measured_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        fit([])


@pytest.mark.parametrize("kind", KINDS)
def test_the_layers_that_are_timed_are_the_products_that_are_fitted(kind):
    samples, side, inside, outside = (8, 1, 16, 32) if kind == LINEAR else (8, 4, 16, 32)
    run, (rows, inner, outputs, groups) = _layer(kind, samples, side, inside, outside, CPU, torch.float32)
    run()
    area = {LINEAR: 1, POINTWISE: 1, CONVOLUTION: 9, DEPTHWISE: 9}[kind]
    adds = samples * side**2 * inside * area * (1 if kind == DEPTHWISE else outside)
    assert rows * inner * outputs * groups == adds
    assert (groups, inner) == ((16, 9) if kind == DEPTHWISE else (1, 16 * area))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
def test_products_are_timed_in_the_precision_that_is_asked_for(precision, monkeypatch):
    found = []
    monkeypatch.setattr(torch.autograd, "grad", lambda y, *_: found.append(y.dtype))
    for kind, side in ((LINEAR, 1), (CONVOLUTION, 4)):
        run, _ = _layer(kind, 8, side, 16, 32, CPU, precision)
        run()
    assert found == [precision, precision]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_machine_is_measured_in_the_precision_that_it_is_kept_by(precision, monkeypatch):
    class Asked(Exception):
        pass

    def asked(device, element, **_):
        raise Asked(element)

    monkeypatch.setattr(measuring, "rates", asked)
    with pytest.raises(Asked, match=f"torch.{precision}$"):
        measuring.measure("cpu", 1, precision=precision)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_the_same_each_time_and_bounded(kind):
    shapes = list(_shapes(kind, CPU, 10))
    assert shapes == list(_shapes(kind, CPU, 10))
    assert len(set(shapes)) > 5
    assert all(samples * side**2 * inside <= 3e7 for samples, side, inside, _ in shapes)


def test_what_is_measured_here_is_a_rate():
    points = measure(LINEAR, CPU, torch.float32, 4)
    assert len(points) == 4
    assert all(0 < point.seconds < 60 for point in points)
    assert set(rates(CPU, torch.float32, points=2)) == set(KINDS)
