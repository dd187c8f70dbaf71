"""Averaged weights: their closed form, the statistics of norms by torch, and what a training does with them."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from detol.graph.build import build
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.averaging import Average, rows
from detol.workers.data.dataset import Split
from detol.workers.evaluate import evaluate
from detol.workers.tensors import load
from detol.workers.train import Training

NETWORK = chain(op("conv", channels=4), op("dropout", rate=0.3), op("conv", channels=6, stride=2))
RECIPE = Recipe(batch_size=32, learning_rate=0.2)


@pytest.fixture(scope="module")
def digits200(digits):
    return dataclasses.replace(digits, train=Split(digits.train.x[:200], digits.train.y[:200]))


@pytest.mark.parametrize("decay", [0.5, 0.98])
def test_the_average_is_that_of_the_formula(decay):
    model = nn.Linear(2, 1, bias=False)
    average = Average(model, decay)
    expected = model.weight.detach().numpy().astype(np.float64)
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.copy_(torch.tensor([[float(step), -1.0 / step]]))
        average.update(step)
        share = min(decay, (1 + step) / (10 + step))
        expected = share * expected + (1 - share) * np.array([[step, -1 / step]])
    np.testing.assert_allclose(average.tensors()["0"].numpy(), expected, rtol=1e-5)


def test_weights_of_a_parent_are_not_forgotten_sooner_than_others():
    """After n steps in which the weights stand at 0 the first ones have the share decay^n."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average = Average(model, 0.9)
    with torch.no_grad():
        model.weight.zero_()
    for step in range(1, 6):
        average.update(step, from_parent=True)
    assert average.tensors()["0"].item() == pytest.approx(0.9**5)


def test_norms_are_set_anew_by_a_tenth_of_the_samples_within_bounds():
    assert [rows(count) for count in (1, 255, 256, 2_560, 2_570, 10_240, 10**6)] == [1, 255, 256, 256, 257, 1024, 1024]


@pytest.mark.parametrize(("count", "some", "parts"), [(200, 200, 1), (1_149, 256, 1), (2_700, 270, 2)])
def test_norms_have_the_statistics_that_torch_takes_for_averaged_weights(digits, count, some, parts):
    x, y = (np.resize(every, (count, *every.shape[1:])) for every in (digits.train.x, digits.train.y))
    data = load(dataclasses.replace(digits, train=Split(x, y)))
    network = chain(op("conv", channels=4), op("conv", channels=6, stride=2, order="pre"))
    models = [build(network, data.shape, data.outputs) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    average = Average(models[0], 0.9)
    with torch.no_grad():
        for parameter in models[0].parameters():
            parameter.add_(1.0)  # the average stays where the twin is
    samples = data.standardised(data.some(some).x)
    update_bn([samples[first::parts] for first in range(parts)], models[1])
    before = {name: tensor.clone() for name, tensor in models[0].state_dict().items()}
    with average.applied(data, RECIPE):
        for name, tensor in models[1].state_dict().items():
            torch.testing.assert_close(models[0].state_dict()[name], tensor, msg=name)
    assert all(torch.equal(tensor, before[name]) for name, tensor in models[0].state_dict().items())
    assert {module.momentum for module in models[0].modules() if isinstance(module, nn.BatchNorm2d)} == {0.1}


def test_only_what_is_measured_before_the_end_differs(digits200):
    plain, averaged = (
        [dict(report.metrics) for report in Training(NETWORK, digits200, recipe, epochs=3, seed=5).reports()]
        for recipe in (RECIPE, dataclasses.replace(RECIPE, averaging=0.9))
    )
    assert [one["train_loss"] for one in averaged] == [one["train_loss"] for one in plain]
    assert averaged[-1] == plain[-1]
    assert [one["val_loss"] for one in averaged[:-1]] != [one["val_loss"] for one in plain[:-1]]


def test_averaged_weights_are_better_than_the_moment_at_a_high_rate(digits):
    """The rate is constant, so that the weights never settle (Izmailov et al. 2018, section 3)."""
    losses = []
    for averaging in (0.0, 0.98):
        recipe = Recipe(batch_size=32, learning_rate=0.2, schedule="constant", warmup=0.0, averaging=averaging)
        *_, last = Training(NETWORK, digits, recipe, epochs=8, seed=5, until=7).reports()
        losses.append(last.metrics["val_loss"])
    assert losses[1] < losses[0]


def test_what_is_measured_does_not_hang_on_the_order_of_the_classes(digits):
    """Folders of images are read class by class: norms set anew by the first of them would know one class alone."""
    data = load(digits)
    training = Training(NETWORK, data, dataclasses.replace(RECIPE, averaging=0.9), epochs=6, seed=5, until=5)
    *_, last = training.reports()
    place = np.argsort(digits.train.y, kind="stable")
    training._data = load(dataclasses.replace(digits, train=Split(digits.train.x[place], digits.train.y[place])))
    assert training._validate(5)["val_log_loss"] == pytest.approx(last.metrics["val_log_loss"], rel=0.1)


@pytest.mark.parametrize("until", [1, 2, 0])
def test_the_weights_are_those_that_were_measured(digits200, until):
    recipe = dataclasses.replace(RECIPE, averaging=0.9)
    training = Training(NETWORK, digits200, recipe, epochs=3, seed=5, until=until)
    *_, last = training.reports()
    found = evaluate(NETWORK, training.weights(), digits200, "validation")
    assert found["val_accuracy"] == last.metrics["val_accuracy"]
    assert found["val_log_loss"] == pytest.approx(last.metrics["val_log_loss"], rel=1e-5)


def test_weights_of_another_network_are_refused():
    average = Average(nn.Linear(2, 1), 0.9)
    with pytest.raises(ValueError, match="not those of the network"):
        average.restore({"0": torch.zeros(1, 2)})


def test_an_epoch_measured_so_is_not_the_end_of_a_shorter_training():
    constant = Recipe(schedule="constant", warmup=0.0)
    assert constant.anytime
    assert not dataclasses.replace(constant, averaging=0.9).anytime
