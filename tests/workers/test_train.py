import dataclasses
import math

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle

from detol.errors import DataError, Diverged, OutOfMemory, TimedOut, UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers import train as module
from detol.workers.checkpoint import CheckpointError, facts, pack, unpack
from detol.workers.data.dataset import Dataset, Split
from detol.workers.evaluate import evaluate, predict
from detol.workers.tensors import load
from detol.workers.train import Training, train

SMALL = chain(op("conv", channels=8), op("conv", channels=16, stride=2))
MLP = chain(op("linear", features=32), op("dropout", rate=0.2), op("linear", features=16))


def curve(topology, data, recipe=Recipe(), **options):  # noqa: B008  frozen
    settings = {"epochs": 2, "seed": 3, **options}
    return [dict(report.metrics) for report in train(topology, data, recipe, **settings)]


@pytest.fixture(scope="module")
def quadratic():
    """Returns a regression whose targets are far from zero: y = 1000 + 50 * (a line and a bend of 4 features)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4)).astype(np.float32)
    y = (1000 + 50 * (x @ np.array([1, -2, 0.5, 0]) + x[:, 3] ** 2)).astype(np.float32)
    parts = [Split(x[a:b], y[a:b]) for a, b in ((0, 400), (400, 500), (500, 600))]
    train_y = y[:400].astype(np.float64)
    return Dataset(
        "quadratic", "features", "regression", *parts, classes=(), mean=x[:400].mean(0), std=x[:400].std(0),
        digest="x1:0", target_mean=float(train_y.mean()), target_std=float(train_y.std()),
    )  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "optimiser": "adamw",
            "learning_rate": 3e-3,
            "augment": "flip,crop",
            "label_smoothing": 0.1,
            "batch_size": 100,
        },
        {"precision": "bfloat16", "schedule": "one_cycle"},
    ],
)
def test_the_same_trial_has_the_same_curve_to_the_bit(digits, settings):
    recipe = Recipe(**settings)
    first = curve(SMALL, digits, recipe)
    torch.rand(7)  # another position of the global generator
    assert curve(SMALL, digits, recipe) == first
    assert curve(SMALL, digits, recipe, seed=4) != first


def test_dropout_is_seeded_and_the_global_generator_left_alone(quadratic):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = curve(MLP, quadratic)
    assert torch.equal(torch.rand(3), expected)
    assert curve(MLP, quadratic) == first


def test_digits_are_learnt(digits):
    last = curve(chain(op("conv", channels=8), op("flatten")), digits, epochs=4)[-1]
    assert last["val_accuracy"] > 0.9
    assert set(last) == {"train_loss", "val_loss", "val_accuracy", "val_balanced_accuracy", "val_log_loss"}


def test_label_smoothing_is_in_the_loss_and_not_in_the_log_loss(digits):
    training = Training(SMALL, digits, Recipe(label_smoothing=0.25), epochs=1, seed=3)
    (report,) = training.reports()
    logs = np.log(predict(SMALL, training.weights(), digits, "validation").astype(float))
    log_loss = -logs[np.arange(len(logs)), digits.validation.y].mean()
    assert report.metrics["val_log_loss"] == pytest.approx(log_loss, rel=1e-4)
    # Szegedy et al. 2016, arXiv 1512.00567, section 7: a quarter of the weight is spread evenly over all classes.
    assert report.metrics["val_loss"] == pytest.approx(0.75 * log_loss - 0.25 * logs.mean(), rel=1e-4)


def test_first_loss_is_that_of_a_training_by_hand(digits):
    # One batch, no momentum or decay: the second epoch's training loss is the loss after one plain gradient step.
    recipe = Recipe(batch_size=10**6, momentum=0.0, weight_decay=0.0, clip=0, warmup=0.0, schedule="constant")
    topology = chain(op("conv", channels=4, norm=False))
    training = Training(topology, digits, recipe, epochs=2, seed=1)
    model = Training(topology, digits, recipe, epochs=2, seed=1).model
    x = torch.from_numpy(((digits.train.x - digits.mean) / digits.std).astype(np.float32))
    y = torch.from_numpy(digits.train.y)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
        after = torch.nn.functional.cross_entropy(model(x), y)
    first, second = (report.metrics["train_loss"] for report in training.reports())
    assert first == pytest.approx(loss.item(), rel=1e-4)
    assert second == pytest.approx(after.item(), rel=1e-4)


def test_regression_is_in_natural_units(quadratic):
    training = Training(MLP, quadratic, Recipe(weight_decay=0.0), epochs=30, seed=0)
    last = list(training.reports())[-1].metrics
    assert last["val_r2"] > 0.8
    guess = predict(MLP, training.weights(), quadratic, "validation")
    assert last["val_r2"] == pytest.approx(oracle.r2_score(quadratic.validation.y, guess), abs=1e-5)
    assert last["val_mse"] == pytest.approx(oracle.mean_squared_error(quadratic.validation.y, guess), rel=1e-4)
    assert last["val_loss"] == pytest.approx(last["val_mse"] / quadratic.target_std**2, rel=1e-3)
    test = predict(MLP, training.weights(), quadratic)
    found = evaluate(MLP, training.weights(), quadratic)
    assert found["test_r2"] == pytest.approx(oracle.r2_score(quadratic.test.y, test), abs=1e-5)
    assert float(facts(training.weights())["target_mean"]) == quadratic.target_mean


def test_weights_give_back_the_reported_metrics(digits):
    training = Training(SMALL, digits, Recipe(), epochs=2, seed=0)
    last = list(training.reports())[-1].metrics
    found = evaluate(SMALL, training.weights(), digits, "validation")
    assert found["val_accuracy"] == last["val_accuracy"]
    assert found["val_log_loss"] == pytest.approx(last["val_log_loss"])
    probabilities = predict(SMALL, training.weights(), digits, "validation")
    assert probabilities.sum(1) == pytest.approx(1, abs=1e-5)
    assert (probabilities.argmax(1) == digits.validation.y).mean() == pytest.approx(last["val_accuracy"])


def test_weights_of_another_network_are_refused(digits):
    weights = Training(SMALL, digits, Recipe(), epochs=1, seed=0).weights()
    with pytest.raises(CheckpointError, match="load them into their own"):
        evaluate(MLP, weights, digits)
    with pytest.raises(CheckpointError, match="not weights"):
        unpack(b"nonsense", SMALL)


def test_packing_keeps_every_tensor(digits):
    model = Training(SMALL, digits, Recipe(), epochs=1, seed=0).model
    found = unpack(pack(model, SMALL), SMALL)
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in model.state_dict().items())


def test_a_training_split_alone_has_no_test(digits):
    weights = Training(SMALL, digits, Recipe(), epochs=1, seed=0).weights()
    with pytest.raises(DataError, match="test split"):
        evaluate(SMALL, weights, digits.without_test())


@pytest.mark.parametrize(("count", "batch"), [(65, 64), (2, 64), (3, 2), (10, 1), (7, 3)])
def test_batches_of_any_size_train_with_batch_norm(digits, count, batch):
    few = dataclasses.replace(digits, train=Split(digits.train.x[:count], digits.train.y[:count]))
    topology = chain(op("global_pool"), op("linear", features=4))  # batch norm over single values
    assert len(curve(topology, few, Recipe(batch_size=batch))) == 2


def test_one_sample_is_refused(digits):
    few = dataclasses.replace(digits, train=Split(digits.train.x[:1], digits.train.y[:1]))
    with pytest.raises(DataError, match="at least 2 samples"):
        load(few)


def test_augmentation_of_features_is_refused(quadratic):
    with pytest.raises(UsageError, match="images"):
        Training(MLP, quadratic, Recipe(augment="flip"), epochs=1, seed=0)


def test_a_rate_that_explodes_diverges(digits):
    topology = chain(op("conv", channels=8, norm=False))
    with pytest.raises(Diverged, match="not finite"):
        curve(topology, digits, Recipe(learning_rate=1e20, clip=0, warmup=0.0), epochs=20)


def test_a_stop_ends_it_at_a_step_boundary_without_a_report(digits):
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 25  # 18 steps an epoch and the boundary after it

    reports = list(train(SMALL, digits, Recipe(), epochs=100, seed=0, stop=stop))
    assert [report.epoch for report in reports] == [1]
    assert len(asked) == 26


def test_the_limit_ends_it_at_a_step_boundary(digits):
    times = iter(range(10**6))
    with pytest.raises(TimedOut, match="limit of 30 s"):
        list(train(SMALL, digits, Recipe(), epochs=100, seed=0, limit=30, clock=lambda: float(next(times))))


def test_memory_that_runs_out_is_said_so(digits, monkeypatch):
    def exhausted(*_):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(module, "forward", exhausted)
    with pytest.raises(OutOfMemory, match="allocate"):
        curve(SMALL, digits)


def test_seconds_are_those_of_the_clock(digits):
    reports = list(train(SMALL, digits, Recipe(), epochs=2, seed=0))
    assert all(report.seconds > 0 and math.isfinite(report.seconds) for report in reports)
