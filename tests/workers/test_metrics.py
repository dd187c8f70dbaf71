"""Metrics against scikit-learn's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from detol.workers.metrics import accuracy, balanced_accuracy, log_loss, measure, mse, r2


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 60), classes=st.integers(2, 7))
def test_classification_metrics_are_those_of_scikit_learn(seed, count, classes):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(count, classes)) * 3
    target = rng.integers(0, classes, count)  # some classes may be missing, as in a small validation split
    guess, there = logits.argmax(1), np.unique(target)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    x, y = torch.tensor(logits), torch.tensor(target)
    assert accuracy(x, y) == pytest.approx(oracle.accuracy_score(target, guess))
    recall = oracle.recall_score(target, guess, labels=there, average="macro", zero_division=0)
    assert balanced_accuracy(x, y) == pytest.approx(recall)
    assert log_loss(x, y) == pytest.approx(oracle.log_loss(target, probabilities, labels=range(classes)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 60))
def test_regression_metrics_are_those_of_scikit_learn(seed, count):
    rng = np.random.default_rng(seed)
    guess, target = rng.normal(size=(2, count)) * 100 + 1e4
    assert mse(torch.tensor(guess), torch.tensor(target)) == pytest.approx(oracle.mean_squared_error(target, guess))
    assert r2(torch.tensor(guess), torch.tensor(target)) == pytest.approx(oracle.r2_score(target, guess))


def test_r2_of_a_constant_target():
    target = torch.ones(4)
    assert r2(target, target) == 1
    assert r2(target + 1, target) == 0


def test_names_carry_the_prefix():
    assert set(measure("classification", torch.eye(3), torch.arange(3), "val_")) == {
        "val_accuracy",
        "val_balanced_accuracy",
        "val_log_loss",
    }
    assert set(measure("regression", torch.ones(3), torch.ones(3), "test_")) == {"test_r2", "test_mse"}
