"""Losses and metrics of a trained network on a whole split, in natural units and double precision."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor


def accuracy(logits: Tensor, target: Tensor) -> float:
    """Return the share of samples whose largest logit is their class, in [0, 1]. Logits (N, classes), target (N,)."""
    return (logits.argmax(1) == target).double().mean().item()


def balanced_accuracy(logits: Tensor, target: Tensor) -> float:
    """Return the mean recall over the classes that occur in ``target``, in [0, 1] (as scikit-learn defines it)."""
    classes = logits.shape[1]
    hit = logits.argmax(1) == target
    there = torch.bincount(target, minlength=classes).double()
    found = torch.bincount(target[hit], minlength=classes).double()
    present = there > 0
    return (found[present] / there[present]).mean().item()


def log_loss(logits: Tensor, target: Tensor) -> float:
    """Return the mean negative log likelihood in nats, >= 0."""
    return F.cross_entropy(logits.double(), target).item()


def mse(output: Tensor, target: Tensor) -> float:
    """Return the mean squared error of outputs and targets, both (N,), in squared units of the target."""
    return F.mse_loss(output.double(), target.double()).item()


def r2(output: Tensor, target: Tensor) -> float:
    """Return the coefficient of determination, at most 1; for a constant target 1 when it is met, else 0."""
    residual = (output.double() - target.double()).square().sum().item()
    spread = (target.double() - target.double().mean()).square().sum().item()
    if spread == 0:
        return 1.0 if residual == 0 else 0.0
    return 1.0 - residual / spread


CLASSIFICATION: Mapping[str, Callable[[Tensor, Tensor], float]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "log_loss": log_loss,
}
REGRESSION: Mapping[str, Callable[[Tensor, Tensor], float]] = {"r2": r2, "mse": mse}


def measure(task: str, output: Tensor, target: Tensor, prefix: str) -> dict[str, float]:
    """Return all metrics of a task by name with a prefix, e.g. ``val_accuracy``.

    Args:
        task: ``classification`` or ``regression``.
        output: logits (N, classes), or values (N,) in the target's natural units.
        target: classes (N,) int64, or values (N,).
        prefix: ``val_`` or ``test_``.
    """
    metrics = CLASSIFICATION if task == "classification" else REGRESSION
    return {prefix + name: metric(output, target) for name, metric in metrics.items()}
